#include "crosstalk/models/interop/export_weights.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "crosstalk/models/interop/published_config.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// Members of a configuration that change no bit of what a model computes in evaluation, or that a published
// configuration takes from the tokenizer.
constexpr const char* kUncompared[] = {"implementation", "mixing_init", "projection_stddev", "dropout_rate",
                                       "unknown",        "begin",       "separator",         "mask",
                                       "stddev",         "context"};

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

void AddTensor(const std::string& name, const Tensor& value, const std::string& recorded, ExportDType dtype,
               PublishedWeights* weights) {
  weights->tensors.push_back({name, value});
  const std::optional<HalfFormat> half = HalfOf(dtype, recorded);
  if (!half || value.dtype() != DType::kFloat32) return;
  if (dtype == ExportDType::kKeep && !HoldsExactly(*half, value)) {
    weights->widened.push_back(name);
  } else {
    weights->halves.emplace(name, *half);
  }
}

}  // namespace

bool SameConfiguration(const Json& ours, const Json& theirs) {
  std::vector<std::string> lines;
  AddDifferences("", ours, theirs, &lines);
  return lines.empty();
}

PublishedWeights WeightsOf(const AnyModel& any, const PublishedRecord* record, const PublishedNames& names,
                           ExportDType dtype) {
  const int64_t vocabulary = any.model->config().vocabulary;
  PublishedWeights weights;
  std::map<std::string, NamedParameter> by_path;
  for (const NamedParameter& parameter : any.model->Parameters()) by_path.emplace(parameter.name, parameter);
  std::set<std::string> written;  // paths
  if (record != nullptr) {
    std::vector<std::string> all;
    for (const PublishedRecord::StoredTensor& stored : record->tensors) all.push_back(stored.name);
    const NamePrefix prefix = names.PrefixOf(all, any.source);
    std::map<std::string, Tensor> kept;
    for (const NamedTensor& tensor : record->without_effect) kept.emplace(tensor.name, tensor.tensor);
    for (const PublishedRecord::StoredTensor& stored : record->tensors) {
      if (const auto found = kept.find(stored.name); found != kept.end()) {
        AddTensor(stored.name, found->second, stored.dtype, dtype, &weights);
        continue;
      }
      std::vector<PublishedName> paths = names.PathsOf(names.Usual(stored.name, prefix));
      if (IsExtension(stored.name)) paths = {{stored.name.substr(kExtensionPrefix.size()), Layout::kSame}};
      const auto parameter = std::find_if(paths.begin(), paths.end(),
                                          [&](const PublishedName& path) { return by_path.count(path.name) > 0; });
      if (parameter == paths.end()) {
        Fail(ErrorKind::kData, any.source, ": the tensor ", Quoted(stored.name),
             " that it was imported with belongs to none of its parameters");
      }
      written.insert(parameter->name);
      AddTensor(stored.name, PublishedValue(by_path.at(parameter->name), names, vocabulary), stored.dtype, dtype,
                &weights);
    }
  }
  for (const auto& [name, parameter] : UsualParameters(*any.model, names)) {
    if (written.count(parameter.name) > 0) continue;
    AddTensor(name, PublishedValue(parameter, names, vocabulary), "F32", dtype, &weights);
  }
  return weights;
}

const PublishedRecord* RecordOf(const AnyModel& any, PublishedFormat format) {
  return any.imported && any.imported->record.format == format ? &any.imported->record : nullptr;
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
    shapes.emplace(name, PublishedValue(parameter, names, vocabulary).shape());
  }
  const Json config = form.write(model.config());
  try {
    AddDifferences("", model.config().ToJson(), form.read(PublishedConfig(config, form.config_name, shapes))->ToJson(),
                   &lines);
  } catch (const Error& error) {
    lines.push_back(error.what());
  }
  return lines;
}

}  // namespace crosstalk
