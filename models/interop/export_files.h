// The files of an export: its tokenizer's, and how each is written and read back.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crosstalk/models/interop/any_model.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/import.h"
#include "crosstalk/models/interop/published_folder.h"
#include "crosstalk/runtime/atomic_file.h"

namespace crosstalk {

// The tokenizer's files in a format: those that the model came with in it, else those that publish its tokenizer; none,
// with a remark, where it has no published form. Error where it has one that cannot say all of it.
std::vector<KeptFile> TokenizerFiles(const AnyModel& any, PublishedFormat format, ExportResult* result);

// Whoever reads the folder must read text as the model does: else Error(kFailure).
void CheckWrittenTokenizer(const AnyModel& any, const PublishedForm& form, const PublishedFolder& folder);

// Writes `name` into a folder that messages call `out`.
void WriteExportFile(const std::string& folder, const std::string& out, const std::string& name,
                     const std::function<void(FileWriter&)>& write);

}  // namespace crosstalk
