// LmConfig: the dimensions and options that define a language model, and their JSON.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/text/special_tokens.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/classifier.h"
#include "crosstalk/nn/feed_forward.h"
#include "crosstalk/nn/relative_bias.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct LmConfig {
  int64_t vocabulary = 0;  // ids are 0 … vocabulary - 1
  int64_t d_model = 0;
  int64_t d_ff = 0;
  int64_t layers = 0;
  int64_t context = 0;        // positions it is trained on, and writes with
  AttentionConfig attention;  // causal, of every layer
  PositionScheme positions = PositionScheme::kRelativeBias;
  FeedForwardKind feed_forward = FeedForwardKind::kRelu;
  ClassifierKind classifier = ClassifierKind::kTied;
  double dropout_rate = 0.0;  // of embeddings, layers, the final output and attention
  int64_t relative_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double norm_epsilon = 1e-6;
  SpecialTokens tokens;  // pad is used

  RelativeBiasConfig relative_bias() const {
    return {.buckets = relative_buckets, .max_distance = relative_attention_max_distance};
  }

  // Throws a usage error that names the field at fault.
  void Validate() const;
};

Json ToJson(const LmConfig& config);
// Reads it back. Error(kData) with `source` and the key for what is missing, unknown or cannot be.
LmConfig LmConfigFromJson(const Json& json, const std::string& source);

}  // namespace crosstalk
