#include "crosstalk/nn/transformer.h"

#include <cmath>
#include <utility>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/recompute.h"
#include "crosstalk/autograd/scopes.h"
#include "crosstalk/nn/dropout.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

RelativeDirection DirectionOf(const AttentionConfig& self_attention) {
  return self_attention.causality == Causality::kCausal ? RelativeDirection::kUnidirectional
                                                        : RelativeDirection::kBidirectional;
}

// x itself, as an op of its own: the gradients of its uses in a block are summed here, and go on as one. With and
// without recomputation a block then adds to the memory's gradient once, so both round alike.
Variable AsOneInput(const Variable& x) {
  return MakeOp("block input", x.value(), {x}, [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

}  // namespace

void TransformerCache::SelectRows(const std::vector<int64_t>& rows) {
  for (AttentionCache& cache : self_attention) cache.SelectRows(rows);
  for (AttentionCache& cache : cross_attention) cache.SelectRows(rows);
  if (!memory_mask.defined()) return;
  Tensor selected = Tensor::Empty({static_cast<int64_t>(rows.size()), memory_mask.size(1)}, DType::kBool);
  for (size_t i = 0; i < rows.size(); ++i) {
    selected.Select(0, static_cast<int64_t>(i)).CopyFrom(memory_mask.Select(0, rows[i]));
  }
  memory_mask = selected;
}

TransformerBlock::TransformerBlock(const TransformerStackConfig& config, const Initializer& init)
    : Module(init),
      dropout_rate_(config.dropout_rate),
      self_norm_(this, "self_attention_norm", config.self_attention.d_X, config.norm_epsilon),
      self_attention_(this, "self_attention", config.self_attention) {
  if (config.cross_attention.has_value()) {
    cross_norm_ = {this, "cross_attention_norm", config.cross_attention->d_X, config.norm_epsilon};
    cross_attention_ = {this, "cross_attention", *config.cross_attention};
  }
  feed_forward_norm_ = {this, "feed_forward_norm", config.feed_forward.d_model, config.norm_epsilon};
  feed_forward_ = {this, "feed_forward", config.feed_forward};
}

// x + dropout(y)
Variable TransformerBlock::Residual(const Variable& x, const Variable& y, const char* layer,
                                    const ForwardContext& context) const {
  return Add(x, ApplyDropout(y, dropout_rate_, StrCat(path(), ".", layer, ".output_dropout"), context));
}

Variable TransformerBlock::Forward(const Variable& input, const Tensor& self_mask, const LogitsBias& bias,
                                   const TransformerMemory& memory, const ForwardContext& context) const {
  Variable x = input;
  {
    const LayerScope scope("self_attention");
    const Variable normed = self_norm_->Forward(x);
    const AttentionExtras extras = {.mask = {.memory = self_mask, .pairs = {}}, .bias = bias};
    x = Residual(x, self_attention_->Forward(normed, normed, extras, context).Y, "self_attention", context);
  }
  if (cross_attention_) {
    const LayerScope scope("cross_attention");
    const AttentionExtras extras = {.mask = {.memory = memory.mask, .pairs = {}}, .bias = {}};
    const Variable M = AsOneInput(memory.encoded);
    const Variable y = cross_attention_->Forward(cross_norm_->Forward(x), M, extras, context).Y;
    x = Residual(x, y, "cross_attention", context);
  }
  const LayerScope scope("feed_forward");
  return Residual(x, feed_forward_->Forward(feed_forward_norm_->Forward(x), context), "feed_forward", context);
}

Variable TransformerBlock::Step(const Variable& input, const LogitsBias& bias, AttentionCache& self_cache,
                                const AttentionCache& cross_cache, const Tensor& memory_mask) const {
  const AttentionExtras self_extras = {.mask = {}, .bias = bias};
  Variable x = Add(input, self_attention_->Step(self_norm_->Forward(input), self_cache, self_extras).Y);
  if (cross_attention_) {
    const AttentionExtras extras = {.mask = {.memory = memory_mask, .pairs = {}}, .bias = {}};
    x = Add(x, cross_attention_->Attend(cross_norm_->Forward(x), cross_cache, extras).Y);
  }
  return Add(x, feed_forward_->Forward(feed_forward_norm_->Forward(x), ForwardContext()));
}

LogitsBias TransformerBlock::PreparedBias(const LogitsBias& bias, int64_t n, int64_t m) const {
  return self_attention_->Prepared(bias, n, m);
}

AttentionCache TransformerBlock::PrecomputeMemory(const Variable& encoded) const {
  return cross_attention_ ? cross_attention_->Precompute(encoded) : AttentionCache();
}

TransformerStack::TransformerStack(const TransformerStackConfig& config, const Initializer& init)
    : Module(init),
      config_(config),
      relative_bias_(this, "relative_bias", config.self_attention.h, config.relative_buckets,
                     DirectionOf(config.self_attention),
                     1.0 / std::sqrt(static_cast<double>(config.feed_forward.d_model))) {
  CROSSTALK_CHECK(config.layers >= 0, "transformer: layers = ", config.layers, " must not be negative");
  for (int64_t i = 0; i < config.layers; ++i) blocks_.emplace_back(this, StrCat("block_", i), config);
  final_norm_ = {this, "final_norm", config.feed_forward.d_model, config.norm_epsilon};
}

LogitsBias TransformerStack::Bias(int64_t n, int64_t m, int64_t first_query) const {
  const LogitsBias bias = relative_bias_->Forward(n, m, first_query);
  return blocks_.empty() ? bias : blocks_.front()->PreparedBias(bias, n, m);
}

Variable TransformerStack::Forward(const Variable& embedded, const Tensor& self_mask, const TransformerMemory& memory,
                                   const ForwardContext& context) const {
  Dims dims("transformer");
  dims.Bind("embedded[b, n, d]", embedded.shape());
  if (self_mask.defined()) dims.Bind("self_mask[b, n]", self_mask.shape());
  if (config_.cross_attention.has_value()) {
    CROSSTALK_CHECK(memory.encoded.defined(), "transformer: a stack with cross-attention needs a memory to attend to");
    dims.Bind("encoded[b, m, d_M]", memory.encoded.shape());
    if (memory.mask.defined()) dims.Bind("memory_mask[b, m]", memory.mask.shape());
  }

  Variable x = ApplyDropout(embedded, config_.dropout_rate, path() + ".input_dropout", context);
  const LogitsBias bias = Bias(dims["n"], dims["n"], 0);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const LayerScope scope(StrCat("block_", i));
    const TransformerBlock& block = *blocks_[i];
    if (recomputation_ == Recomputation::kNone) {
      x = block.Forward(x, self_mask, bias, memory, context);
      continue;
    }
    std::vector<Variable> inputs = {x, bias.values};
    if (config_.cross_attention.has_value()) inputs.push_back(memory.encoded);
    const auto run = [&block, self_mask, distance_bucket = bias.distance_bucket, mask = memory.mask,
                      context](const std::vector<Variable>& in) {
      const TransformerMemory again = {.encoded = in.size() > 2 ? in[2] : Variable(), .mask = mask};
      return block.Forward(in[0], self_mask, LogitsBias(in[1], distance_bucket), again, context);
    };
    x = Recompute(run, inputs);
  }
  const LayerScope scope("final_norm");
  return ApplyDropout(final_norm_->Forward(x), config_.dropout_rate, path() + ".output_dropout", context);
}

TransformerCache TransformerStack::StartDecoding(const TransformerMemory& memory) const {
  CROSSTALK_CHECK(config_.self_attention.causality == Causality::kCausal,
                  "transformer: only a stack whose self-attention is causal can be decoded step by step");
  const NoGradScope no_grad;
  TransformerCache cache;
  cache.memory_mask = memory.mask;
  cache.self_attention.resize(blocks_.size());
  for (const auto& block : blocks_) {
    cache.cross_attention.push_back(memory.encoded.defined() ? block->PrecomputeMemory(memory.encoded)
                                                             : AttentionCache());
  }
  return cache;
}

Variable TransformerStack::Step(const Variable& embedded, TransformerCache& cache) const {
  Dims("transformer step").Bind("embedded[b, 1, d]", embedded.shape());
  const NoGradScope no_grad;
  const LogitsBias bias = Bias(1, cache.length + 1, cache.length);
  Variable x = embedded;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->Step(x, bias, cache.self_attention[i], cache.cross_attention[i], cache.memory_mask);
  }
  ++cache.length;
  return final_norm_->Forward(x);
}

}  // namespace crosstalk
