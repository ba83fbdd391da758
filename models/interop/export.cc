#include "crosstalk/models/interop/export.h"

#include <utility>

#include "crosstalk/models/interop/export_files.h"
#include "crosstalk/models/interop/export_weights.h"
#include "crosstalk/models/interop/hugging_face_folder.h"
#include "crosstalk/models/interop/mesh/export_mesh.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// config.json: the one that it came with where that says what the model is, else with what the model has to say.
std::string ConfigText(const AnyModel& any, const PublishedRecord* record, const PublishedForm& form,
                       Extensions extensions, bool extended) {
  const Json ours = any.model->config().ToJson();
  Json config = Json::MakeObject();
  if (record != nullptr) {
    const std::string& text = record->config_text;
    config = ParseJson(text, any.source + ": config.json");
    if (!extended && config.Find(kExtensionKey) == nullptr) return text;
    const Json* const before = config.Find(kExtensionKey);
    if (before != nullptr && SameConfiguration(ours, *before)) return text;
  }
  const Json written = form.write(any.model->config());
  for (const auto& [key, value] : written.AsObject()) {
    if (key == "architectures" && config.Find(key) != nullptr) continue;
    config.Set(key, value);
  }
  if (extended && extensions == Extensions::kWrite) config.Set(kExtensionKey, ours);
  return config.DumpPretty();
}

}  // namespace

ExportResult ExportModel(const AnyModel& any, const std::string& out, const ExportOptions& options) {
  CheckNewDirectory(out);
  if (options.format == PublishedFormat::kMesh) return ExportMesh(any, out, options);
  const PublishedForm* const found = any.form == nullptr ? nullptr : FormOf(any.model->config().model());
  CROSSTALK_CHECK(found != nullptr, any.source, ": is a model of the kind ", Quoted(any.model->config().model()),
                  ", which has no published form");
  const PublishedForm& form = *found;
  const PublishedRecord* const record = RecordOf(any, options.format);
  const std::vector<std::string> refused = NotPublishable(*any.model, form);
  CROSSTALK_CHECK_FIELD(refused.empty() || options.extensions == Extensions::kWrite, "with_extensions",
                        "is needed for ", any.source, ": the published form of ", form.model_type, " cannot say of it",
                        Lines(refused));
  const PublishedNames names(form, &any.model->config());
  const PublishedWeights weights = WeightsOf(any, record, names, options.dtype);
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (record != nullptr && !record->tensors.empty()) metadata = record->metadata;
  ExportResult result;
  result.tensors = static_cast<int64_t>(weights.tensors.size());
  const std::vector<KeptFile> files = TokenizerFiles(any, options.format, &result);
  AddRemarkOfWidened(weights, &result);
  if (!refused.empty()) {
    result.remarks.push_back(StrCat("what the published form cannot say is in the tensors ", kExtensionPrefix,
                                    "* and in the member ", kExtensionKey, " of config.json"));
  }
  const std::string config = ConfigText(any, record, form, options.extensions, !refused.empty());
  ThrowIfStopped(options.stop);
  DirectoryTransaction transaction(out, OldDirectory::kKept);
  const std::string& folder = transaction.temporary_path();
  WriteExportFile(folder, out, kHfConfigName, [&](FileWriter& file) { file.Write(config); });
  for (const KeptFile& kept : files) {
    WriteExportFile(folder, out, kept.name, [&](FileWriter& file) { file.Write(kept.contents); });
  }
  WriteExportFile(folder, out, kHfWeightsName,
                  [&](FileWriter& file) { WriteSafetensors(file, weights.tensors, metadata, weights.halves); });
  if (any.tokenizer != nullptr && !files.empty()) CheckWrittenTokenizer(any, form, HuggingFaceFolder(folder));
  ThrowIfStopped(options.stop);
  transaction.Commit();
  return result;
}

}  // namespace crosstalk
