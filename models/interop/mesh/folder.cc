#include "crosstalk/models/interop/mesh/folder.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/mesh/bundle.h"
#include "crosstalk/models/interop/mesh/gin.h"
#include "crosstalk/models/interop/names.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMaxGinBytes = 4 << 20;
constexpr uint64_t kMaxCheckpointFileBytes = 1 << 20;
constexpr std::string_view kIndexEnd = ".index";
constexpr std::string_view kCheckpointKey = "model_checkpoint_path:";

// The folder and name of a prefix: FOLDER/NAME.
struct BundlePlace {
  std::string folder;
  std::string name;
};

BundlePlace SplitPrefix(const std::string& prefix) {
  const size_t slash = prefix.rfind('/');
  if (slash == std::string::npos) return {".", prefix};
  return {slash == 0 ? "/" : prefix.substr(0, slash), prefix.substr(slash + 1)};
}

// The name that a folder's file `checkpoint` gives. It may be of a path where the checkpoint stood once; here it is in
// the folder.
std::string NamedByCheckpointFile(const std::string& path) {
  for (const std::string& line : Split(ReadFile(path, kMaxCheckpointFileBytes), '\n')) {
    if (!line.starts_with(kCheckpointKey)) continue;
    const size_t begin = line.find('"'), end = line.rfind('"');
    if (begin == std::string::npos || end <= begin) break;
    const std::vector<std::string> parts = Split(std::string_view(line).substr(begin + 1, end - begin - 1), '/');
    if (std::find(parts.begin(), parts.end(), "..") != parts.end() || !IsPlainName(parts.back())) {
      Fail(ErrorKind::kData, path, ": ", Excerpt(line), " is not the name of a checkpoint in this folder");
    }
    return parts.back();
  }
  Fail(ErrorKind::kData, path, ": has no line ", kCheckpointKey, " \"NAME\"");
}

std::vector<std::string> IndexesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : ListDirectory(folder)) {
    if (name.size() > kIndexEnd.size() && name.ends_with(kIndexEnd)) names.push_back(name);
  }
  return names;
}

BundlePlace FindBundle(const std::string& path) {
  if (KindOf(path) != PathKind::kDirectory) {
    const bool index = path.ends_with(kIndexEnd) && KindOf(path) == PathKind::kFile;
    return SplitPrefix(index ? path.substr(0, path.size() - kIndexEnd.size()) : path);
  }
  const std::string named = path + "/" + kMeshCheckpointName;
  if (KindOf(named) != PathKind::kNothing) return {path, NamedByCheckpointFile(named)};
  const std::vector<std::string> indexes = IndexesIn(path);
  if (indexes.size() != 1) {
    Fail(ErrorKind::kData, path, ": has no file ", kMeshCheckpointName, " and ", indexes.size(),
         " checkpoints; name one, as ", path, "/model.ckpt-1000");
  }
  return {path, indexes[0].substr(0, indexes[0].size() - kIndexEnd.size())};
}

// "NAME_slot_vr" is an optimizer's state of NAME.
bool IsSlot(std::string_view name) {
  const size_t slash = name.rfind('/');
  return name.find("_slot_", slash == std::string_view::npos ? 0 : slash) != std::string_view::npos;
}

// Resources and variants are no data of a model either.
bool IsNoNumber(int64_t type) { return type == kBundleString || type == kBundleResource || type == kBundleVariant; }

}  // namespace

bool IsMeshCheckpoint(const std::string& path) {
  if (KindOf(path) != PathKind::kDirectory) {
    return (path.ends_with(kIndexEnd) && KindOf(path) == PathKind::kFile) ||
           KindOf(BundleIndexPath(path)) == PathKind::kFile;
  }
  return !HasManifest(path) &&
         (KindOf(path + "/" + kMeshCheckpointName) == PathKind::kFile || !IndexesIn(path).empty());
}

MeshFolder::MeshFolder(const std::string& path, const MeshOptions& options) : PublishedFolder(FindBundle(path).folder) {
  const std::string name = FindBundle(path).name;
  bundle_ = std::make_unique<TensorBundle>(FilePath(name));
  config_name_ = KindOf(FilePath(kMeshGinName)) == PathKind::kNothing ? name + std::string(kIndexEnd) : kMeshGinName;
  ReadConfiguration(options);
  ChooseTensors();
}

void MeshFolder::ReadConfiguration(const MeshOptions& options) {
  const std::string gin = FilePath(kMeshGinName);
  config_ = Json::MakeObject();
  if (KindOf(gin) != PathKind::kNothing) {
    config_ = ReadGin(ReadFile(gin, kMaxGinBytes), gin);
    for (const char* ours : {"feed_forward", "dynamic", "vocabulary"}) {
      if (config_.Find(ours) != nullptr) config_.Set(ours, Json());  // what it binds there is something else
    }
  }
  if (options.feed_forward) config_.Set("feed_forward", Name(*options.feed_forward));
  if (options.dynamic) config_.Set("dynamic", *options.dynamic);
  if (options.vocabulary) config_.Set("vocabulary", *options.vocabulary);
  config_text_ = config_.DumpPretty();
}

void MeshFolder::ChooseTensors() {
  int64_t slots = 0, others = 0;
  for (const BundleEntry& entry : bundle_->index().entries) {
    if (entry.name == kMeshStepName) {
      if (entry.type == kBundleInt64 && entry.shape.rank() == 0) {
        metadata_[kMeshStepName] = std::to_string(*bundle_->Read(entry).data<int64_t>());
      }
    } else if (IsSlot(entry.name)) {
      ++slots;
    } else if (IsNoNumber(entry.type)) {
      ++others;
    } else if (entry.type == kBundleBFloat16 || entry.type == kBundleFloat32) {
      tensors_[entry.name] = {entry.type == kBundleFloat32 ? "F32" : "BF16", entry.shape};
    } else {
      Fail(ErrorKind::kData, path_, ": tensor ", Quoted(entry.name), " is ", BundleTypeName(entry.type),
           "; weights of float32 and bfloat16 can be read");
    }
  }
  if (slots > 0) remarks_.push_back(StrCat(slots, " tensors of its optimizer (…_slot_…) are passed over"));
  if (const auto step = metadata_.find(kMeshStepName); step != metadata_.end()) {
    remarks_.push_back(StrCat("its ", kMeshStepName, ", ", step->second, ", is kept for an export alone"));
  }
  if (others > 0) remarks_.push_back(StrCat(others, " tensors that are no numbers are passed over"));
}

const PublishedForm& MeshFolder::form() const { return kPublishedMeshT5; }

Tensor MeshFolder::ReadTensor(const std::string& name) const { return bundle_->Read(*bundle_->index().Find(name)); }

namespace {

// The record of an import whose names are still those of the model's tensors; null else: heads that talk since have
// others.
const PublishedRecord* UsableRecord(const Trained& any, const PublishedNames& names) {
  const PublishedRecord* const record = RecordOf(any, PublishedFormat::kMesh);
  if (record == nullptr) return nullptr;
  const bool all = std::all_of(record->tensors.begin(), record->tensors.end(), [&](const auto& stored) {
    return names.IsWithoutEffect(stored.name) || !names.PathsOf(names.Usual(stored.name, {})).empty();
  });
  return all ? record : nullptr;
}

// That of the checkpoint which was imported, or of ours.
int64_t StepOf(const Trained& any) {
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
  for (const TensorSource& named : weights.tensors) {
    tensors.push_back(
        {named.name, weights.halves.count(named.name) > 0 ? kBundleBFloat16 : kBundleFloat32, named.read()});
  }
  tensors.push_back({kMeshStepName, kBundleInt64, Tensor::FromValues<int64_t>({}, {step})});
  return tensors;
}

constexpr char kGinComment[] =
    "# What this checkpoint's model is, as Crosstalk writes it: dimensions, layers, activation, projections of heads.\n"
    "# How it was trained is not said.\n";

// Reads the folder back and compares each tensor with what was to be written, bit for bit.
void CheckWrittenCheckpoint(const Trained& any, const PublishedForm& form, const MeshFolder& written,
                            const std::vector<BundleTensor>& tensors) {
  const auto reject = [&any](const auto&... parts) {
    Fail(ErrorKind::kFailure, any.checkpoint, ": cannot be written: read back, ", parts...);
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
  const Json read = form.read(PublishedConfig(written.config(), written.ConfigPath(), shapes)).ToJson();
  if (!SameConfiguration(any.model->config().ToJson(), read)) reject("it is another model: ", Excerpt(read.Dump()));
}

}  // namespace

ExportResult ExportMesh(const Trained& any, const std::string& out, const ExportOptions& options) {
  CROSSTALK_CHECK_FIELD(options.extensions == Extensions::kRefuse, "with_extensions",
                        "is of the format huggingface; that of Mesh TensorFlow has no place for them");
  CROSSTALK_CHECK_FIELD(options.dtype != ExportDType::kFloat16, "dtype",
                        "float16 is not a type of weights in the format mesh; float32 and bfloat16 are");
  const std::string kind = any.model->config().name;
  const std::vector<const PublishedForm*> forms = FormsOf(kind, PublishedFormat::kMesh);
  const PublishedForm* const form = forms.empty() ? nullptr : forms.front();
  CROSSTALK_CHECK(form != nullptr, any.checkpoint, ": is a model of the kind ", Quoted(kind),
                  ", which has no form in Mesh TensorFlow; a t5 has one");
  const std::vector<std::string> refused = NotPublishable(*any.model, *form);
  CROSSTALK_CHECK(refused.empty(), any.checkpoint, ": the format of Mesh TensorFlow cannot say of it", Lines(refused));
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
  const std::string name = StrCat("model.ckpt-", step);
  WriteExportFile(folder, out, kMeshCheckpointName,
                  StrCat("model_checkpoint_path: \"", name, "\"\nall_model_checkpoint_paths: \"", name, "\"\n"));
  WriteExportFile(folder, out, kMeshGinName, kGinComment + WriteGin(form->write(any.model->config())));
  for (const KeptFile& kept : files) WriteExportFile(folder, out, kept.name, kept.contents);
  WriteTensorBundle(folder + "/" + name, out + "/" + name, tensors);
  ThrowIfStopped(options.stop);
  const MeshFolder written(folder, {});
  CheckWrittenCheckpoint(any, *form, written, tensors);
  if (any.tokenizer != nullptr && !files.empty()) CheckWrittenTokenizer(any, written);
  ThrowIfStopped(options.stop);
  transaction.Commit();
  return result;
}

}  // namespace crosstalk
