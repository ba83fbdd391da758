#include "crosstalk/nn/attention/json.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

template <typename Enum>
using Names = std::vector<std::pair<Enum, const char*>>;

const Names<AttentionForm> kForms = {{AttentionForm::kDotProduct, "dot-product"},
                                     {AttentionForm::kProjected, "projected"},
                                     {AttentionForm::kBilinear, "bilinear"}};
const Names<KeyValueProjection> kKeyValues = {{KeyValueProjection::kSeparate, "separate"},
                                              {KeyValueProjection::kTied, "tied"}};
const Names<Causality> kCausalities = {{Causality::kNone, "none"}, {Causality::kCausal, "causal"}};
const Names<MixingInit> kMixingInits = {{MixingInit::kRandom, "random"}, {MixingInit::kIdentity, "identity"}};

struct MixingName {
  const char* name;
  bool HeadMixing::*member;
};
constexpr MixingName kMixings[] = {{"P_l", &HeadMixing::P_l},   {"P_w", &HeadMixing::P_w},
                                   {"P_Xl", &HeadMixing::P_Xl}, {"P_Ml", &HeadMixing::P_Ml},
                                   {"P_Xw", &HeadMixing::P_Xw}, {"P_Mw", &HeadMixing::P_Mw}};

template <typename Enum>
const char* NameOf(const Names<Enum>& names, Enum value) {
  for (const auto& [candidate, name] : names) {
    if (candidate == value) return name;
  }
  return "unknown";
}

template <typename Enum>
Enum ReadEnum(const JsonReader& reader, std::string_view key, const Names<Enum>& names) {
  const std::string& text = reader.String(key);
  std::string known;
  for (const auto& [value, name] : names) {
    if (text == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  reader.FailAt(key, "\"", text, "\" is not one of ", known);
}

}  // namespace

Json ToJson(const AttentionConfig& config) {
  Json mixing = Json::MakeArray();
  for (const MixingName& entry : kMixings) {
    if (config.mixing.*entry.member) mixing.Append(entry.name);
  }
  return Json::MakeObject({{"form", NameOf(kForms, config.form)},
                           {"d_X", config.d_X},
                           {"d_M", config.d_M},
                           {"d_Y", config.d_Y},
                           {"h_k", config.h_k},
                           {"h", config.h},
                           {"h_v", config.h_v},
                           {"d_k", config.d_k},
                           {"d_v", config.d_v},
                           {"mixing", std::move(mixing)},
                           {"key_value", NameOf(kKeyValues, config.key_value)},
                           {"scale", config.scale},
                           {"causality", NameOf(kCausalities, config.causality)},
                           {"dropout_rate", config.dropout_rate},
                           {"mixing_init", NameOf(kMixingInits, config.mixing_init)},
                           {"implementation", Name(config.implementation)}});
}

AttentionConfig AttentionConfigFromJson(const JsonReader& reader) {
  AttentionConfig config;
  config.form = ReadEnum(reader, "form", kForms);
  config.d_X = reader.Int("d_X");
  config.d_M = reader.Int("d_M");
  config.d_Y = reader.Int("d_Y");
  config.h_k = reader.Int("h_k");
  config.h = reader.Int("h");
  config.h_v = reader.Int("h_v");
  config.d_k = reader.Int("d_k");
  config.d_v = reader.Int("d_v");
  for (const Json& name : reader.Array("mixing")) {
    bool known = false;
    for (const MixingName& entry : kMixings) {
      if (!name.is_string() || name.AsString() != entry.name) continue;
      config.mixing.*entry.member = true;
      known = true;
    }
    if (!known) reader.FailAt("mixing", name.Dump(), " is not one of P_l, P_w, P_Xl, P_Ml, P_Xw, P_Mw");
  }
  config.key_value = ReadEnum(reader, "key_value", kKeyValues);
  config.scale = reader.Double("scale");
  config.causality = ReadEnum(reader, "causality", kCausalities);
  config.dropout_rate = reader.Double("dropout_rate");
  config.mixing_init = ReadEnum(reader, "mixing_init", kMixingInits);
  const std::string& implementation = reader.String("implementation");
  reader.RejectUnread();
  try {
    config.implementation = ParseAttentionImplementation(implementation);
    config.Validate();
  } catch (const Error& error) {
    reader.FailAt("form", "describes an attention layer that cannot be: ", error.what());
  }
  return config;
}

}  // namespace crosstalk
