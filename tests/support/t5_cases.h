// Tiny T5 models of every kind of attention, and batches for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

// The ids of TinyT5, as T5 has them.
inline constexpr int32_t kPadId = SpecialTokens().pad;
inline constexpr int32_t kEosId = SpecialTokens().end;

// An attention layer of a tiny model.
inline AttentionConfig TinyAttention(const std::string& kind, int64_t d_model) {
  AttentionOptions options;
  options.kind = ParseName<AttentionKind>("attention", kind);
  options.heads = 3;
  const bool of_pairs = kind == "diff-v1" || kind == "diff-v2";
  if (of_pairs || kind == "dcmha" || kind == "mta") {
    options.heads = of_pairs ? 6 : 3;
    options.key_size = 4;
    options.value_size = 5;
    if (kind == "mta") options.convolution = "3x2";
  } else if (kind != "bilinear") {
    options.key_size = 4;
    options.value_size = 5;
    if (kind != "multihead" && kind != "weights") options.key_heads = 2;
    if (kind != "multihead" && kind != "logits") options.value_heads = 5;
  }
  return MakeAttentionConfig(options, d_model);
}

// All sizes distinct and odd where the kind allows it.
inline ModelConfig TinyT5(const std::string& kind, FeedForwardKind feed_forward = FeedForwardKind::kGatedGelu,
                          ClassifierKind classifier = ClassifierKind::kTied, double dropout_rate = 0.0) {
  ModelConfig config = BaseT5();
  config.vocabulary = 40;
  config.d_model = 10;
  config.d_ff = 13;
  config.layers = 2;
  config.decoder_layers = 2;
  config.feed_forward = feed_forward;
  config.classifier = classifier;
  config.dropout_rate = dropout_rate;
  config.SetAttention(TinyAttention(kind, config.d_model));
  return config;
}

// Random ids in [2, vocabulary), with row r ending r·`step` positions early: kEosId, then padding.
inline Tensor TinyIds(int64_t rows, int64_t length, int64_t vocabulary, uint32_t stream, int64_t step = 2) {
  Tensor ids = Tensor::Full({rows, length}, kPadId, DType::kInt32);
  const RandomKey key = {.seed = 99, .stream = stream};
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t end = length - 1 - row * step;
    for (int64_t i = 0; i <= end; ++i) {
      const uint64_t draw =
          UniformInt(key, static_cast<uint64_t>(row * length + i), static_cast<uint64_t>(vocabulary - 2));
      ids.data<int32_t>()[row * length + i] = i == end ? kEosId : static_cast<int32_t>(draw) + 2;
    }
  }
  return ids;
}

}  // namespace crosstalk
