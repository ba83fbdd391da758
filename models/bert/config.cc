#include "crosstalk/models/bert/config.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/models/bert/bert.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config_fields.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

using Config = BertConfig;

FieldTable<Config> EncoderFields() {
  using Heads = EncoderHeads;
  return {MakeField("layers", &Config::layers, {}),
          MakeObjectField("attention", &Config::attention, AttentionConfigFields()),
          MakeAttentionListField("layer_attention", &Config::layer_attention),
          MakeField("positions", &Config::positions, {}),
          MakeField("max_positions", &Config::max_positions, {}),
          MakeField("segments", &Config::segments, {.of_the_origin = true}),
          MakeNamesField("heads", &Config::heads,
                         {{"pooler", &Heads::pooler},
                          {"sentence", &Heads::sentence},
                          {"multiple-choice", &Heads::multiple_choice},
                          {"masked-lm", &Heads::masked_lm},
                          {"span", &Heads::span}},
                         {.of_the_origin = true}),
          MakeFieldAt<Config>("classes", [](auto& config) -> auto& { return config.heads.classes; },
                              {.of_the_origin = true}),
          MakeField("stddev", &Config::stddev, {.of_the_origin = true})};
}

const FieldTable<Config>& FieldsOf(bool albert) {
  static const FieldTable<Config> of_bert = Joined(EncoderFields(), FieldsOfBase<Config>(ModelConfigFields()));
  static const FieldTable<Config> of_albert =
      Joined(EncoderFields(), Joined({MakeField("embedding_size", &Config::embedding_size, {}),
                                      MakeField("layer_groups", &Config::layer_groups, {}),
                                      MakeField("inner_layers", &Config::inner_layers, {})},
                                     FieldsOfBase<Config>(ModelConfigFields())));
  return albert ? of_albert : of_bert;
}

}  // namespace

Json BertConfig::ToJson() const { return ModelJson(FieldsOf(is_albert()), *this); }

void BertConfig::Validate() const {
  Check({&SpecialTokens::pad});
  CheckLayers("layers", layers);
  CROSSTALK_CHECK_FIELD(!IsGated(feed_forward), "feed_forward", Name(feed_forward),
                        " is not a form of BERT's: it has no gate");
  const bool learned = positions == PositionScheme::kLearned;
  CROSSTALK_CHECK_FIELD(learned ? max_positions >= 1 : max_positions == 0, "max_positions", max_positions,
                        learned ? " is less than 1" : ": only learned positions end anywhere");
  if (positions == PositionScheme::kRelativeBias) relative_bias().Validate(RelativeDirection::kBidirectional);
  CROSSTALK_CHECK_FIELD(segments >= 1 && segments <= 1'000'000, "segments", segments, " is not between 1 and 1000000");
  CROSSTALK_CHECK_FIELD(embedding_width() >= 1, "embedding_size", embedding_width(), " is less than 1");
  CROSSTALK_CHECK_FIELD(layer_groups >= 0 && layer_groups <= layers, "layer_groups", layer_groups,
                        " is not between 1 and the ", layers, " layers");
  CROSSTALK_CHECK_FIELD(inner_layers >= 1 && inner_layers <= kMostLayers, "inner_layers", inner_layers,
                        " is not between 1 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(heads.classes >= 0 && heads.classes <= 1'000'000, "classes", heads.classes,
                        " is not between 0 and 1000000");
  CROSSTALK_CHECK_FIELD(heads.pooler || !(heads.sentence || heads.multiple_choice || heads.classes > 0), "heads",
                        "the heads of sentence, classification and multiple choice read the pooler, which is missing");
  CROSSTALK_CHECK_FIELD(stddev > 0 && stddev <= 100, "stddev", stddev, " is not in (0, 100]");
  CheckModelAttention("attention", attention, d_model, Causality::kNone);
  CheckLayerAttention("layer_attention", layer_attention, num_blocks(), d_model, Causality::kNone);
}

std::vector<AttentionConfig*> BertConfig::AttentionLayers() {
  std::vector<AttentionConfig*> all = {&attention};
  for (AttentionConfig& layer : layer_attention) all.push_back(&layer);
  return all;
}

std::unique_ptr<Model> BertConfig::Make(const Initializer& init) const { return std::make_unique<Bert>(*this, init); }

void BertConfig::KeepFrom(const ModelConfig& origin, const ModelConfig& before) {
  KeepOrigins(FieldsOf(is_albert()), static_cast<const BertConfig&>(origin), static_cast<const BertConfig&>(before),
              *this);
}

void ResolveBert(ModelOptions& options, int64_t input_length) {
  if (!options.feed_forward) options.feed_forward = FeedForwardKind::kGelu;
  if (!options.attention_scale) options.attention_scale = AttentionScale::kExplicit;
  if (!options.initial_stddev) {
    options.initial_stddev = 0.02 * std::sqrt(std::max(1.0, 768 / static_cast<double>(options.d_model)));
  }
  if (!options.max_positions && options.positions == PositionScheme::kLearned) options.max_positions = input_length;
}

namespace {

// An attention layer as BERT has it.
void SetForm(double stddev, AttentionConfig& layer) {
  if (layer.form != AttentionForm::kProjected) return;
  layer.projection_biases = true;
  layer.projection_stddev = stddev;
}

}  // namespace

BertConfig EncoderConfig(const ModelOptions& options, const ModelPurpose& purpose) {
  BertConfig config;
  config.SetFrom(options, purpose.vocabulary);
  config.layers = options.layers;
  config.stddev = options.initial_stddev.value_or(config.stddev);
  config.attention = MakeAttentionLayer(options);
  SetForm(config.stddev, config.attention);
  config.positions = options.positions;
  config.max_positions = options.max_positions.value_or(0);
  CROSSTALK_CHECK_FIELD(config.max_positions == 0 || purpose.input_length <= config.max_positions, "input_length",
                        purpose.input_length, " tokens are more than max_positions = ", config.max_positions);
  config.heads = purpose.heads;
  return config;
}

void SetLayerKinds(const ModelOptions& options, BertConfig& config) {
  config.layer_attention = MakeAttentionLayers(options, config.num_blocks());
  for (AttentionConfig& layer : config.layer_attention) SetForm(config.stddev, layer);
}

std::unique_ptr<ModelConfig> ConfigureBert(const ModelOptions& options, const ModelPurpose& purpose) {
  auto config = std::make_unique<BertConfig>(EncoderConfig(options, purpose));
  SetLayerKinds(options, *config);
  config->Validate();
  return config;
}

std::unique_ptr<ModelConfig> ReadBertConfig(const Json& json, const std::string& source) {
  const bool albert = JsonReader(json, source).String("model") == "albert";
  return std::make_unique<BertConfig>(ModelConfigFromJson(FieldsOf(albert), json, source));
}

}  // namespace crosstalk
