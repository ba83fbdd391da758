// The inputs of `crosstalk generate`: texts of the user's, or ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/text_writer.h"

namespace crosstalk {

struct GenerateInput {
  std::string text;    // none of ids
  std::string source;  // "questions.txt, line 3"; empty: an option's value
};

// TEXT as it is, or of "-" all of standard input except its last line end. Error(kUsage) where it is no UTF-8 text.
std::vector<GenerateInput> ReadText(const std::string& text);
// The lines of a file, or of "-" standard input. Error(kData) that names the line where it is no UTF-8 text.
std::vector<GenerateInput> ReadLines(const std::string& path);
// The rows input_ids[b, n] of a safetensors file, with attention_mask[b, n], or without it all but padding.
// Error(kData) that names the file and the tensor.
std::vector<SearchInput> ReadIds(const std::string& path, int64_t vocabulary, int32_t pad);

}  // namespace crosstalk
