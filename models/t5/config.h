// T5Config: the dimensions and options that define a T5.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/model_config.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Defaults are T5 "base" except the attention layers, which have none: fill them with MakeAttentionConfig or
// SetAttention.
struct T5Config : ModelConfig {
  T5Config() {
    vocabulary = 32100;
    d_model = 768;
    d_ff = 3072;
  }

  int64_t encoder_layers = 12;
  int64_t decoder_layers = 12;  // 0: an encoder alone, as published models may be
  LogitScale logit_scale = LogitScale::kIfTied;
  AttentionConfig encoder_self;
  AttentionConfig decoder_self;     // causal
  AttentionConfig encoder_decoder;  // queries from the decoder, memory from the encoder
  // Of each layer its own, where they differ.
  std::vector<AttentionConfig> encoder_self_layers, decoder_self_layers, encoder_decoder_layers;
  // Of the tokens pad, end and decoder_start are used.

  // The three layers at once, the same in all blocks. Sets the causality of decoder_self, which the arguments need not
  // do, and the dropout of all three to dropout_rate.
  void SetAttention(const AttentionConfig& encoder_self_layer, const AttentionConfig& decoder_self_layer,
                    const AttentionConfig& encoder_decoder_layer);
  void SetAttention(const AttentionConfig& layer) { SetAttention(layer, layer, layer); }
  // dropout_rate, and that of the attention layers with it.
  void SetDropout(double rate);

  const char* model() const override { return "t5"; }
  Json ToJson() const override;
  void Validate() const override;
  std::unique_ptr<Model> Make(const Initializer& init) const override;
  std::unique_ptr<ModelConfig> Clone() const override { return std::make_unique<T5Config>(*this); }
  std::vector<AttentionConfig*> AttentionLayers() override;
  void KeepFrom(const ModelConfig& origin, const ModelConfig& before) override;
};

void ResolveT5(ModelOptions& options, int64_t input_length);
std::unique_ptr<ModelConfig> ConfigureT5(const ModelOptions& options, const ModelPurpose& purpose);
std::unique_ptr<ModelConfig> ReadT5Config(const Json& json, const std::string& source);

}  // namespace crosstalk
