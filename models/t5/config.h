// T5Config: the dimensions and options that define a T5, and their JSON.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/text_model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Defaults are T5 "base" but for the attention layers, which have none: fill them with MakeAttentionConfig or
// SetAttention.
struct T5Config : TextModelConfig {
  T5Config() {
    vocabulary = 32100;
    d_model = 768;
    d_ff = 3072;
  }

  int64_t encoder_layers = 12;
  int64_t decoder_layers = 12;
  AttentionConfig encoder_self;
  AttentionConfig decoder_self;     // causal
  AttentionConfig encoder_decoder;  // queries from the decoder, memory from the encoder
  // Of the tokens pad, end and decoder_start are used.

  // The three layers at once. Sets the causality of decoder_self, which the arguments need not do, and the dropout of
  // all three to dropout_rate.
  void SetAttention(const AttentionConfig& encoder_self_layer, const AttentionConfig& decoder_self_layer,
                    const AttentionConfig& encoder_decoder_layer);
  void SetAttention(const AttentionConfig& layer) { SetAttention(layer, layer, layer); }
  // dropout_rate, and that of the three attention layers with it.
  void SetDropout(double rate);

  // Throws a usage error that names the field at fault.
  void Validate() const;
};

Json ToJson(const T5Config& config);
// Reads it back; relative_attention_max_distance and tokens may be missing. Errors are Error(kind) with `source` and
// the key; unknown and missing keys are errors.
T5Config T5ConfigFromJson(const Json& json, const std::string& source, ErrorKind kind = ErrorKind::kData);

}  // namespace crosstalk
