// The layers that models are made of beside attention: dense, norms, dropout, embeddings, feed-forward, the output over
// a vocabulary, and which activations are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// A dense layer: y = x·weight (+ bias).

enum class LinearBias { kNo, kYes };

// Parameters weight[d_in, d_out], and bias[d_out] (zeros) if asked. Truncated normal, std 1/sqrt(d_in) unless given.
class Linear : public Module {
 public:
  Linear(int64_t d_in, int64_t d_out, LinearBias bias, const Initializer& init);
  Linear(int64_t d_in, int64_t d_out, LinearBias bias, double stddev, const Initializer& init);

  Variable Forward(const Variable& x) const;  // x[…, d_in] → […, d_out]

 private:
  Variable weight_, bias_;
};

// x[…, d_in]·weight[d_in, d_out] (+ bias[d_out], if it is defined) as one matrix product over all leading
// dimensions.
Variable ApplyWeight(const Variable& x, const Variable& weight, const Variable& bias = {});

// Normalisation over the last dimension.

enum class NormKind {
  kRms,    // y = x · rsqrt(mean(x²) + epsilon) · scale: no mean is subtracted, there is no bias (T5, epsilon 1e-6)
  kLayer,  // y = (x - mean) · rsqrt(variance + epsilon) · scale + bias (BERT, epsilon 1e-12)
};
template <>
struct EnumNames<NormKind> {
  static constexpr EnumName<NormKind> kTable[] = {{NormKind::kRms, "rms"}, {NormKind::kLayer, "layer"}};
};

struct NormConfig {
  NormKind kind = NormKind::kRms;
  double epsilon = 1e-6;
};

// Parameters scale[d], which starts at 1, and of kLayer bias[d], which starts at 0.
class NormLayer : public Module {
 public:
  NormLayer(int64_t d, const NormConfig& config, const Initializer& init);
  Variable Forward(const Variable& x) const;  // […, d] → […, d]

 private:
  NormConfig config_;
  Variable scale_, bias_;
};

// Dropout as a layer uses it: in training only, with numbers that belong to the layer's place in the model.

// x itself in evaluation or at rate 0; else Dropout with the key of `site`, a dotted path that no other dropout of the
// model has.
Variable ApplyDropout(const Variable& x, double rate, std::string_view site, const ForwardContext& context);

// Tables of vectors: looked up by id, or by position.

// So many ids, of which a table has more rows: padded to a multiple of 128, as T5's publishers have it. Rows beyond the
// vocabulary are looked up by no id, and are no classes of the loss; their gradient is 0.
struct VocabularySize {
  int64_t size = 0;
  int64_t rows() const { return (size + 127) / 128 * 128; }
};

// Parameter table[rows, d], normal with the given std (T5: 1).
class EmbeddingLayer : public Module {
 public:
  EmbeddingLayer(int64_t rows, int64_t d, double stddev, const Initializer& init);
  // The same with other initial values; look-ups of padding_idx give its row no gradient (BERT).
  EmbeddingLayer(int64_t rows, int64_t d, const InitialValues& values, std::optional<int32_t> padding_idx,
                 const Initializer& init);
  // A table over a vocabulary. An id beyond it is a usage error, as one beyond the table.
  EmbeddingLayer(VocabularySize vocabulary, int64_t d, const InitialValues& values, std::optional<int32_t> padding_idx,
                 const Initializer& init);

  Variable Forward(const Tensor& ids) const;  // ids int32 or int64 […] → […, d]
  const Variable& table() const { return table_; }

 private:
  Variable table_;
  std::optional<int32_t> padding_idx_;
  int64_t vocabulary_;
};

// Parameter table[max_length, d], normal with the given std (T5: 1) or as told (BERT: truncated normal, 0.02): a
// learned vector for each position, which a model adds to its embeddings.
class LearnedPositions : public Module {
 public:
  LearnedPositions(int64_t max_length, int64_t d, double stddev, const Initializer& init);
  LearnedPositions(int64_t max_length, int64_t d, const InitialValues& values, const Initializer& init);

  // The embeddings of positions first … first + n - 1: [n, d]. A usage error beyond max_length.
  Variable Forward(int64_t n, int64_t first = 0) const;
  // Those of positions[b, n], int32: [b, n, d].
  Variable Forward(const Tensor& positions) const { return Embedding(table_, positions); }

 private:
  Variable table_;
};

// The position-wise feed-forward layer: y = dropout(act(x·wi))·wo, or gated, y = dropout(gelu(x·wi_0) ∘ (x·wi_1))·wo.

enum class FeedForwardKind {
  kRelu,       // T5, as published in 2019
  kGatedGelu,  // T5 1.1: gelu (tanh form) of one half gates the other
  kSwiGlu,     // Llama, PaLM: x·σ(x) of one half gates the other
  kGelu,       // BERT: x · Φ(x), by erf
  kGeluTanh,   // ALBERT, GPT-2: its tanh approximation
};
template <>
struct EnumNames<FeedForwardKind> {
  static constexpr EnumName<FeedForwardKind> kTable[] = {{FeedForwardKind::kRelu, "relu"},
                                                         {FeedForwardKind::kGatedGelu, "gated-gelu"},
                                                         {FeedForwardKind::kSwiGlu, "swiglu"},
                                                         {FeedForwardKind::kGelu, "gelu"},
                                                         {FeedForwardKind::kGeluTanh, "gelu-tanh"}};
};

constexpr bool IsGated(FeedForwardKind kind) {
  return kind == FeedForwardKind::kGatedGelu || kind == FeedForwardKind::kSwiGlu;
}

struct FeedForwardConfig {
  int64_t d_model = 0;
  int64_t d_ff = 0;
  FeedForwardKind kind = FeedForwardKind::kRelu;
  LinearBias bias = LinearBias::kNo;
  double dropout_rate = 0;  // of the hidden layer, in training
  double stddev = 0;        // of the initial weights; 0: 1/sqrt(fan-in)
};

// The activation of a kind that has no gate.
Variable Activate(FeedForwardKind kind, const Variable& x);

// Parameters wi[d_model, d_ff] (gated: wi_0, wi_1) and wo[d_ff, d_model], truncated normal; with biases wi_bias[d_ff]
// (wi_0_bias, wi_1_bias) and wo_bias[d_model], zeros, after them.
class FeedForward : public Module {
 public:
  FeedForward(const FeedForwardConfig& config, const Initializer& init);

  // x[…, d_model] → […, d_model]
  Variable Forward(const Variable& x, const ForwardContext& context) const;

 private:
  bool gated() const { return IsGated(config_.kind); }
  Variable Hidden(const Variable& x) const;  // […, d_ff], before dropout

  FeedForwardConfig config_;
  Variable wi_, wi_gate_, wo_, wi_bias_, wi_gate_bias_, wo_bias_;
};

// The output layer of models over a vocabulary: logits = scale · hidden · tableᵀ + bias, by the table of the embedding
// or one of its own, and its loss.

enum class ClassifierKind {
  kTied,    // logits = scale · hidden · embeddingᵀ
  kUntied,  // logits = scale · hidden · tableᵀ, with a table of its own (T5 1.1)
};
template <>
struct EnumNames<ClassifierKind> {
  static constexpr EnumName<ClassifierKind> kTable[] = {{ClassifierKind::kTied, "tied"},
                                                        {ClassifierKind::kUntied, "untied"}};
};

// The scale of the logits.
enum class LogitScale {
  kIfTied,  // d^-0.5 of a tied table, 1 of another (T5 as first published)
  kAlways,  // d^-0.5
  kNever,   // 1 (BERT, ALBERT)
};
template <>
struct EnumNames<LogitScale> {
  static constexpr EnumName<LogitScale> kTable[] = {
      {LogitScale::kIfTied, "if-tied"}, {LogitScale::kAlways, "always"}, {LogitScale::kNever, "never"}};
};

// Differences of the published models.
struct ClassifierForm {
  LogitScale scale = LogitScale::kIfTied;
  // bias[classes], a parameter of the module that makes the classifier; undefined: none (T5).
  Variable bias = {};
};

// Untied: parameter table[rows of the embedding, d], normal of std 1/sqrt(d). Tied: none.
class Classifier : public Module {
 public:
  // classes ≤ rows of the embedding.
  Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding, const Initializer& init);
  Classifier(ClassifierKind kind, int64_t classes, const Child<EmbeddingLayer>& embedding, const ClassifierForm& form,
             const Initializer& init);

  // Copies a tied table first: look-ups read it unrounded.
  void RoundWeights() override;

  // hidden[…, d] → logits[…, classes].
  Variable Logits(const Variable& hidden) const;
  // hidden[…, d], targets int32[…]; those that are options.ignore_index count nothing. num_classes is set here.
  CrossEntropyResult Loss(const Variable& hidden, const Tensor& targets, CrossEntropyOptions options) const;

 private:
  const Variable& weight() const { return rounded_table_.defined() ? rounded_table_ : table_; }

  int64_t classes_;
  double scale_;
  Variable table_, bias_;
  Variable rounded_table_;  // of the tied table, after RoundWeights
};

// Activation checkpointing: time against memory.

// Whether what is inside a block stays for its gradient, or is computed again from the block's input. The same bits.
enum class Activations { kKeep, kRecompute };
template <>
struct EnumNames<Activations> {
  static constexpr EnumName<Activations> kTable[] = {{Activations::kKeep, "keep"},
                                                     {Activations::kRecompute, "recompute"}};
};

}  // namespace crosstalk
#pragma GCC visibility pop
