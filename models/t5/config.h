// T5Config: the dimensions and options that define a T5, as JSON, and what a training step of it costs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "crosstalk/models/model.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/feed_forward.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

enum class ClassifierKind {
  kTied,    // logits = d_model^-0.5 · hidden · embeddingᵀ (T5)
  kUntied,  // logits = hidden · tableᵀ, with a table of its own (T5 1.1)
};
// "tied", "untied". Anything else is a usage error that lists them.
ClassifierKind ParseClassifierKind(std::string_view name);
const char* Name(ClassifierKind kind);

// Defaults are T5 "base" but for the attention layers, which have none: fill them with MakeAttentionConfig or
// SetAttention.
struct T5Config {
  int64_t vocabulary = 32100;  // ids are 0 … vocabulary - 1
  int64_t d_model = 768;
  int64_t d_ff = 3072;
  int64_t encoder_layers = 12;
  int64_t decoder_layers = 12;
  AttentionConfig encoder_self;
  AttentionConfig decoder_self;     // causal
  AttentionConfig encoder_decoder;  // queries from the decoder, memory from the encoder
  FeedForwardKind feed_forward = FeedForwardKind::kRelu;
  ClassifierKind classifier = ClassifierKind::kTied;
  double dropout_rate = 0.0;  // of embeddings, layers, final outputs and attention; 0 in pretraining, 0.1 in finetuning
  int64_t relative_buckets = 32;
  double norm_epsilon = 1e-6;

  // The rows of the embedding: the vocabulary padded to a multiple of 128, as the publishers have it.
  int64_t padded_vocabulary() const { return (vocabulary + 127) / 128 * 128; }

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
// The opposite. Errors are Error(kind) with `source` and the key; unknown and missing keys are errors.
T5Config T5ConfigFromJson(const Json& json, const std::string& source, ErrorKind kind = ErrorKind::kData);

// What one training step costs. Formulas are in t5_cost.cc; bytes are for float.
struct T5Cost {
  int64_t parameters = 0;
  // Multiplications of a forward pass over the batch, as the pseudocode and the matrix products have them (no
  // elementwise work). A training step is 3 times this, 4 times with recomputation.
  int64_t forward_multiplications = 0;
  int64_t step_multiplications = 0;
  int64_t parameter_bytes = 0;   // parameters and their gradients
  int64_t optimizer_bytes = 0;   // Adafactor's state
  int64_t activation_bytes = 0;  // what the peak takes beyond these two: activations, less the gradients still to come
  int64_t total_bytes() const { return parameter_bytes + optimizer_bytes + activation_bytes; }
};

// A batch of `batch` examples with n input and m target positions, in float. total_bytes() is within 20 % of the
// measured peak of one micro-batch, for the implementation of attention that each layer's configuration names; the
// fused one's workspace is for NumThreads() threads.
T5Cost EstimateT5(const T5Config& config, int64_t batch, int64_t n, int64_t m,
                  Activations activations = Activations::kKeep);

}  // namespace crosstalk
