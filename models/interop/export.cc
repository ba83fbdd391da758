#include "crosstalk/models/interop/export.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <utility>

#include "crosstalk/models/interop/hugging_face.h"
#include "crosstalk/models/interop/mesh/folder.h"
#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// config.json: the one that it came with where that says what the model is, else with what the model has to say.
std::string ConfigText(const Trained& any, const PublishedRecord* record, const PublishedForm& form,
                       Extensions extensions, bool extended) {
  const Json ours = any.model->config().ToJson();
  Json config = Json::MakeObject();
  if (record != nullptr) {
    const std::string& text = record->config_text;
    config = ParseJson(text, any.checkpoint + ": config.json");
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

// The form to write a model in, and what that cannot say of it: as it came, if it came in that format; else the first
// that can say all of it, or the first.
struct FormToWrite {
  const PublishedForm* form = nullptr;
  std::vector<std::string> refused;
};
FormToWrite ChooseForm(const Trained& any, PublishedFormat format) {
  const bool came = RecordOf(any, format) != nullptr;
  FormToWrite first;
  for (const PublishedForm* form : came ? std::vector{FormOf(any)} : FormsOf(any.model->config().name, format)) {
    FormToWrite chosen = {form, NotPublishable(*any.model, *form)};
    if (chosen.refused.empty()) return chosen;
    if (first.form == nullptr) first = std::move(chosen);
  }
  return first;
}

}  // namespace

ExportResult ExportModel(const Trained& any, const std::string& out, const ExportOptions& options) {
  CheckNewDirectory(out);
  if (options.format == PublishedFormat::kMesh) return ExportMesh(any, out, options);
  const auto [found, refused] = ChooseForm(any, options.format);
  CROSSTALK_CHECK(found != nullptr, any.checkpoint, ": is a model of the kind ", Quoted(any.model->config().name),
                  ", which has no published form");
  const PublishedForm& form = *found;
  const PublishedRecord* const record = RecordOf(any, options.format);
  CROSSTALK_CHECK_FIELD(refused.empty() || options.extensions == Extensions::kWrite, "with_extensions",
                        "is needed for ", any.checkpoint, ": the published form of ", form.model_type,
                        " cannot say of it", Lines(refused));
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
  WriteExportFile(folder, out, kHfConfigName, config);
  for (const KeptFile& kept : files) WriteExportFile(folder, out, kept.name, kept.contents);
  FileWriter file(folder + "/" + kHfWeightsName, out + "/" + kHfWeightsName);
  WriteSafetensors(file, weights.tensors, metadata, weights.halves);
  file.Finish();
  if (any.tokenizer != nullptr && !files.empty()) CheckWrittenTokenizer(any, HuggingFaceFolder(folder));
  ThrowIfStopped(options.stop);
  transaction.Commit();
  return result;
}

namespace {

// Members of a configuration that change no bit of what a model computes in evaluation, or that a published
// configuration takes from the tokenizer.
constexpr const char* kUncompared[] = {"implementation", "mixing_init", "projection_stddev", "dropout_rate",
                                       "unknown",        "begin",       "separator",         "mask",
                                       "stddev",         "context",     "ends_texts",        "answers"};

void AddDifferences(const std::string& name, const Json& ours, const Json& theirs, std::vector<std::string>* lines) {
  if (ours == theirs) return;
  if (!ours.is_object() || !theirs.is_object()) {
    const bool both_numbers = ours.is_number() && theirs.is_number() && ours.AsDouble() == theirs.AsDouble();
    if (!both_numbers) lines->push_back(StrCat(name, " = ", Excerpt(ours.Dump())));
    return;
  }
  for (const auto& [key, value] : ours.AsObject()) {
    if (std::find(std::begin(kUncompared), std::end(kUncompared), key) != std::end(kUncompared)) continue;
    const Json* const other = theirs.Find(key);
    if (name == "tokens" && other != nullptr && *other == Json(kNoToken)) continue;  // the form speaks of no such token
    AddDifferences(name.empty() ? key : StrCat(name, ".", key), value, other == nullptr ? Json() : *other, lines);
  }
}

// All parameters under their usual published names.
std::map<std::string, NamedParameter> UsualParameters(const Model& model, const PublishedNames& names) {
  std::map<std::string, NamedParameter> parameters;
  for (const NamedParameter& parameter : model.Parameters()) {
    parameters.emplace(names.UsualName(parameter.name).name, parameter);
  }
  return parameters;
}

// "encoder.block_*.self_attention.P_l": the layers as one.
std::string WithoutNumbers(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c < '0' || c > '9') {
      text += c;
    } else if (text.empty() || text.back() != '*') {
      text += '*';
    }
  }
  return text;
}

Tensor PublishedValue(const NamedParameter& parameter, const PublishedNames& names, int64_t vocabulary) {
  return ToPublished(parameter.value.value(), names.UsualName(parameter.name).layout, parameter, vocabulary);
}

std::optional<HalfFormat> HalfOf(ExportDType dtype, const std::string& recorded) {
  switch (dtype) {
    case ExportDType::kFloat32:
      return std::nullopt;
    case ExportDType::kFloat16:
      return HalfFormat::kFloat16;
    case ExportDType::kBFloat16:
      return HalfFormat::kBFloat16;
    case ExportDType::kKeep:
      break;
  }
  if (recorded == "F16") return HalfFormat::kFloat16;
  if (recorded == "BF16") return HalfFormat::kBFloat16;
  return std::nullopt;
}

bool HoldsExactly(HalfFormat format, const Tensor& tensor) {
  const float* const values = tensor.data<float>();
  return std::all_of(values, values + tensor.num_elements(), [&](float value) {
    return std::bit_cast<uint32_t>(Widen(format, Narrow(format, value))) == std::bit_cast<uint32_t>(value);
  });
}

// Adds a tensor; `recorded` is the type that it had.
void AddTensor(TensorSource source, const std::string& recorded, ExportDType dtype, PublishedWeights* weights) {
  const std::optional<HalfFormat> half = HalfOf(dtype, recorded);
  if (half && source.dtype == DType::kFloat32) {
    if (dtype == ExportDType::kKeep && !HoldsExactly(*half, source.read())) {
      weights->widened.push_back(source.name);
    } else {
      weights->halves.emplace(source.name, *half);
    }
  }
  weights->tensors.push_back(std::move(source));
}

// A tensor of one parameter, or of several, which are its parts in order. Error(kUsage) for parts of different shapes.
TensorSource SourceOf(const std::string& name, const std::vector<NamedParameter>& parts, const PublishedNames& names,
                      const Trained& any) {
  const int64_t ids = any.model->config().vocabulary;
  const auto shape_of = [&](const NamedParameter& part) {
    return PublishedShape(names.UsualName(part.name).layout, part, ids);
  };
  Shape shape = shape_of(parts[0]);
  for (const NamedParameter& part : parts) {
    CROSSTALK_CHECK(shape_of(part) == shape, any.checkpoint, ": ", part.name, " is ", shape_of(part), " and ",
                    parts[0].name, " is ", shape, ", but ", name, " has equal parts in the published form");
  }
  if (parts.size() > 1) shape[shape.rank() - 1] *= std::ssize(parts);
  const auto read = [name, parts, &names, ids] {
    if (parts.size() == 1) return PublishedValue(parts[0], names, ids);
    std::vector<NamedTensor> values;
    for (const NamedParameter& part : parts) {
      values.push_back({PartName(name, static_cast<int>(values.size())), PublishedValue(part, names, ids)});
    }
    return JoinParts(values)[0].tensor;
  };
  return {name, parts[0].value.dtype(), shape, read};
}

}  // namespace

bool SameConfiguration(const Json& ours, const Json& theirs) {
  std::vector<std::string> lines;
  AddDifferences("", ours, theirs, &lines);
  return lines.empty();
}

PublishedWeights WeightsOf(const Trained& any, const PublishedRecord* record, const PublishedNames& names,
                           ExportDType dtype) {
  PublishedWeights weights;
  std::map<std::string, NamedParameter> by_path;
  for (const NamedParameter& parameter : any.model->Parameters()) by_path.emplace(parameter.name, parameter);
  std::set<std::string> written;  // paths
  // Adds the parameter of a usual name, if there is one.
  const auto add = [&](const std::string& usual, std::vector<NamedParameter>* parts) {
    std::vector<PublishedName> paths = names.PathsOf(usual);
    if (IsExtension(usual)) paths = {{usual.substr(kExtensionPrefix.size()), Layout::kSame}};
    const auto path =
        std::find_if(paths.begin(), paths.end(), [&](const PublishedName& one) { return by_path.count(one.name) > 0; });
    if (path == paths.end()) return;
    written.insert(path->name);
    parts->push_back(by_path.at(path->name));
  };
  if (record != nullptr) {
    std::vector<std::string> all;
    for (const PublishedRecord::StoredTensor& stored : record->tensors) all.push_back(stored.name);
    const NamePrefix prefix = names.PrefixOf(all, any.checkpoint);
    std::map<std::string, Tensor> kept;
    for (const NamedTensor& tensor : record->without_effect) kept.emplace(tensor.name, tensor.tensor);
    for (const PublishedRecord::StoredTensor& stored : record->tensors) {
      if (const auto found = kept.find(stored.name); found != kept.end()) {
        const Tensor& tensor = found->second;
        AddTensor({stored.name, tensor.dtype(), tensor.shape(), [tensor] { return tensor; }}, stored.dtype, dtype,
                  &weights);
        continue;
      }
      const std::string usual = names.Usual(stored.name, prefix);
      const int count = names.PartsOf(usual);
      std::vector<NamedParameter> parts;
      for (int i = 0; i < std::max(count, 1); ++i) add(count > 0 ? PartName(usual, i) : usual, &parts);
      if (std::ssize(parts) < std::max(count, 1)) {
        Fail(ErrorKind::kData, any.checkpoint, ": the tensor ", Quoted(stored.name),
             " that it was imported with belongs to none of its parameters");
      }
      AddTensor(SourceOf(stored.name, parts, names, any), stored.dtype, dtype, &weights);
    }
  }
  std::map<std::string, std::vector<NamedParameter>> others;
  for (const auto& [name, parameter] : UsualParameters(*any.model, names)) {
    if (written.count(parameter.name) > 0) continue;
    const auto part = WholeAndPart(name);
    others[part ? part->first : name].push_back(parameter);
  }
  for (const auto& [name, parts] : others) AddTensor(SourceOf(name, parts, names, any), "F32", dtype, &weights);
  return weights;
}

const PublishedRecord* RecordOf(const Trained& any, PublishedFormat format) {
  return any.imported != nullptr && any.imported->record.format == format ? &any.imported->record : nullptr;
}

void AddRemarkOfWidened(const PublishedWeights& weights, ExportResult* result) {
  if (weights.widened.empty()) return;
  result->remarks.push_back(StrCat(weights.widened.size(), " tensors, as ", weights.widened.front(),
                                   ", no longer fit the 16 bits that they came in, and are float32"));
}

std::vector<std::string> NotPublishable(const Model& model, const PublishedForm& form) {
  const PublishedNames names(form, &model.config());
  const int64_t vocabulary = model.config().vocabulary;
  std::vector<std::string> lines;
  TensorShapes shapes;
  for (const auto& [name, parameter] : UsualParameters(model, names)) {
    const Shape& shape = parameter.value.value().shape();
    if (IsExtension(name)) {
      const std::string line = StrCat("the parameter ", WithoutNumbers(parameter.name), shape);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
      continue;
    }
    shapes.emplace(name, PublishedShape(names.UsualName(parameter.name).layout, parameter, vocabulary));
  }
  const Json config = form.write(model.config());
  try {
    AddDifferences("", model.config().ToJson(), form.read(PublishedConfig(config, form.config_name, shapes)).ToJson(),
                   &lines);
  } catch (const Error& error) {
    lines.push_back(error.what());
  }
  return lines;
}

namespace {

constexpr const char* kHfSentencePieceName = "spiece.model";

}  // namespace

std::vector<KeptFile> TokenizerFiles(const Trained& any, PublishedFormat format, ExportResult* result) {
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
    Fail(error.kind(), any.checkpoint, ": its tokenizer cannot be written: ", error.what());
  }
  if (files.empty()) {
    result->remarks.push_back(
        StrCat("a tokenizer of kind ", any.tokenizer->kind(), " has no published form; it is not written"));
  }
  return files;
}

void CheckWrittenTokenizer(const Trained& any, const PublishedFolder& folder) {
  std::vector<std::string> remarks;
  const std::shared_ptr<const Tokenizer> written = PublishedTokenizer(folder, *any.model, &remarks);
  const std::string difference =
      written == nullptr ? Join(remarks, "; ") : TokenizerDifference(*any.tokenizer, *written);
  if (!difference.empty()) {
    Fail(ErrorKind::kFailure, any.checkpoint, ": its tokenizer cannot be written: read back, it ", difference);
  }
}

void WriteExportFile(const std::string& folder, const std::string& out, const std::string& name,
                     const std::string& contents) {
  FileWriter writer(folder + "/" + name, out + "/" + name);
  writer.Write(contents);
  writer.Finish();
}

}  // namespace crosstalk
