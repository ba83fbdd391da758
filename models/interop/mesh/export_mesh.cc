#include "crosstalk/models/interop/mesh/export_mesh.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "crosstalk/models/interop/export_files.h"
#include "crosstalk/models/interop/export_weights.h"
#include "crosstalk/models/interop/mesh/gin.h"
#include "crosstalk/models/interop/mesh/mesh_folder.h"
#include "crosstalk/models/interop/mesh/tensor_bundle_writer.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/training/checkpoint_config.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The record of an import whose names are still those of the model's tensors; null else: heads that talk since have
// others.
const PublishedRecord* UsableRecord(const AnyModel& any, const PublishedNames& names) {
  const PublishedRecord* const record = RecordOf(any, PublishedFormat::kMesh);
  if (record == nullptr) return nullptr;
  const bool all = std::all_of(record->tensors.begin(), record->tensors.end(), [&](const auto& stored) {
    return names.IsWithoutEffect(stored.name) || !names.PathsOf(names.Usual(stored.name, {})).empty();
  });
  return all ? record : nullptr;
}

// That of the checkpoint which was imported, or of ours.
int64_t StepOf(const AnyModel& any) {
  const PublishedRecord* const record = RecordOf(any, PublishedFormat::kMesh);
  if (record == nullptr) return any.step;
  const auto found = record->metadata.find(kMeshStepName);
  if (found == record->metadata.end()) return 0;
  int64_t step = 0;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), step);
  return std::max<int64_t>(step, 0);
}

std::vector<BundleTensor> BundleOf(const PublishedWeights& weights, int64_t step) {
  std::vector<BundleTensor> tensors;
  for (const NamedTensor& named : weights.tensors) {
    tensors.push_back(
        {named.name, weights.halves.count(named.name) > 0 ? kBundleBFloat16 : kBundleFloat32, named.tensor});
  }
  tensors.push_back({kMeshStepName, kBundleInt64, Tensor::FromValues<int64_t>({}, {step})});
  return tensors;
}

std::string GinText(const ModelConfig& model, const PublishedForm& form) {
  return "# What this checkpoint's model is, as Crosstalk writes it: dimensions, layers, activation, projections of "
         "heads.\n"
         "# How it was trained is not said.\n" +
         WriteGin(form.write(model));
}

// Reads the folder back and compares each tensor with what was to be written, bit for bit.
void CheckWrittenCheckpoint(const AnyModel& any, const PublishedForm& form, const MeshFolder& written,
                            const std::vector<BundleTensor>& tensors) {
  const auto reject = [&any](const auto&... parts) {
    Fail(ErrorKind::kFailure, any.source, ": cannot be written: read back, ", parts...);
  };
  const BundleIndex& index = written.bundle().index();
  if (index.entries.size() != tensors.size()) {
    reject("there are ", index.entries.size(), " tensors, not ", tensors.size());
  }
  for (const BundleTensor& tensor : tensors) {
    const BundleEntry* const entry = index.Find(tensor.name);
    if (entry == nullptr || entry->type != tensor.type || entry->shape != tensor.tensor.shape() ||
        BundleBytes(written.bundle().Read(*entry), tensor.type) != BundleBytes(tensor.tensor, tensor.type)) {
      reject("the tensor ", Quoted(tensor.name), " is another");
    }
  }
  const PublishedNames names(form, nullptr);
  TensorShapes shapes;
  for (const auto& [name, entry] : written.tensors()) shapes.emplace(names.Usual(name, {}), entry.shape);
  const Json read = form.read(PublishedConfig(written.config(), written.ConfigPath(), shapes))->ToJson();
  if (!SameConfiguration(any.model->config().ToJson(), read)) reject("it is another model: ", Excerpt(read.Dump()));
}

}  // namespace

ExportResult ExportMesh(const AnyModel& any, const std::string& out, const ExportOptions& options) {
  CROSSTALK_CHECK_FIELD(options.extensions == Extensions::kRefuse, "with_extensions",
                        "is of the format huggingface; that of Mesh TensorFlow has no place for them");
  CROSSTALK_CHECK_FIELD(options.dtype != ExportDType::kFloat16, "dtype",
                        "float16 is not a type of weights in the format mesh; float32 and bfloat16 are");
  const std::string kind = any.model->config().model();
  const PublishedForm* const form = FormOf(kind, PublishedFormat::kMesh);
  CROSSTALK_CHECK(form != nullptr, any.source, ": is a model of the kind ", Quoted(kind),
                  ", which has no form in Mesh TensorFlow; a t5 has one");
  const std::vector<std::string> refused = NotPublishable(*any.model, *form);
  CROSSTALK_CHECK(refused.empty(), any.source, ": the format of Mesh TensorFlow cannot say of it", Lines(refused));
  const PublishedNames names(*form, &any.model->config());
  const PublishedWeights weights = WeightsOf(any, UsableRecord(any, names), names, options.dtype);
  const int64_t step = StepOf(any);
  const std::vector<BundleTensor> tensors = BundleOf(weights, step);
  ExportResult result;
  result.tensors = static_cast<int64_t>(tensors.size());
  const std::vector<KeptFile> files = TokenizerFiles(any, options.format, &result);
  AddRemarkOfWidened(weights, &result);
  ThrowIfStopped(options.stop);
  DirectoryTransaction transaction(out, OldDirectory::kKept);
  const std::string& folder = transaction.temporary_path();
  const std::string name = MeshCheckpointName(step);
  WriteExportFile(folder, out, kMeshCheckpointName, [&](FileWriter& file) {
    file.Write(StrCat("model_checkpoint_path: \"", name, "\"\nall_model_checkpoint_paths: \"", name, "\"\n"));
  });
  WriteExportFile(folder, out, kMeshGinName,
                  [&](FileWriter& file) { file.Write(GinText(any.model->config(), *form)); });
  for (const KeptFile& kept : files) {
    WriteExportFile(folder, out, kept.name, [&](FileWriter& file) { file.Write(kept.contents); });
  }
  WriteTensorBundle(folder + "/" + name, out + "/" + name, tensors);
  ThrowIfStopped(options.stop);
  const MeshFolder written(folder, {});
  CheckWrittenCheckpoint(any, *form, written, tensors);
  if (any.tokenizer != nullptr && !files.empty()) CheckWrittenTokenizer(any, *form, written);
  ThrowIfStopped(options.stop);
  transaction.Commit();
  return result;
}

}  // namespace crosstalk
