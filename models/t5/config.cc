#include "crosstalk/models/t5/config.h"

#include <algorithm>

#include "crosstalk/models/model.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/attention/config_fields.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

const FieldTable<T5Config>& T5Fields() {
  using Config = T5Config;
  static const FieldTable<Config> table =
      Joined<Config>({MakeField("encoder_layers", &Config::encoder_layers, {}),
                      MakeField("decoder_layers", &Config::decoder_layers, {}),
                      MakeField("logit_scale", &Config::logit_scale, {.only_if_set = true, .of_the_origin = true}),
                      MakeObjectField("encoder_self", &Config::encoder_self, AttentionConfigFields()),
                      MakeObjectField("decoder_self", &Config::decoder_self, AttentionConfigFields()),
                      MakeObjectField("encoder_decoder", &Config::encoder_decoder, AttentionConfigFields()),
                      MakeAttentionListField("encoder_self_layers", &Config::encoder_self_layers),
                      MakeAttentionListField("decoder_self_layers", &Config::decoder_self_layers),
                      MakeAttentionListField("encoder_decoder_layers", &Config::encoder_decoder_layers)},
                     FieldsOfBase<Config>(ModelConfigFields()));
  return table;
}

}  // namespace

Json T5Config::ToJson() const { return ModelJson(T5Fields(), *this); }

void T5Config::SetAttention(const AttentionConfig& encoder_self_layer, const AttentionConfig& decoder_self_layer,
                            const AttentionConfig& encoder_decoder_layer) {
  encoder_self = encoder_self_layer;
  decoder_self = decoder_self_layer;
  encoder_decoder = encoder_decoder_layer;
  encoder_self_layers.clear();
  decoder_self_layers.clear();
  encoder_decoder_layers.clear();
  encoder_self.causality = encoder_decoder.causality = Causality::kNone;
  decoder_self.causality = Causality::kCausal;
  SetDropout(dropout_rate);
}

void T5Config::SetDropout(double rate) {
  dropout_rate = rate;
  for (AttentionConfig* const attention : AttentionLayers()) attention->dropout_rate = rate;
}

std::vector<AttentionConfig*> T5Config::AttentionLayers() {
  std::vector<AttentionConfig*> layers = {&encoder_self, &decoder_self, &encoder_decoder};
  for (auto* const list : {&encoder_self_layers, &decoder_self_layers, &encoder_decoder_layers}) {
    for (AttentionConfig& layer : *list) layers.push_back(&layer);
  }
  return layers;
}

void T5Config::Validate() const {
  Check({&SpecialTokens::pad, &SpecialTokens::end, &SpecialTokens::decoder_start});
  CheckLayers("encoder_layers", encoder_layers);
  if (decoder_layers != 0) CheckLayers("decoder_layers", decoder_layers);
  relative_bias().Validate(RelativeDirection::kBidirectional);   // of the encoder
  relative_bias().Validate(RelativeDirection::kUnidirectional);  // of the decoder
  CheckModelAttention("encoder_self", encoder_self, d_model, Causality::kNone);
  CheckModelAttention("decoder_self", decoder_self, d_model, Causality::kCausal);
  CheckModelAttention("encoder_decoder", encoder_decoder, d_model, Causality::kNone);
  CheckLayerAttention("encoder_self_layers", encoder_self_layers, encoder_layers, d_model, Causality::kNone);
  CheckLayerAttention("decoder_self_layers", decoder_self_layers, decoder_layers, d_model, Causality::kCausal);
  CheckLayerAttention("encoder_decoder_layers", encoder_decoder_layers, decoder_layers, d_model, Causality::kNone);
}

std::unique_ptr<Model> T5Config::Make(const Initializer& init) const { return std::make_unique<T5>(*this, init); }

void T5Config::KeepFrom(const ModelConfig& origin, const ModelConfig& before) {
  KeepOrigins(T5Fields(), static_cast<const T5Config&>(origin), static_cast<const T5Config&>(before), *this);
}

void ResolveT5(ModelOptions& options, int64_t) {
  if (!options.decoder_layers) options.decoder_layers = options.layers;
}

namespace {

// A decoder asks the encoder's output with one query at a time: what convolves there does so over keys alone.
AttentionConfig OverKeysAlone(AttentionConfig layer) {
  layer.c_ql = std::min<int64_t>(layer.c_ql, 1);
  layer.c_qw = std::min<int64_t>(layer.c_qw, 1);
  return layer;
}

}  // namespace

std::unique_ptr<ModelConfig> ConfigureT5(const ModelOptions& options, const ModelPurpose& purpose) {
  auto config = std::make_unique<T5Config>();
  config->SetFrom(options, purpose.vocabulary);
  config->encoder_layers = options.layers;
  config->decoder_layers = options.decoder_layers.value_or(options.layers);
  config->SetAttention(MakeAttentionLayer(options, options.encoder_self_kind),
                       MakeAttentionLayer(options, options.decoder_self_kind),
                       OverKeysAlone(MakeAttentionLayer(options, options.encoder_decoder_kind)));
  CROSSTALK_CHECK_FIELD(options.layer_kinds.empty() || !options.encoder_self_kind || !options.decoder_self_kind ||
                            !options.encoder_decoder_kind,
                        "layer_kinds", "each of the three places of attention has a kind of its own for all layers");
  if (!options.encoder_self_kind) config->encoder_self_layers = MakeAttentionLayers(options, config->encoder_layers);
  if (!options.decoder_self_kind) config->decoder_self_layers = MakeAttentionLayers(options, config->decoder_layers);
  if (!options.encoder_decoder_kind) {
    config->encoder_decoder_layers = MakeAttentionLayers(options, config->decoder_layers);
    for (AttentionConfig& layer : config->encoder_decoder_layers) layer = OverKeysAlone(layer);
  }
  for (AttentionConfig& layer : config->decoder_self_layers) layer.causality = Causality::kCausal;
  config->Validate();
  return config;
}

std::unique_ptr<ModelConfig> ReadT5Config(const Json& json, const std::string& source) {
  return std::make_unique<T5Config>(ModelConfigFromJson(T5Fields(), json, source));
}

}  // namespace crosstalk
