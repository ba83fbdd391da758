#include "crosstalk/models/interop/export_files.h"

#include <memory>
#include <utility>

#include "crosstalk/models/interop/export_weights.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr const char* kHfSentencePieceName = "spiece.model";

}  // namespace

std::vector<KeptFile> TokenizerFiles(const AnyModel& any, PublishedFormat format, ExportResult* result) {
  if (RecordOf(any, format) != nullptr && !any.imported->files.empty()) return any.imported->files;
  std::vector<KeptFile> files;
  if (any.tokenizer == nullptr) return files;
  try {
    for (auto& [name, contents] : any.tokenizer->PublishedFiles()) {
      if (format == PublishedFormat::kHuggingFace) files.push_back({name, contents});
      if (format == PublishedFormat::kMesh && name == kHfSentencePieceName) {
        files.push_back({kMeshTokenizerName, contents});
      }
    }
  } catch (const Error& error) {
    Fail(error.kind(), any.source, ": its tokenizer cannot be written: ", error.what());
  }
  if (files.empty()) {
    result->remarks.push_back(
        StrCat("a tokenizer of kind ", any.tokenizer->kind(), " has no published form; it is not written"));
  }
  return files;
}

void CheckWrittenTokenizer(const AnyModel& any, const PublishedForm& form, const PublishedFolder& folder) {
  std::vector<std::string> remarks;
  const std::unique_ptr<Tokenizer> written = PublishedTokenizer(folder, *any.model, form, &remarks);
  const std::string difference =
      written == nullptr ? Join(remarks, "; ") : TokenizerDifference(*any.tokenizer, *written);
  if (!difference.empty()) {
    Fail(ErrorKind::kFailure, any.source, ": its tokenizer cannot be written: read back, it ", difference);
  }
}

void WriteExportFile(const std::string& folder, const std::string& out, const std::string& name,
                     const std::function<void(FileWriter&)>& write) {
  FileWriter writer(folder + "/" + name, out + "/" + name);
  write(writer);
  writer.Finish();
}

}  // namespace crosstalk
