// The part of a corpus held out for validation, where no text is named for it; see OpenFileCorpus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/text_file.h"

namespace crosstalk {

struct InputFile {
  std::shared_ptr<const TextFile> file;
  std::string relative_path;
};

// Of several files: true for those that are held out.
std::vector<bool> ChooseHeldOut(const std::vector<InputFile>& files, uint64_t seed, double share);

// Of a single file: where its end that is held out begins. Error(kData) if there is no place to cut it at.
size_t HeldOutBegin(const TextFile& file, double share);

}  // namespace crosstalk
