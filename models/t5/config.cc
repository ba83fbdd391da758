#include "crosstalk/models/t5/config.h"

#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/json.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

void T5Config::SetAttention(const AttentionConfig& encoder_self_layer, const AttentionConfig& decoder_self_layer,
                            const AttentionConfig& encoder_decoder_layer) {
  encoder_self = encoder_self_layer;
  decoder_self = decoder_self_layer;
  encoder_decoder = encoder_decoder_layer;
  encoder_self.causality = encoder_decoder.causality = Causality::kNone;
  decoder_self.causality = Causality::kCausal;
  SetDropout(dropout_rate);
}

void T5Config::SetDropout(double rate) {
  dropout_rate = rate;
  for (AttentionConfig* attention : {&encoder_self, &decoder_self, &encoder_decoder}) attention->dropout_rate = rate;
}

void T5Config::Validate() const {
  CROSSTALK_CHECK_FIELD(d_model >= 1, "d_model", d_model, " is less than 1");
  CROSSTALK_CHECK_FIELD(d_ff >= 1, "d_ff", d_ff, " is less than 1");
  CROSSTALK_CHECK_FIELD(encoder_layers >= 1 && encoder_layers <= kMostLayers, "encoder_layers", encoder_layers,
                        " is not between 1 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(decoder_layers >= 1 && decoder_layers <= kMostLayers, "decoder_layers", decoder_layers,
                        " is not between 1 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(vocabulary >= 2 && vocabulary <= (int64_t{1} << 30), "vocabulary", vocabulary,
                        " is not between 2 and 2^30");
  CROSSTALK_CHECK_FIELD(dropout_rate >= 0 && dropout_rate < 1, "dropout_rate", dropout_rate, " is not in [0, 1)");
  relative_bias().Validate(RelativeDirection::kBidirectional);   // of the encoder
  relative_bias().Validate(RelativeDirection::kUnidirectional);  // of the decoder
  CROSSTALK_CHECK_FIELD(norm_epsilon > 0 && norm_epsilon <= 1, "norm_epsilon", norm_epsilon, " is not in (0, 1]");
  CheckSpecialTokens(tokens, vocabulary, {&SpecialTokens::pad, &SpecialTokens::end, &SpecialTokens::decoder_start});
  CheckModelAttention("encoder_self", encoder_self, d_model, Causality::kNone);
  CheckModelAttention("decoder_self", decoder_self, d_model, Causality::kCausal);
  CheckModelAttention("encoder_decoder", encoder_decoder, d_model, Causality::kNone);
}

Json ToJson(const T5Config& config) {
  return Json::MakeObject({{"model", "t5"},
                           {"vocabulary", config.vocabulary},
                           {"d_model", config.d_model},
                           {"d_ff", config.d_ff},
                           {"encoder_layers", config.encoder_layers},
                           {"decoder_layers", config.decoder_layers},
                           {"encoder_self", ToJson(config.encoder_self)},
                           {"decoder_self", ToJson(config.decoder_self)},
                           {"encoder_decoder", ToJson(config.encoder_decoder)},
                           {"feed_forward", Name(config.feed_forward)},
                           {"classifier", Name(config.classifier)},
                           {"dropout_rate", config.dropout_rate},
                           {"relative_buckets", config.relative_buckets},
                           {"relative_attention_max_distance", config.relative_attention_max_distance},
                           {"norm_epsilon", config.norm_epsilon},
                           {"tokens", ToJson(config.tokens)}});
}

T5Config T5ConfigFromJson(const Json& json, const std::string& source, ErrorKind kind) {
  const JsonReader reader(json, source, kind);
  if (reader.String("model") != "t5") reader.FailAt("model", Quoted(reader.String("model")), " is not \"t5\"");
  T5Config config;
  config.vocabulary = reader.Int("vocabulary");
  config.d_model = reader.Int("d_model");
  config.d_ff = reader.Int("d_ff");
  config.encoder_layers = reader.Int("encoder_layers");
  config.decoder_layers = reader.Int("decoder_layers");
  config.encoder_self = AttentionConfigFromJson(reader.Object("encoder_self"));
  config.decoder_self = AttentionConfigFromJson(reader.Object("decoder_self"));
  config.encoder_decoder = AttentionConfigFromJson(reader.Object("encoder_decoder"));
  config.dropout_rate = reader.Double("dropout_rate");
  config.relative_buckets = reader.Int("relative_buckets");
  if (reader.Has("relative_attention_max_distance")) {  // files of 0.1 have neither this nor the tokens
    config.relative_attention_max_distance = reader.Int("relative_attention_max_distance");
  }
  config.norm_epsilon = reader.Double("norm_epsilon");
  if (reader.Has("tokens")) config.tokens = SpecialTokensFromJson(reader.Object("tokens"));
  const std::string& feed_forward = reader.String("feed_forward");
  const std::string& classifier = reader.String("classifier");
  reader.RejectUnread();
  try {
    config.feed_forward = ParseName<FeedForwardKind>("feed_forward", feed_forward);
    config.classifier = ParseName<ClassifierKind>("classifier", classifier);
    config.Validate();
  } catch (const Error& error) {
    Fail(kind, source, ": ", error.what());
  }
  return config;
}

}  // namespace crosstalk
