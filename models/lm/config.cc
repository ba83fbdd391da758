#include "crosstalk/models/lm/config.h"

#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config_fields.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

const FieldTable<LmConfig>& LmFields() {
  using Config = LmConfig;
  static const FieldTable<Config> table =
      Joined<Config>({MakeField("layers", &Config::layers, {}), MakeField("context", &Config::context, {}),
                      MakeObjectField("attention", &Config::attention, AttentionConfigFields()),
                      MakeAttentionListField("layer_attention", &Config::layer_attention),
                      MakeField("positions", &Config::positions, {})},
                     FieldsOfBase<Config>(ModelConfigFields()));
  return table;
}

}  // namespace

Json LmConfig::ToJson() const { return ModelJson(LmFields(), *this); }

void LmConfig::Validate() const {
  Check({&SpecialTokens::pad});
  CheckLayers("layers", layers);
  CROSSTALK_CHECK_FIELD(context >= 1, "context", context, " is less than 1");
  relative_bias().Validate(RelativeDirection::kUnidirectional);
  CheckModelAttention("attention", attention, d_model, Causality::kCausal);
  CheckLayerAttention("layer_attention", layer_attention, layers, d_model, Causality::kCausal);
}

std::vector<AttentionConfig*> LmConfig::AttentionLayers() {
  std::vector<AttentionConfig*> layers = {&attention};
  for (AttentionConfig& layer : layer_attention) layers.push_back(&layer);
  return layers;
}

std::unique_ptr<Model> LmConfig::Make(const Initializer& init) const { return std::make_unique<Lm>(*this, init); }

void LmConfig::KeepFrom(const ModelConfig& origin, const ModelConfig& before) {
  KeepOrigins(LmFields(), static_cast<const LmConfig&>(origin), static_cast<const LmConfig&>(before), *this);
}

std::unique_ptr<ModelConfig> ConfigureLm(const ModelOptions& options, const ModelPurpose& purpose) {
  auto config = std::make_unique<LmConfig>();
  config->SetFrom(options, purpose.vocabulary);
  config->layers = options.layers;
  config->context = purpose.input_length;
  config->attention = MakeAttentionLayer(options);
  config->layer_attention = MakeAttentionLayers(options, options.layers);
  for (AttentionConfig* const layer : config->AttentionLayers()) layer->causality = Causality::kCausal;
  config->positions = options.positions;
  config->Validate();
  return config;
}

std::unique_ptr<ModelConfig> ReadLmConfig(const Json& json, const std::string& source) {
  return std::make_unique<LmConfig>(ModelConfigFromJson(LmFields(), json, source));
}

}  // namespace crosstalk
