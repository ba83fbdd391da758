#include "crosstalk/models/t5/config.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "crosstalk/nn/attention/json.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

void CheckAttention(const T5Config& config, const char* place, const AttentionConfig& attention, Causality causality) {
  try {
    attention.Validate();
  } catch (const Error& error) {
    Fail(ErrorKind::kUsage, "T5: ", place, ": ", error.what());
  }
  CROSSTALK_CHECK(attention.d_X == config.d_model && attention.d_M == config.d_model && attention.d_Y == config.d_model,
                  "T5: ", place, " has d_X = ", attention.d_X, ", d_M = ", attention.d_M, ", d_Y = ", attention.d_Y,
                  ", but all must be d_model = ", config.d_model);
  CROSSTALK_CHECK(attention.causality == causality, "T5: ", place, " must ",
                  causality == Causality::kCausal ? "" : "not ", "be causal");
}

}  // namespace

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
  const std::initializer_list<std::pair<const char*, int64_t>> positive = {
      {"vocabulary", vocabulary}, {"d_model", d_model}, {"d_ff", d_ff}};
  for (const auto& [name, size] : positive) {
    CROSSTALK_CHECK(size >= 1, "T5: ", name, " = ", size, " must be at least 1");
  }
  CROSSTALK_CHECK(vocabulary >= 2 && vocabulary <= (int64_t{1} << 30), "T5: vocabulary = ", vocabulary,
                  " must be between 2 and 2^30");
  CROSSTALK_CHECK(encoder_layers >= 1 && decoder_layers >= 1, "T5: encoder_layers = ", encoder_layers,
                  " and decoder_layers = ", decoder_layers, " must be at least 1");
  CROSSTALK_CHECK(dropout_rate >= 0 && dropout_rate < 1, "T5: dropout_rate = ", dropout_rate, " must be in [0, 1)");
  CROSSTALK_CHECK(relative_buckets >= 4 && relative_buckets % 4 == 0 && relative_buckets <= 128,
                  "T5: relative_buckets = ", relative_buckets, " must be a multiple of 4 between 4 and 128");
  CROSSTALK_CHECK(norm_epsilon > 0, "T5: norm_epsilon = ", norm_epsilon, " must be positive");
  CheckAttention(*this, "encoder_self", encoder_self, Causality::kNone);
  CheckAttention(*this, "decoder_self", decoder_self, Causality::kCausal);
  CheckAttention(*this, "encoder_decoder", encoder_decoder, Causality::kNone);
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
                           {"norm_epsilon", config.norm_epsilon}});
}

T5Config T5ConfigFromJson(const Json& json, const std::string& source, ErrorKind kind) {
  const JsonReader reader(json, source, kind);
  if (reader.String("model") != "t5") reader.FailAt("model", "\"", reader.String("model"), "\" is not \"t5\"");
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
  config.norm_epsilon = reader.Double("norm_epsilon");
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
