// Transformer blocks and stacks as configuration: T5's encoder and decoder, BERT's and ALBERT's encoder, a language
// model's decoder are each a TransformerConfig. No embeddings and no loss: those are the model's.
//
//   pre-norm (T5):    x + dropout(layer(norm(x)))        post-norm (BERT):   norm(x + dropout(layer(x)))
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"

#pragma GCC visibility push(default)
namespace crosstalk {

enum class NormPlacement { kPre, kPost };
template <>
struct EnumNames<NormPlacement> {
  static constexpr EnumName<NormPlacement> kTable[] = {{NormPlacement::kPre, "pre"}, {NormPlacement::kPost, "post"}};
};

// How a model knows the order of its positions.
enum class PositionScheme {
  kRelativeBias,  // T5's: a table, read by distance, added to the logits of the self-attention
  kRotary,        // AttentionConfig::rotary of the self-attention
  kLearned,       // LearnedPositions, which the model adds to its embeddings: nothing that the stack does
  kNone,
};
template <>
struct EnumNames<PositionScheme> {
  static constexpr EnumName<PositionScheme> kTable[] = {{PositionScheme::kRelativeBias, "relative-bias"},
                                                        {PositionScheme::kRotary, "rotary"},
                                                        {PositionScheme::kLearned, "learned"},
                                                        {PositionScheme::kNone, "none"}};
};

// The tables of a relative bias: T5's one for all blocks of a stack, or UMT5's, one of each block.
enum class BiasTables { kOne, kEachBlock };
template <>
struct EnumNames<BiasTables> {
  static constexpr EnumName<BiasTables> kTable[] = {{BiasTables::kOne, "one"}, {BiasTables::kEachBlock, "each-block"}};
};

enum class FinalNorm { kNo, kYes };
enum class InputDropout { kNo, kYes };

// The deepest that were published have 1,000. (Layers that share a block cost no parameters to ask for.)
inline constexpr int64_t kMostLayers = 1000;

// The defaults are T5's.
struct TransformerConfig {
  int64_t layers = 0;
  // Layers of one group share their blocks: layer i is of group ⌊i / (layers / groups)⌋. 1: all share (ALBERT).
  // 0: each layer has its own.
  int64_t groups = 0;
  // Blocks of a group, one after the other: each layer is so many (ALBERT's inner_group_num).
  int64_t inner_layers = 1;
  AttentionConfig self_attention;  // kCausal makes the relative bias unidirectional
  // Each block's own layer if they differ; all have as many heads h if there is a relative bias.
  std::vector<AttentionConfig> block_attention;
  std::optional<AttentionConfig> cross_attention;      // over another stack's output; without position bias
  std::vector<AttentionConfig> block_cross_attention;  // of each block its own, where they differ
  FeedForwardConfig feed_forward;
  NormConfig norm;
  NormPlacement placement = NormPlacement::kPre;
  FinalNorm final_norm = FinalNorm::kYes;  // of the stack's output, and dropout after it
  PositionScheme positions = PositionScheme::kRelativeBias;
  RelativeBiasConfig relative_bias;
  BiasTables bias_tables = BiasTables::kOne;
  double dropout_rate = 0;  // of the input, of each layer's output, and after the final norm, in training
  InputDropout input_dropout = InputDropout::kYes;  // kNo: the model drops its embeddings itself

  int64_t num_groups() const { return groups == 0 ? layers : groups; }
  int64_t num_blocks() const { return num_groups() * inner_layers; }
  // Blocks that a position passes, those that are shared as often as it does.
  int64_t depth() const { return layers * inner_layers; }
  int64_t GroupOf(int64_t layer) const;
  // The self-attention of a block, which knows its depth.
  AttentionConfig AttentionOf(int64_t block) const;
  const AttentionConfig& CrossAttentionOf(int64_t block) const;
  // Throws a usage error that names the field.
  void Validate() const;
};

// The memory of a stack with cross-attention.
struct TransformerMemory {
  Variable encoded;  // [b, m, d]
  Tensor mask;       // bool[b, m], true = attend; undefined: all
};

// Intermediate results of a pass through a stack, for inspection.
struct TransformerRecord {
  std::vector<Variable> hidden_states;    // [b, n, d]: the input, then after each layer; the last is the output
  std::vector<Variable> self_attention;   // of each block that is passed: W[b, h, n, m], after the softmax
  std::vector<Variable> cross_attention;  // the same; none without cross-attention
};

// Decoding state of a stack: one cache per block that is passed for its self-attention and its cross-attention. Rows
// that stand together can share one row of the memory: the beams of an input, equally many of each.
struct TransformerCache {
  std::vector<AttentionCache> self_attention;
  std::vector<AttentionCache> cross_attention;
  Tensor memory_mask;  // bool[b, m], or undefined
  int64_t length = 0;  // positions consumed
  CachedMixings mixings = CachedMixings::kOfEachPosition;

  // Row i goes on from what row rows[i] holds; the memory stays. From one row of an input to several, and from these to
  // those that a beam search goes on with, any of them repeated.
  void SelectBeams(const std::vector<int64_t>& rows);
  // Keeps the inputs `inputs`, in that order, with their rows, of which each has `beams`.
  void SelectInputs(const std::vector<int64_t>& inputs, int64_t beams = 1);
};

// One block: self-attention, cross-attention if the configuration has one, feed-forward.
class TransformerBlock : public Module {
 public:
  // Number `index` of the stack.
  TransformerBlock(const TransformerConfig& config, int64_t index, const Initializer& init);

  // x[b, n, d], self_mask bool[b, n] over keys (may be undefined), the bias of n queries and keys (may be none)
  // → [b, n, d]. Appends its attention weights to a record.
  Variable Forward(const Variable& x, const Tensor& self_mask, const LogitsBias& bias, const TransformerMemory& memory,
                   const ForwardContext& context, TransformerRecord* record = nullptr) const;

  // The next position, or the first n, x[b, n, d], with the bias of n queries and length + n keys; appends to the
  // self-attention's cache at `place`.
  Variable Step(const Variable& x, const LogitsBias& bias, TransformerCache& cache, size_t place) const;
  // The projected memory of the cross-attention.
  AttentionCache PrecomputeMemory(const Variable& encoded) const;

  const AttentionModule& self_attention() const { return *self_attention_; }
  const AttentionModule* cross_attention() const { return cross_attention_ ? &*cross_attention_ : nullptr; }
  // Its own table, with BiasTables::kEachBlock.
  const RelativeBias* relative_bias() const { return relative_bias_ ? &*relative_bias_ : nullptr; }

 private:
  template <typename Layer>
  Variable Residual(const Layer& layer, const Child<NormLayer>& norm, const Variable& x, const char* name,
                    const ForwardContext& context) const;

  NormPlacement placement_;
  double dropout_rate_;
  Child<NormLayer> self_norm_;
  Child<RelativeBias> relative_bias_;
  Child<AttentionModule> self_attention_;
  Child<NormLayer> cross_norm_;  // none without cross-attention
  Child<AttentionModule> cross_attention_;
  Child<NormLayer> feed_forward_norm_;
  Child<FeedForward> feed_forward_;
};

class TransformerStack : public Module {
 public:
  TransformerStack(const TransformerConfig& config, const Initializer& init);

  const TransformerConfig& config() const { return config_; }

  // kKeep unless set.
  void SetActivations(Activations activations) { activations_ = activations; }

  // embedded[b, n, d] → [b, n, d]; self_mask and memory as for the blocks. A record keeps activations, whatever is set.
  Variable Forward(const Variable& embedded, const Tensor& self_mask, const TransformerMemory& memory,
                   const ForwardContext& context, TransformerRecord* record = nullptr) const;

  // Decoding, off the tape: a cache over the memory (none for a stack without cross-attention), then one position
  // embedded[b, n, d] → [b, n, d] at a time; at first any number n of them, a prompt.
  TransformerCache StartDecoding(const TransformerMemory& memory) const;
  Variable Step(const Variable& embedded, TransformerCache& cache) const;

 private:
  // The block that is passed at 0 ≤ place < depth(), and the context that tells apart the places that share it.
  const TransformerBlock& BlockAt(int64_t place) const;
  ForwardContext ContextAt(int64_t place, const ForwardContext& context) const;
  // The bias of queries first_query … first_query + n - 1 and keys 0 … m - 1 in a block, in the form that it computes
  // with.
  LogitsBias Bias(const TransformerBlock& block, int64_t n, int64_t m, int64_t first_query) const;
  Variable RecomputedBlock(const TransformerBlock& block, const Variable& x, const Tensor& self_mask,
                           const LogitsBias& bias, const TransformerMemory& memory,
                           const ForwardContext& context) const;
  Variable Output(const Variable& x, const ForwardContext& context) const;

  TransformerConfig config_;
  Activations activations_ = Activations::kKeep;
  Child<RelativeBias> relative_bias_;  // of all blocks
  std::vector<Child<TransformerBlock>> blocks_;
  Child<NormLayer> final_norm_;  // none without a final norm
};

}  // namespace crosstalk
#pragma GCC visibility pop
