#include "crosstalk/models/lm/config.h"

#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/json.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

void LmConfig::Validate() const {
  CROSSTALK_CHECK_FIELD(d_model >= 1, "d_model", d_model, " is less than 1");
  CROSSTALK_CHECK_FIELD(d_ff >= 1, "d_ff", d_ff, " is less than 1");
  CROSSTALK_CHECK_FIELD(layers >= 1 && layers <= kMostLayers, "layers", layers, " is not between 1 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(context >= 1, "context", context, " is less than 1");
  CROSSTALK_CHECK_FIELD(vocabulary >= 2 && vocabulary <= (int64_t{1} << 30), "vocabulary", vocabulary,
                        " is not between 2 and 2^30");
  CROSSTALK_CHECK_FIELD(dropout_rate >= 0 && dropout_rate < 1, "dropout_rate", dropout_rate, " is not in [0, 1)");
  relative_bias().Validate(RelativeDirection::kUnidirectional);
  CROSSTALK_CHECK_FIELD(norm_epsilon > 0 && norm_epsilon <= 1, "norm_epsilon", norm_epsilon, " is not in (0, 1]");
  CheckSpecialTokens(tokens, vocabulary, {&SpecialTokens::pad});
  CheckModelAttention("attention", attention, d_model, Causality::kCausal);
}

Json ToJson(const LmConfig& config) {
  return Json::MakeObject({{"model", "lm"},
                           {"vocabulary", config.vocabulary},
                           {"d_model", config.d_model},
                           {"d_ff", config.d_ff},
                           {"layers", config.layers},
                           {"context", config.context},
                           {"attention", ToJson(config.attention)},
                           {"positions", Name(config.positions)},
                           {"feed_forward", Name(config.feed_forward)},
                           {"classifier", Name(config.classifier)},
                           {"dropout_rate", config.dropout_rate},
                           {"relative_buckets", config.relative_buckets},
                           {"relative_attention_max_distance", config.relative_attention_max_distance},
                           {"norm_epsilon", config.norm_epsilon},
                           {"tokens", ToJson(config.tokens)}});
}

LmConfig LmConfigFromJson(const Json& json, const std::string& source) {
  const JsonReader reader(json, source);
  if (reader.String("model") != "lm") reader.FailAt("model", Quoted(reader.String("model")), " is not \"lm\"");
  LmConfig config;
  config.vocabulary = reader.Int("vocabulary");
  config.d_model = reader.Int("d_model");
  config.d_ff = reader.Int("d_ff");
  config.layers = reader.Int("layers");
  config.context = reader.Int("context");
  config.attention = AttentionConfigFromJson(reader.Object("attention"));
  config.dropout_rate = reader.Double("dropout_rate");
  config.relative_buckets = reader.Int("relative_buckets");
  config.relative_attention_max_distance = reader.Int("relative_attention_max_distance");
  config.norm_epsilon = reader.Double("norm_epsilon");
  config.tokens = SpecialTokensFromJson(reader.Object("tokens"));
  const std::string& positions = reader.String("positions");
  const std::string& feed_forward = reader.String("feed_forward");
  const std::string& classifier = reader.String("classifier");
  reader.RejectUnread();
  try {
    config.positions = ParseName<PositionScheme>("positions", positions);
    config.feed_forward = ParseName<FeedForwardKind>("feed_forward", feed_forward);
    config.classifier = ParseName<ClassifierKind>("classifier", classifier);
    config.Validate();
  } catch (const Error& error) {
    Fail(ErrorKind::kData, source, ": ", error.what());
  }
  return config;
}

}  // namespace crosstalk
