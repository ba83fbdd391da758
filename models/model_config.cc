#include "crosstalk/models/model_config.h"

namespace crosstalk {

void ModelConfig::SetFrom(const ModelOptions& options, const Vocabulary& tokenizer) {
  vocabulary = tokenizer.size;
  tokens = tokenizer.tokens;
  d_model = options.d_model;
  d_ff = options.d_ff;
  feed_forward = options.feed_forward.value_or(feed_forward);
  classifier = options.classifier;
  relative_buckets = options.relative_buckets;
  relative_attention_max_distance = options.relative_attention_max_distance;
  dropout_rate = options.dropout;
}

void ModelConfig::Describe(ModelOptions& options) const {
  options.d_model = d_model;
  options.d_ff = d_ff;
  options.feed_forward = feed_forward;
  options.classifier = classifier;
  options.relative_buckets = relative_buckets;
  options.relative_attention_max_distance = relative_attention_max_distance;
  options.dropout = dropout_rate;
}

TransformerConfig ModelConfig::PreNormStack(int64_t layers, const AttentionConfig& self_attention) const {
  return {.layers = layers,
          .self_attention = self_attention,
          .cross_attention = std::nullopt,
          .feed_forward = {.d_model = d_model, .d_ff = d_ff, .kind = feed_forward, .dropout_rate = dropout_rate},
          .norm = {.kind = NormKind::kRms, .epsilon = norm_epsilon},
          .relative_bias = relative_bias(),
          .dropout_rate = dropout_rate};
}

void ModelConfig::Check(std::initializer_list<int32_t SpecialTokens::*> needed) const {
  CROSSTALK_CHECK_FIELD(d_model >= 1, "d_model", d_model, " is less than 1");
  CROSSTALK_CHECK_FIELD(d_ff >= 1, "d_ff", d_ff, " is less than 1");
  CROSSTALK_CHECK_FIELD(vocabulary >= 2 && vocabulary <= (int64_t{1} << 30), "vocabulary", vocabulary,
                        " is not between 2 and 2^30");
  CROSSTALK_CHECK_FIELD(dropout_rate >= 0 && dropout_rate < 1, "dropout_rate", dropout_rate, " is not in [0, 1)");
  CROSSTALK_CHECK_FIELD(norm_epsilon > 0 && norm_epsilon <= 1, "norm_epsilon", norm_epsilon, " is not in (0, 1]");
  CheckSpecialTokens(tokens, vocabulary, needed);
  for (const int32_t id : more_ends) {
    CROSSTALK_CHECK_FIELD(id >= 0 && id < vocabulary && id != tokens.pad, "more_ends", "id ", id,
                          " is padding, or not in the vocabulary of ", vocabulary);
  }
}

const FieldTable<ModelConfig>& ModelConfigFields() {
  using Config = ModelConfig;
  static const FieldTable<Config> table = {
      MakeField("vocabulary", &Config::vocabulary, {.of_the_origin = true}), MakeField("d_model", &Config::d_model, {}),
      MakeField("d_ff", &Config::d_ff, {}), MakeField("feed_forward", &Config::feed_forward, {}),
      MakeField("classifier", &Config::classifier, {}),
      MakeField("dropout_rate", &Config::dropout_rate, {.of_the_origin = true}),
      MakeField("relative_buckets", &Config::relative_buckets, {}),
      // Files of 0.1 have neither this nor the tokens.
      MakeField("relative_attention_max_distance", &Config::relative_attention_max_distance, {.may_be_missing = true}),
      MakeField("norm_epsilon", &Config::norm_epsilon, {.of_the_origin = true}),
      MakeObjectField("tokens", &Config::tokens, SpecialTokensFields(),
                      {.may_be_missing = true, .of_the_origin = true}),
      MakeField("more_ends", &Config::more_ends, {.only_if_set = true, .of_the_origin = true})};
  return table;
}

void CheckLayers(const char* name, int64_t layers) {
  CROSSTALK_CHECK_FIELD(layers >= 1 && layers <= kMostLayers, name, layers, " is not between 1 and ", kMostLayers);
}

}  // namespace crosstalk
