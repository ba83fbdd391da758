#include "crosstalk/nn/attention/composed.h"

#include <limits>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_dropout.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/nn/attention/project.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

// bool, broadcastable to [b, h, n, m], true = attend; undefined if nothing is masked.
Tensor CombinedMask(const AttentionConfig& config, const AttentionMask& mask, int64_t b, int64_t n, int64_t m) {
  const bool causal = config.causality == Causality::kCausal;
  if (!causal && !mask.pairs.defined()) {
    return mask.memory.defined() ? mask.memory.Reshape({b, 1, 1, m}) : Tensor();
  }
  if (!causal && !mask.memory.defined()) return mask.pairs.Reshape({b, 1, n, m});

  const int64_t batches = mask.memory.defined() || mask.pairs.defined() ? b : 1;
  const Tensor memory = mask.memory.defined() ? mask.memory.Contiguous() : Tensor();
  const Tensor pairs = mask.pairs.defined() ? mask.pairs.Contiguous() : Tensor();
  Tensor combined = Tensor::Empty({batches, 1, n, m}, DType::kBool);
  const uint8_t* const memory_data = memory.defined() ? memory.data<uint8_t>() : nullptr;
  const uint8_t* const pairs_data = pairs.defined() ? pairs.data<uint8_t>() : nullptr;
  uint8_t* const out = combined.data<uint8_t>();
  Launch([&] {
    ParallelForRange(batches * n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t batch = row / n, query = row % n;
        for (int64_t j = 0; j < m; ++j) {
          out[row * m + j] = (!causal || j <= query) && (memory_data == nullptr || memory_data[batch * m + j]) &&
                             (pairs_data == nullptr || pairs_data[row * m + j]);
        }
      }
    });
  });
  return combined;
}

// Mixes heads: to[b,t,n,m] = from[b,s,n,m]·P[s,t] + from·R_X[b,n,s,t] + from·R_M[b,m,s,t], each term where it is
// there, and `from` itself where none is. P + R_X (or P + R_M) is one matrix per query (or memory position), so P
// beside a dynamic projection costs no multiplications. Nothing here is as large as n·m·s·t.
Variable MixHeads(const Variable& from, const Variable& P, const Variable& R_X, const Variable& R_M) {
  const auto plus_static = [&](const Variable& R) { return P.defined() ? Add(R, P) : R; };
  // The equation has a product with P all the same, and so has the fused implementation's count.
  if (P.defined() && (R_X.defined() || R_M.defined())) {
    CountMultiplications(SaturatingProduct(from.value().num_elements(), P.size(1)));
  }
  Variable to;
  if (R_X.defined()) {
    to = Einsum("to[b,t,n,m] = einsum(from[b,s,n,m], R_X[b,n,s,t])", {from, plus_static(R_X)});
  } else if (P.defined() && !R_M.defined()) {
    return Einsum("to[b,t,n,m] = einsum(from[b,s,n,m], P[s,t])", {from, P});
  }
  if (R_M.defined()) {
    // [b, s, m, n], so that each memory position's product runs over contiguous queries.
    const Variable transposed = Contiguous(Transpose(from, 2, 3));
    const Variable by_memory = Transpose(Einsum("to[b,t,m,n] = einsum(from[b,s,m,n], R_M[b,m,s,t])",
                                                {transposed, R_X.defined() ? R_M : plus_static(R_M)}),
                                         2, 3);
    to = to.defined() ? Add(to, by_memory) : by_memory;
  }
  return to.defined() ? to : from;
}

Tensor ValueOf(const Variable& x) { return x.defined() ? x.value() : Tensor(); }

}  // namespace

AttentionResult AttendComposed(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                               const AttentionMemory& memory, const AttentionExtras& extras,
                               const std::optional<RandomKey>& dropout_key, AttentionCapture* capture) {
  const Dims dims = CheckAttentionInputs(config, X, memory, extras);
  const AttentionQueries queries = ProjectQueries(config, p, X);
  const bool own_memory = config.form == AttentionForm::kProjected;  // else all heads share M

  const Variable Q = config.scale == 1.0 ? queries.Q : Scale(queries.Q, config.scale);  // smaller than J
  const Variable J = own_memory ? Einsum("J[b,h_k,n,m] = einsum(Q[b,n,h_k,d_k], K[b,m,h_k,d_k])", {Q, memory.K})
                                : Einsum("J[b,h,n,m] = einsum(Q[b,n,h,d_M], M[b,m,d_M])", {Q, memory.K});
  // In float under bf16 too: an error of a logit is one of the exponent.
  Variable L = [&] {
    const ContextScope precision(&OpContext::precision, Precision::kFloat32);
    return MixHeads(J, p.P_l, queries.R_Xl, memory.R_Ml);
  }();
  // Bias and mask belong to the softmax heads: after P_l, or it would carry -inf from head to head.
  if (extras.bias.defined()) L = Add(L, DenseBias(extras.bias, dims["n"], dims["m"]));
  const Tensor mask = CombinedMask(config, extras.mask, dims["b"], dims["n"], dims["m"]);
  if (mask.defined()) L = MaskedFillUnless(L, mask, -std::numeric_limits<double>::infinity());
  const Variable W = Softmax(L);
  Variable U = MixHeads(W, p.P_w, queries.R_Xw, memory.R_Mw);
  if (capture != nullptr) {
    if (own_memory) capture->J = J.value();
    capture->L = L.value();
    capture->W = W.value();
    if (config.mixing.MixesWeights()) capture->U = U.value();
    capture->R_Xl = ValueOf(queries.R_Xl);
    capture->R_Ml = ValueOf(memory.R_Ml);
    capture->R_Xw = ValueOf(queries.R_Xw);
    capture->R_Mw = ValueOf(memory.R_Mw);
  }
  if (dropout_key.has_value()) U = Dropout(U, config.dropout_rate, *dropout_key);
  const Variable O = own_memory ? Einsum("O[b,n,h_v,d_v] = einsum(U[b,h_v,n,m], V[b,m,h_v,d_v])",
                                         {U, config.tied() ? memory.K : memory.V})
                                : Einsum("O[b,n,h,d_M] = einsum(U[b,h,n,m], M[b,m,d_M])", {U, memory.K});

  AttentionResult result;
  result.Y = ProjectOutput(config, p, O);
  result.implementation = AttentionImplementation::kComposed;
  if (extras.outputs == AttentionOutputs::kWithWeights) {
    result.W = Permute(W, {0, 2, 3, 1});
    result.U = Permute(U, {0, 2, 3, 1});
  }
  return result;
}

}  // namespace crosstalk
