// T5's layers and stacks: pre-norm residual blocks x + dropout(layer(rms_norm(x))), a relative position bias shared by
// the blocks of a stack, and a final norm. No embeddings and no loss: those are the model's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/feed_forward.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/nn/norm.h"
#include "crosstalk/nn/relative_bias.h"

namespace crosstalk {

struct TransformerStackConfig {
  int64_t layers = 0;
  AttentionConfig self_attention;                  // kCausal makes the relative bias unidirectional
  std::optional<AttentionConfig> cross_attention;  // over another stack's output; without position bias
  FeedForwardConfig feed_forward;
  int64_t relative_buckets = 32;
  double dropout_rate = 0;  // of the input, of each layer's output, and of the final output, in training
  double norm_epsilon = 1e-6;
};

// What a stack with cross-attention attends to.
struct TransformerMemory {
  Variable encoded;  // [b, m, d]
  Tensor mask;       // bool[b, m], true = attend; undefined: all
};

// Decoding state of a stack: one cache per block for its self-attention and its cross-attention.
struct TransformerCache {
  std::vector<AttentionCache> self_attention;
  std::vector<AttentionCache> cross_attention;
  Tensor memory_mask;  // bool[b, m], or undefined
  int64_t length = 0;  // positions consumed
  void SelectRows(const std::vector<int64_t>& rows);
};

// One block: self-attention, cross-attention if the configuration has one, feed-forward.
class TransformerBlock : public Module {
 public:
  TransformerBlock(const TransformerStackConfig& config, const Initializer& init);

  // x[b, n, d], self_mask bool[b, n] over keys (may be undefined), the bias of n queries and keys → [b, n, d].
  Variable Forward(const Variable& x, const Tensor& self_mask, const LogitsBias& bias, const TransformerMemory& memory,
                   const ForwardContext& context) const;

  // One position x[b, 1, d], with the bias of one query and length + 1 keys; appends to self_cache.
  Variable Step(const Variable& x, const LogitsBias& bias, AttentionCache& self_cache,
                const AttentionCache& cross_cache, const Tensor& memory_mask) const;
  // The bias in the form that the self-attention computes with.
  LogitsBias PreparedBias(const LogitsBias& bias, int64_t n, int64_t m) const;
  // The projected memory of the cross-attention.
  AttentionCache PrecomputeMemory(const Variable& encoded) const;

 private:
  Variable Residual(const Variable& x, const Variable& y, const char* layer, const ForwardContext& context) const;

  double dropout_rate_;
  Child<RmsNormLayer> self_norm_;
  Child<AttentionModule> self_attention_;
  Child<RmsNormLayer> cross_norm_;  // none without cross-attention
  Child<AttentionModule> cross_attention_;
  Child<RmsNormLayer> feed_forward_norm_;
  Child<FeedForward> feed_forward_;
};

class TransformerStack : public Module {
 public:
  TransformerStack(const TransformerStackConfig& config, const Initializer& init);

  // Computes each block again for its gradient instead of keeping what is inside. The bits are the same.
  enum class Recomputation { kNone, kBlocks };
  void SetRecomputation(Recomputation recomputation) { recomputation_ = recomputation; }

  // embedded[b, n, d] → [b, n, d]; self_mask and memory as for the blocks.
  Variable Forward(const Variable& embedded, const Tensor& self_mask, const TransformerMemory& memory,
                   const ForwardContext& context) const;

  // Decoding, off the tape: a cache over the memory, then one position embedded[b, 1, d] → [b, 1, d] at a time.
  TransformerCache StartDecoding(const TransformerMemory& memory) const;
  Variable Step(const Variable& embedded, TransformerCache& cache) const;

 private:
  // The bias of queries first_query … first_query + n - 1 and keys 0 … m - 1, in the form that the blocks compute with.
  LogitsBias Bias(int64_t n, int64_t m, int64_t first_query) const;

  TransformerStackConfig config_;
  Recomputation recomputation_ = Recomputation::kNone;
  Child<RelativeBias> relative_bias_;
  std::vector<Child<TransformerBlock>> blocks_;
  Child<RmsNormLayer> final_norm_;
};

}  // namespace crosstalk
