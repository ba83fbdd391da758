#include "crosstalk/nn/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

RelativeDirection DirectionOf(const AttentionConfig& self_attention) {
  return self_attention.causality == Causality::kCausal ? RelativeDirection::kUnidirectional
                                                        : RelativeDirection::kBidirectional;
}

// The table of a stack, or of a block, which owns it.
Child<RelativeBias> BiasTable(Module* owner, const TransformerConfig& config) {
  const double stddev = 1.0 / std::sqrt(static_cast<double>(config.feed_forward.d_model));
  return {owner, "relative_bias", config.self_attention.h, config.relative_bias, DirectionOf(config.self_attention),
          stddev};
}

// x itself, as an op of its own: the gradients of its uses in a block are summed here, and go on as one. With and
// without recomputation a block then adds to the memory's gradient once, so both round alike.
Variable AsOneInput(const Variable& x) {
  return MakeOp("block input", x.value(), {x}, [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

}  // namespace

void TransformerCache::SelectBeams(const std::vector<int64_t>& rows) {
  for (AttentionCache& cache : self_attention) cache.SelectRows(rows);
}

void TransformerCache::SelectInputs(const std::vector<int64_t>& inputs, int64_t beams) {
  std::vector<int64_t> rows;
  for (const int64_t input : inputs) {
    for (int64_t beam = 0; beam < beams; ++beam) rows.push_back(input * beams + beam);
  }
  SelectBeams(rows);
  for (AttentionCache& cache : cross_attention) cache.SelectRows(inputs);
  if (!memory_mask.defined()) return;
  Tensor selected = Tensor::Empty({static_cast<int64_t>(inputs.size()), memory_mask.size(1)}, DType::kBool);
  for (size_t i = 0; i < inputs.size(); ++i) {
    selected.Select(0, static_cast<int64_t>(i)).CopyFrom(memory_mask.Select(0, inputs[i]));
  }
  memory_mask = selected;
}

void TransformerConfig::Validate() const {
  CROSSTALK_CHECK_FIELD(layers >= 0 && layers <= kMostLayers, "layers", layers, " is not between 0 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(groups >= 0 && groups <= layers, "layer_groups", groups, " is not between 0 and the ", layers,
                        " layers");
  CROSSTALK_CHECK_FIELD(inner_layers >= 1 && inner_layers <= kMostLayers, "inner_layers", inner_layers,
                        " is not between 1 and ", kMostLayers);
  CROSSTALK_CHECK_FIELD(dropout_rate >= 0 && dropout_rate < 1, "dropout_rate", dropout_rate, " is not in [0, 1)");
  CROSSTALK_CHECK_FIELD(norm.epsilon > 0, "norm_epsilon", norm.epsilon, " must be positive");
  self_attention.Validate();
  CROSSTALK_CHECK_FIELD(block_attention.empty() || std::ssize(block_attention) == num_blocks(), "layer_kinds",
                        block_attention.size(), " attention layers for ", num_blocks(), " blocks");
  for (const AttentionConfig& own : block_attention) {
    own.Validate();
    CROSSTALK_CHECK_FIELD(positions != PositionScheme::kRelativeBias || own.h == self_attention.h, "layer_kinds",
                          "a relative bias is of h=", self_attention.h, " heads in each layer, and not ", own.h);
  }
  if (cross_attention.has_value()) cross_attention->Validate();
  CROSSTALK_CHECK_FIELD(
      block_cross_attention.empty() || (cross_attention && std::ssize(block_cross_attention) == num_blocks()),
      "layer_kinds", block_cross_attention.size(), " cross-attention layers for ", num_blocks(), " blocks");
  for (const AttentionConfig& own : block_cross_attention) own.Validate();
  if (positions == PositionScheme::kRelativeBias) relative_bias.Validate(DirectionOf(self_attention));
}

// In floating point, as the publishers of ALBERT compute it, so that groups of unequal size are cut at the same layers.
int64_t TransformerConfig::GroupOf(int64_t layer) const {
  if (groups == 0) return layer;
  const double group_size = static_cast<double>(layers) / static_cast<double>(groups);
  return std::min(static_cast<int64_t>(static_cast<double>(layer) / group_size), groups - 1);
}

AttentionConfig TransformerConfig::AttentionOf(int64_t block) const {
  AttentionConfig own = block_attention.empty() ? self_attention : block_attention[static_cast<size_t>(block)];
  own.depth = block;
  return own;
}

const AttentionConfig& TransformerConfig::CrossAttentionOf(int64_t block) const {
  return block_cross_attention.empty() ? *cross_attention : block_cross_attention[static_cast<size_t>(block)];
}

TransformerBlock::TransformerBlock(const TransformerConfig& config, int64_t index, const Initializer& init)
    : Module(init),
      placement_(config.placement),
      dropout_rate_(config.dropout_rate),
      self_norm_(this, "self_attention_norm", config.self_attention.d_X, config.norm),
      self_attention_(this, "self_attention", config.AttentionOf(index)) {
  if (config.positions == PositionScheme::kRelativeBias && config.bias_tables == BiasTables::kEachBlock) {
    relative_bias_ = BiasTable(this, config);
  }
  if (config.cross_attention.has_value()) {
    cross_norm_ = {this, "cross_attention_norm", config.cross_attention->d_X, config.norm};
    cross_attention_ = {this, "cross_attention", config.CrossAttentionOf(index)};
  }
  feed_forward_norm_ = {this, "feed_forward_norm", config.feed_forward.d_model, config.norm};
  feed_forward_ = {this, "feed_forward", config.feed_forward};
}

// The one place that knows pre-norm, x + dropout(layer(norm(x))), from post-norm, norm(x + dropout(layer(x))).
template <typename Layer>
Variable TransformerBlock::Residual(const Layer& layer, const Child<NormLayer>& norm, const Variable& x,
                                    const char* name, const ForwardContext& context) const {
  const ContextScope scope = InLayer(name);
  const bool pre = placement_ == NormPlacement::kPre;
  const Variable y = layer(AsOperand(pre ? norm->Forward(x) : x));
  const Variable sum = Add(x, ApplyDropout(y, dropout_rate_, StrCat(path(), ".", name, ".output_dropout"), context));
  return pre ? sum : norm->Forward(sum);
}

Variable TransformerBlock::Forward(const Variable& input, const Tensor& self_mask, const LogitsBias& bias,
                                   const TransformerMemory& memory, const ForwardContext& context,
                                   TransformerRecord* record) const {
  const auto outputs = record != nullptr ? AttentionOutputs::kWithWeights : AttentionOutputs::kOutputOnly;
  // Y, and W[b, n, m, h] → [b, h, n, m] into the record.
  const auto recorded = [&](const AttentionResult& result, std::vector<Variable> TransformerRecord::*weights) {
    if (record != nullptr) (record->*weights).push_back(Permute(result.W, {0, 3, 1, 2}));
    return result.Y;
  };
  const auto attend_to_self = [&](const Variable& x) {
    const AttentionCallOptions options = {.key_padding_mask = self_mask, .bias = bias, .outputs = outputs};
    return recorded(self_attention_->Forward(x, x, options, context), &TransformerRecord::self_attention);
  };
  const auto attend_to_memory = [&](const Variable& x) {
    const AttentionCallOptions options = {.key_padding_mask = memory.mask, .outputs = outputs};
    return recorded(cross_attention_->Forward(x, AsOneInput(memory.encoded), options, context),
                    &TransformerRecord::cross_attention);
  };
  const auto feed_forward = [&](const Variable& x) { return feed_forward_->Forward(x, context); };
  Variable x = Residual(attend_to_self, self_norm_, input, "self_attention", context);
  if (cross_attention_) x = Residual(attend_to_memory, cross_norm_, x, "cross_attention", context);
  return Residual(feed_forward, feed_forward_norm_, x, "feed_forward", context);
}

Variable TransformerBlock::Step(const Variable& input, const LogitsBias& bias, TransformerCache& cache,
                                size_t place) const {
  const ForwardContext context;
  const auto attend_to_self = [&](const Variable& x) {
    const AttentionCallOptions options = {.bias = bias};
    return self_attention_->Step(x, cache.self_attention[place], options, cache.mixings).Y;
  };
  // The rows that share a row of the memory are its queries: x[b, n, d] as [inputs, b / inputs · n, d].
  const auto attend_to_memory = [&](const Variable& x) {
    const AttentionCache& memory = cache.cross_attention[place];
    const Shape shape = x.shape();
    CROSSTALK_CHECK(memory.rows() > 0 && shape[0] % memory.rows() == 0, "transformer step: ", shape[0],
                    " rows over a memory of ", memory.rows());
    const Variable queries = Reshape(x, {memory.rows(), shape[0] / memory.rows() * shape[1], shape[2]});
    const AttentionCallOptions options = {.key_padding_mask = cache.memory_mask};
    return Reshape(cross_attention_->Attend(queries, memory, options).Y, shape);
  };
  const auto feed_forward = [&](const Variable& x) { return feed_forward_->Forward(x, context); };
  Variable x = Residual(attend_to_self, self_norm_, input, "self_attention", context);
  if (cross_attention_) x = Residual(attend_to_memory, cross_norm_, x, "cross_attention", context);
  return Residual(feed_forward, feed_forward_norm_, x, "feed_forward", context);
}

AttentionCache TransformerBlock::PrecomputeMemory(const Variable& encoded) const {
  return cross_attention_ ? cross_attention_->Precompute(encoded) : AttentionCache();
}

TransformerStack::TransformerStack(const TransformerConfig& config, const Initializer& init)
    : Module(init), config_(config) {
  config.Validate();
  if (config.positions == PositionScheme::kRelativeBias && config.bias_tables == BiasTables::kOne) {
    relative_bias_ = BiasTable(this, config);
  }
  for (int64_t i = 0; i < config.num_blocks(); ++i) blocks_.emplace_back(this, StrCat("block_", i), config, i);
  if (config.final_norm == FinalNorm::kYes) {
    final_norm_ = {this, "final_norm", config.feed_forward.d_model, config.norm};
  }
}

const TransformerBlock& TransformerStack::BlockAt(int64_t place) const {
  const int64_t inner = config_.inner_layers;
  return *blocks_[static_cast<size_t>(config_.GroupOf(place / inner) * inner + place % inner)];
}

ForwardContext TransformerStack::ContextAt(int64_t place, const ForwardContext& context) const {
  ForwardContext own = context;
  own.use = 0;  // the layers before this one that are of its group
  const int64_t layer = place / config_.inner_layers;
  while (own.use < layer && config_.GroupOf(layer - own.use - 1) == config_.GroupOf(layer)) ++own.use;
  return own;
}

LogitsBias TransformerStack::Bias(const TransformerBlock& block, int64_t n, int64_t m, int64_t first_query) const {
  const RelativeBias* const table = relative_bias_ ? &*relative_bias_ : block.relative_bias();
  return table == nullptr ? LogitsBias() : block.self_attention().Prepared(table->Forward(n, m, first_query), n, m);
}

Variable TransformerStack::RecomputedBlock(const TransformerBlock& block, const Variable& x, const Tensor& self_mask,
                                           const LogitsBias& bias, const TransformerMemory& memory,
                                           const ForwardContext& context) const {
  // Tensors that need a gradient are inputs: x, then those of the bias and the memory that there are.
  std::vector<Variable> inputs = {x};
  if (bias.defined()) inputs.push_back(bias.values);
  if (block.cross_attention() != nullptr) inputs.push_back(memory.encoded);
  const auto run = [&block, self_mask, bias_defined = bias.defined(), distance_bucket = bias.distance_bucket,
                    mask = memory.mask, context](const std::vector<Variable>& in) {
    const LogitsBias own_bias = bias_defined ? LogitsBias(in[1], distance_bucket) : LogitsBias();
    const TransformerMemory again = {.encoded = block.cross_attention() != nullptr ? in.back() : Variable(),
                                     .mask = mask};
    return block.Forward(in[0], self_mask, own_bias, again, context);
  };
  return Recompute(run, inputs);
}

Variable TransformerStack::Output(const Variable& x, const ForwardContext& context) const {
  if (!final_norm_) return x;
  const ContextScope scope = InLayer("final_norm");
  return ApplyDropout(final_norm_->Forward(x), config_.dropout_rate, path() + ".output_dropout", context);
}

Variable TransformerStack::Forward(const Variable& embedded, const Tensor& self_mask, const TransformerMemory& memory,
                                   const ForwardContext& context, TransformerRecord* record) const {
  Dims dims("transformer");
  dims.Bind("embedded[b, n, d]", embedded.shape());
  if (self_mask.defined()) dims.Bind("self_mask[b, n]", self_mask.shape());
  if (config_.cross_attention.has_value()) {
    CROSSTALK_CHECK(memory.encoded.defined(), "transformer: a stack with cross-attention needs a memory to attend to");
    dims.Bind("encoded[b, m, d_M]", memory.encoded.shape());
    if (memory.mask.defined()) dims.Bind("memory_mask[b, m]", memory.mask.shape());
  }

  // The blocks read the memory in products alone: in bfloat16 one rounded copy does for all of them.
  const TransformerMemory read = {.encoded = memory.encoded.defined() ? AsOperand(memory.encoded) : Variable(),
                                  .mask = memory.mask};
  Variable x = embedded;
  if (config_.input_dropout == InputDropout::kYes) {
    x = ApplyDropout(x, config_.dropout_rate, path() + ".input_dropout", context);
  }
  const bool keep = activations_ == Activations::kKeep || record != nullptr;
  const int64_t n = dims["n"];
  LogitsBias bias;
  for (int64_t i = 0; i < config_.depth(); ++i) {
    if (i == 0 || config_.bias_tables == BiasTables::kEachBlock) bias = Bias(BlockAt(i), n, n, 0);
    const ContextScope scope = InLayer(StrCat("block_", i));
    const ForwardContext own = ContextAt(i, context);
    if (record != nullptr && i % config_.inner_layers == 0) record->hidden_states.push_back(x);
    x = keep ? BlockAt(i).Forward(x, self_mask, bias, read, own, record)
             : RecomputedBlock(BlockAt(i), x, self_mask, bias, read, own);
  }
  x = Output(x, context);
  if (record != nullptr) record->hidden_states.push_back(x);
  return x;
}

TransformerCache TransformerStack::StartDecoding(const TransformerMemory& memory) const {
  CROSSTALK_CHECK(config_.self_attention.causality == Causality::kCausal,
                  "transformer: only a stack whose self-attention is causal can be decoded step by step");
  CROSSTALK_CHECK(memory.encoded.defined() == config_.cross_attention.has_value(),
                  "transformer: a stack with cross-attention decodes over a memory, and one without it over none");
  const ContextScope no_grad = NoGrad();
  TransformerCache cache;
  cache.memory_mask = memory.mask;
  cache.self_attention.resize(static_cast<size_t>(config_.depth()));
  for (int64_t i = 0; i < config_.depth(); ++i) {
    cache.cross_attention.push_back(memory.encoded.defined() ? BlockAt(i).PrecomputeMemory(memory.encoded)
                                                             : AttentionCache());
  }
  return cache;
}

Variable TransformerStack::Step(const Variable& embedded, TransformerCache& cache) const {
  Dims dims("transformer step");
  dims.Bind("embedded[b, n, d]", embedded.shape());
  const int64_t n = dims["n"];
  const ContextScope no_grad = NoGrad();
  int64_t earlier = 0;  // queries that a convolution reads before the first
  for (const Child<TransformerBlock>& block : blocks_) {
    earlier = std::max(earlier, block->self_attention().config().earlier_queries());
  }
  earlier = std::min(earlier, cache.length);
  LogitsBias bias;
  Variable x = embedded;
  for (int64_t i = 0; i < config_.depth(); ++i) {
    if (i == 0 || config_.bias_tables == BiasTables::kEachBlock) {
      bias = Bias(BlockAt(i), earlier + n, cache.length + n, cache.length - earlier);
    }
    x = BlockAt(i).Step(x, bias, cache, static_cast<size_t>(i));
  }
  cache.length += n;
  return Output(x, ForwardContext());
}

}  // namespace crosstalk
