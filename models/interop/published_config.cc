#include "crosstalk/models/interop/published_config.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "crosstalk/models/model_config.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

const Json* PublishedConfig::Find(std::string_view key) const {
  const Json* const value = json_->Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool PublishedConfig::Has(std::string_view key) const { return Find(key) != nullptr; }

bool PublishedConfig::IsNull(std::string_view key) const {
  const Json* const value = json_->Find(key);
  return value != nullptr && value->is_null();
}

int64_t PublishedConfig::Int(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
  const Json* const value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_int()) FailAt(key, "must be an integer, but is ", Name(value->type()));
  const int64_t number = value->AsInt();
  if (number < low || number > high) FailAt(key, number, " is not between ", low, " and ", high);
  return number;
}

double PublishedConfig::Double(std::string_view key, double fallback, double low, double high) const {
  const Json* const value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) FailAt(key, "must be a number, but is ", Name(value->type()));
  const double number = value->AsDouble();
  if (!(number >= low && number <= high)) FailAt(key, number, " is not between ", low, " and ", high);
  return number;
}

bool PublishedConfig::Bool(std::string_view key, bool fallback) const {
  const Json* const value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) FailAt(key, "must be true or false, but is ", Name(value->type()));
  return value->AsBool();
}

std::string PublishedConfig::String(std::string_view key, const std::string& fallback) const {
  const Json* const value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) FailAt(key, "must be a string, but is ", Name(value->type()));
  return value->AsString();
}

int32_t PublishedConfig::Token(std::string_view key, int64_t fallback, int64_t vocabulary) const {
  const int64_t id = Int(key, fallback, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  if (id == kNoToken && !Has(key)) return kNoToken;
  if (id < 0 || id >= vocabulary) FailAt(key, id, " is not an id of a vocabulary of ", vocabulary);
  return static_cast<int32_t>(id);
}

const Json& PublishedConfig::NoJson() {
  static const Json& none = *new Json();
  return none;
}

void PublishedConfig::ReadEnds(int64_t fallback, ModelConfig& model) const {
  constexpr const char* kKey = "eos_token_id";
  const auto ids_of = [&](const Json* value) {
    std::vector<int32_t> ids;
    const auto add = [&](const Json& id) {
      if (!id.is_int() || id.AsInt() < 0 || id.AsInt() >= model.vocabulary) {
        FailAt(kKey, Excerpt(id.Dump()), " is not an id of a vocabulary of ", model.vocabulary);
      }
      ids.push_back(static_cast<int32_t>(id.AsInt()));
    };
    if (value == nullptr || value->is_null()) return ids;
    if (!value->is_array()) {
      add(*value);
    } else {
      for (const Json& id : value->AsArray()) add(id);
    }
    return ids;
  };
  std::vector<int32_t> own = ids_of(Find(kKey)), ends = ids_of(generation_->Find(kKey));
  if (own.empty()) own = {static_cast<int32_t>(fallback)};
  if (ends.empty()) ends = own;
  const auto first = std::find(ends.begin(), ends.end(), own[0]);
  if (first != ends.end()) std::rotate(ends.begin(), first, first + 1);
  model.tokens.end = ends[0];
  model.more_ends.assign(ends.begin() + 1, ends.end());
}

Json EndsOf(const ModelConfig& model) {
  if (model.tokens.end == kNoToken) return {};
  Json ends = int64_t{model.tokens.end};
  if (!model.more_ends.empty()) {
    ends = Json::MakeArray({ends});
    for (const int32_t id : model.more_ends) ends.Append(int64_t{id});
  }
  return ends;
}

bool PublishedConfig::IsUntied(const std::string& head, const std::string& embedding) const {
  if (!HasTensor(head)) return false;
  return !HasTensor(embedding) ? false : differ_ == nullptr || differ_(head, embedding);
}

std::vector<std::string> PublishedConfig::Architectures() const {
  std::vector<std::string> names;
  const Json* const value = Find("architectures");
  if (value == nullptr) return names;
  if (!value->is_array()) FailAt("architectures", "must be a list, but is ", Name(value->type()));
  for (const Json& name : value->AsArray()) {
    if (!name.is_string()) FailAt("architectures", Excerpt(name.Dump()), " is not a name");
    names.push_back(name.AsString());
  }
  return names;
}

void PublishedConfig::MustBe(std::string_view key, const Json& value) const {
  const Json* const there = Find(key);
  if (there == nullptr || *there == value) return;
  const bool empty =
      (there->is_object() && there->AsObject().empty()) || (there->is_array() && there->AsArray().empty());
  if (value.is_null() && empty) return;
  FailAt(key, Excerpt(there->Dump()), " cannot be computed here",
         value.is_null() ? std::string() : "; " + value.Dump() + " can");
}

const Shape* PublishedConfig::FindShape(std::string_view name) const {
  const auto found = tensors_->find(name);
  return found == tensors_->end() ? nullptr : &found->second;
}

bool PublishedConfig::HasTensorsOf(std::string_view prefix) const {
  const auto first = tensors_->lower_bound(prefix);
  return first != tensors_->end() && first->first.starts_with(prefix);
}

std::string PublishedConfig::FirstTensor(std::initializer_list<std::string> names) const {
  const auto first = std::find_if(names.begin(), names.end(), [&](const std::string& name) { return HasTensor(name); });
  return first == names.end() ? *names.begin() : *first;
}

void PublishedConfig::CheckShape(std::string_view keys, std::string_view tensor, const Shape& shape) const {
  const Shape* const found = FindShape(tensor);
  if (found == nullptr) FailAt(keys, "there is no tensor '", tensor, "', which would be ", shape);
  if (*found != shape) FailAt(keys, "the tensor '", tensor, "' would be ", shape, ", but is ", *found);
}

int64_t PublishedConfig::TensorSize(std::string_view tensor, int dim) const {
  const Shape* const found = FindShape(tensor);
  if (found == nullptr || found->rank() <= dim) {
    FailAt("architectures", "there is no tensor '", tensor, "' of rank ", dim + 1, " or more");
  }
  return (*found)[dim];
}

AttentionOptions OptionsOf(const AttentionConfig& layer) {
  AttentionOptions options = {.heads = layer.h, .window = layer.window};
  if (layer.form == AttentionForm::kBilinear) {
    options.kind = AttentionKind::kBilinear;
    return options;
  }
  if (layer.h_k != layer.h) options.key_heads = layer.h_k;
  if (layer.h_v != layer.h) options.value_heads = layer.h_v;
  if (layer.d_k * layer.h_k != layer.d_X) options.key_size = layer.d_k;
  if (layer.d_v * layer.h_v != layer.d_X) options.value_size = layer.d_v;
  if (layer.g_k > 0 && layer.g_k == layer.g_v && layer.h_k == layer.h) options.kv_heads = layer.g_k;
  options.query_key_norm = layer.query_key_norm;
  options.mixing_group = layer.mixing_group;
  const HeadMixing& mixing = layer.mixing;
  options.kind = mixing.P_l && mixing.P_w ? AttentionKind::kTalking
                 : mixing.P_l             ? AttentionKind::kLogits
                 : mixing.P_w             ? AttentionKind::kWeights
                                          : AttentionKind::kMultihead;
  if (layer.dynamic_form == DynamicForm::kLowRank) options.kind = AttentionKind::kDcmha;
  if (layer.differential == Differential::kV1) options.kind = AttentionKind::kDiffV1;
  if (layer.differential == Differential::kV2) options.kind = AttentionKind::kDiffV2;
  if (layer.ConvolvesLogits()) {
    options.convolution = StrCat(layer.c_ql, "x", layer.c_kl);
    if (options.kind == AttentionKind::kTalking) options.kind = AttentionKind::kMta;
  }
  // Some kinds have a norm or a gate unless the options say otherwise.
  const bool says_norm = layer.ConvolvesLogits() || layer.differential != Differential::kNone;
  if (says_norm || layer.head_norm != HeadNorm::kNone) options.head_norm = layer.head_norm;
  if (says_norm || layer.head_gate != HeadGate::kNone) options.head_gate = layer.head_gate;
  std::vector<std::string> dynamic;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (IsDynamic(projection) && IsPresent(projection, layer)) dynamic.emplace_back(DynamicName(projection));
  }
  if (dynamic.size() == 4 && options.kind == AttentionKind::kTalking) {
    options.kind = AttentionKind::kDynamic;
  } else if (!dynamic.empty()) {
    options.dynamic = Join(dynamic, ",");
  }
  return options;
}

}  // namespace crosstalk
