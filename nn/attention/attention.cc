#include "crosstalk/nn/attention/attention.h"

#include <algorithm>
#include <optional>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/ops_attention.h"
#include "crosstalk/nn/attention/composed.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

// `module`: the dotted path of the layer that holds the parameters.
AttentionResult AttendAs(const std::string& module, const AttentionConfig& config,
                         const AttentionParameters& parameters, const Variable& X, const AttentionMemory& memory,
                         const AttentionCallOptions& options, const std::optional<RandomKey>& dropout_key,
                         int64_t first = 0) {
  const AttentionCall call = ProjectQueries(config, parameters, X, memory, options, dropout_key, first);
  const auto* const take = CurrentContext().capture;
  const AttentionOutputs wanted = take != nullptr ? AttentionOutputs::kWithWeights : options.outputs;
  AttentionResult result;
  result.implementation = ImplementationFor(config, ResultDType(X.dtype()), wanted);
  if (result.implementation == AttentionImplementation::kFused) {
    result.Y = ProjectOutput(config, parameters, FusedAttention(call));
    return result;
  }
  AttentionCapture capture;
  const ComposedResult composed = AttendComposed(call, take != nullptr ? &capture : nullptr);
  result.Y = ProjectOutput(config, parameters, composed.O);
  if (options.outputs == AttentionOutputs::kWithWeights) {
    result.W = Permute(composed.W, {0, 2, 3, 1});
    result.U = Permute(composed.U, {0, 2, 3, 1});
  }
  if (take != nullptr) {
    capture.module = module;
    capture.layer = CurrentLayer();
    (*take)(capture);
  }
  return result;
}

// All that belongs to a memory position.
constexpr Variable AttentionMemory::*kMemoryTensors[] = {&AttentionMemory::K,    &AttentionMemory::V,
                                                         &AttentionMemory::R_Ml, &AttentionMemory::R_Mw,
                                                         &AttentionMemory::F_Ml, &AttentionMemory::F_Mw};

// buffer[b, capacity, …] with positions [length, length + step) of `step`[b, step, …] written; a new buffer of twice
// the size where they do not fit.
void AppendTo(Variable& held, int64_t length, const Variable& step) {
  if (!step.defined()) return;
  Tensor buffer = held.defined() ? held.value() : Tensor();
  const Tensor& values = step.value();
  const int64_t end = length + values.size(1);
  if (!buffer.defined() || buffer.size(1) < end) {
    Shape shape = values.shape();
    shape[1] = std::max(end, 2 * length);
    Tensor grown = Tensor::Empty(shape, values.dtype());
    if (length > 0) grown.Slice(1, 0, length).CopyFrom(buffer.Slice(1, 0, length));
    buffer = grown;
    held = Variable(buffer);
  }
  buffer.Slice(1, length, end).CopyFrom(values);
}

Variable Positions(const Variable& buffer, int64_t length) {
  return buffer.defined() ? Variable(buffer.value().Slice(1, 0, length)) : Variable();
}

// The last `rows` queries of a bias of n queries and m keys: what a step reads where another layer's
// convolution reads more.
LogitsBias LastQueries(const LogitsBias& bias, int64_t rows, int64_t m) {
  if (!bias.defined()) return bias;
  if (bias.by_distance()) return {bias.values, bias.distance_bucket.Slice(0, 0, rows + m - 1)};
  const int dim = bias.values.rank() - 2;
  const int64_t n = bias.values.size(dim);
  return n <= rows ? bias : LogitsBias(Slice(bias.values, dim, n - rows, n));
}

Tensor CloneOf(const Tensor& tensor) { return tensor.defined() ? tensor.Clone() : Tensor(); }

// Positions [0, length) of buffer[b, capacity, …] in the rows `rows`; those that `in_place` says stay where they are.
void SelectRowsOf(Tensor& buffer, int64_t length, const std::vector<int64_t>& rows, bool in_place) {
  if (!buffer.defined()) return;
  const auto count = static_cast<int64_t>(rows.size());
  Tensor selected = buffer;
  if (in_place) {
    selected = buffer.Slice(0, 0, count);
  } else {
    Shape shape = buffer.shape();
    shape[0] = count;
    selected = Tensor::Empty(shape, buffer.dtype());
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = rows[static_cast<size_t>(i)];
    if (in_place && row == i) continue;
    selected.Select(0, i).Slice(0, 0, length).CopyFrom(buffer.Select(0, row).Slice(0, 0, length));
  }
  buffer = selected;
}

// Whether no row is overwritten that another one is read from.
bool FitInPlace(const std::vector<int64_t>& rows, int64_t held) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto is_kept = [&](int64_t row) { return row >= count || rows[static_cast<size_t>(row)] == row; };
  return count <= held && std::all_of(rows.begin(), rows.end(), is_kept);
}

// step[b, 1, …] as that of `length` positions.
Variable OfAllPositions(const Variable& step, int64_t length) {
  if (!step.defined()) return step;
  Shape shape = step.shape();
  shape[1] = length;
  return Variable(step.value().BroadcastTo(shape).Contiguous());
}

}  // namespace

AttentionImplementation ImplementationFor(const AttentionConfig& config, DType dtype, AttentionOutputs outputs) {
  const bool fused = config.implementation == AttentionImplementation::kFused && dtype == DType::kFloat32 &&
                     outputs == AttentionOutputs::kOutputOnly && kernels::IsSupported(ShapeOf(config));
  return fused ? AttentionImplementation::kFused : AttentionImplementation::kComposed;
}

AttentionCache::AttentionCache(const AttentionCache& other)
    : length_(other.length_), earlier_(CloneOf(other.earlier_)) {
  for (const auto tensor : kMemoryTensors) {
    if ((other.buffers_.*tensor).defined()) buffers_.*tensor = Variable((other.buffers_.*tensor).value().Clone());
  }
}

AttentionCache& AttentionCache::operator=(const AttentionCache& other) {
  *this = AttentionCache(other);
  return *this;
}

void AttentionCache::SelectRows(const std::vector<int64_t>& rows) {
  const int64_t held = this->rows();
  if (held == 0) return;
  for (const int64_t row : rows) {
    CROSSTALK_CHECK(row >= 0 && row < held, "attention cache: there is no batch row ", row, " among ", held);
  }
  const bool in_place = FitInPlace(rows, held);
  for (const auto tensor : kMemoryTensors) {
    if (!(buffers_.*tensor).defined()) continue;
    Tensor buffer = (buffers_.*tensor).value();
    SelectRowsOf(buffer, length_, rows, in_place);
    buffers_.*tensor = Variable(buffer);
  }
  if (earlier_.defined()) SelectRowsOf(earlier_, earlier_.size(1), rows, in_place);
}

void AttentionCache::Append(const AttentionMemory& step) {
  CROSSTALK_CHECK(rows() == 0 || rows() == step.K.size(0), "attention cache: it holds b=", rows(),
                  " batch rows, but b=", step.K.size(0), " in this step");
  for (const auto tensor : kMemoryTensors) AppendTo(buffers_.*tensor, length_, step.*tensor);
  length_ += step.K.size(1);
}

AttentionMemory AttentionCache::View() const {
  AttentionMemory view;
  for (const auto tensor : kMemoryTensors) view.*tensor = Positions(buffers_.*tensor, length_);
  return view;
}

Variable AttentionCache::WithEarlier(const Variable& x, int64_t most) {
  const Variable all = earlier_.defined() ? Concat({Variable(earlier_), x}, 1) : x;
  const int64_t n = all.size(1);
  earlier_ = all.value().Slice(1, std::max<int64_t>(0, n - most), n).Clone();
  return all;
}

AttentionResult ComputeAttention(const AttentionConfig& config, const AttentionParameters& parameters,
                                 const Variable& X, const Variable& M, const AttentionCallOptions& options,
                                 const std::optional<RandomKey>& dropout_key) {
  CheckAttentionParameters(config, parameters);
  return AttendAs("", config, parameters, X, ProjectMemory(config, parameters, M), options, dropout_key);
}

AttentionModule::AttentionModule(const AttentionConfig& config, const Initializer& init)
    : Module(init), config_(config) {
  config.Validate();
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (!IsPresent(projection, config)) continue;
    const Shape shape = ShapeOf(projection, config), matrix = MatrixShapeOf(projection, config);
    const InitialValues values = InitialValuesOf(projection, config);
    parameters_.*projection.parameter = [&] {
      if (matrix.rank() == 0) return AddVector(projection.name(), shape, values);
      return projection.source == ProjectionSource::kStatic ? AddParameter(projection.name(), shape, values, matrix)
                                                            : AddWeight(projection.name(), shape, values, matrix);
    }();
  }
}

AttentionImplementation AttentionModule::implementation() const {
  return ImplementationFor(config_, dtype(), AttentionOutputs::kOutputOnly);
}

LogitsBias AttentionModule::Prepared(const LogitsBias& bias, int64_t n, int64_t m) const {
  return implementation() == AttentionImplementation::kFused ? bias : LogitsBias(DenseBias(bias, n, m));
}

AttentionResult AttentionModule::Forward(const Variable& X, const Variable& M, const AttentionCallOptions& options,
                                         const ForwardContext& context) const {
  std::optional<RandomKey> dropout_key;
  if (context.training() && config_.dropout_rate > 0) dropout_key = context.DropoutKey(path() + ".weights");
  return AttendAs(path(), config_, parameters_, X, ProjectMemory(config_, parameters_, M), options, dropout_key);
}

AttentionCache AttentionModule::Precompute(const Variable& M) const {
  const ContextScope no_grad = NoGrad();
  AttentionCache cache;
  cache.Append(ProjectMemory(config_, parameters_, M));
  return cache;
}

AttentionResult AttentionModule::Step(const Variable& x, AttentionCache& cache, const AttentionCallOptions& given,
                                      CachedMixings mixings) const {
  const ContextScope no_grad = NoGrad();
  CROSSTALK_CHECK(x.rank() == 3 && x.size(1) >= 1 && (x.size(1) == 1 || cache.length() == 0),
                  "attention step: x[b, n, d_X] = ", x.shape(), " must hold one position, with a cache of ",
                  cache.length());
  const int64_t first = cache.length();
  const AttentionMemory step = ProjectMemory(config_, parameters_, x, first);
  cache.Append(step);
  AttentionMemory memory = cache.View();
  if (mixings == CachedMixings::kOfCurrentToken && x.size(1) == 1) {
    for (const auto mixing :
         {&AttentionMemory::R_Ml, &AttentionMemory::R_Mw, &AttentionMemory::F_Ml, &AttentionMemory::F_Mw}) {
      memory.*mixing = OfAllPositions(step.*mixing, cache.length());
    }
  }
  AttentionCallOptions options = given;
  const int64_t queries = x.size(1) + std::min(first, config_.earlier_queries());
  options.bias = LastQueries(given.bias, queries, cache.length());
  AttentionConfig causal = config_;
  causal.causality = Causality::kCausal;
  if (const int64_t most = config_.earlier_queries(); most > 0) {
    CROSSTALK_CHECK(!options.attention_mask.defined(),
                    "attention step: a convolution reads queries before this one, "
                    "of which an attention_mask says nothing");
    // The queries before are computed again: what the convolutions read of them.
    const Variable X = cache.WithEarlier(x, most);
    AttentionResult result =
        AttendAs(path(), causal, parameters_, X, memory, options, std::nullopt, cache.length() - X.size(1));
    const auto last = [&](const Variable& of_all) {
      return of_all.defined() ? Slice(of_all, 1, X.size(1) - x.size(1), X.size(1)) : of_all;
    };
    return {last(result.Y), last(result.W), last(result.U), result.implementation};
  }
  if (x.size(1) > 1) return AttendAs(path(), causal, parameters_, x, step, options, std::nullopt);
  if (config_.window > 0) return AttendAs(path(), causal, parameters_, x, memory, options, std::nullopt, first);
  return AttendToAll(x, memory, options, first);
}

AttentionResult AttentionModule::Attend(const Variable& X, const AttentionCache& cache,
                                        const AttentionCallOptions& options) const {
  const ContextScope no_grad = NoGrad();
  CROSSTALK_CHECK(cache.length() > 0, "attention: the cache is empty; fill it with Precompute or Step");
  CROSSTALK_CHECK(config_.rotary == Rotary::kNone && config_.earlier_queries() == 0,
                  "attention: queries over a memory of their own have no place among its positions, which rotary "
                  "positions and convolutions need");
  return AttendToAll(X, cache.View(), options, 0);
}

AttentionResult AttentionModule::AttendToAll(const Variable& X, const AttentionMemory& memory,
                                             const AttentionCallOptions& options, int64_t position) const {
  AttentionConfig config = config_;
  config.causality = Causality::kNone;
  return AttendAs(path(), config, parameters_, X, memory, options, std::nullopt, position);
}

}  // namespace crosstalk
