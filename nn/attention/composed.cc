#include "crosstalk/nn/attention/composed.h"

#include <limits>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_dropout.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_heads.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

// bool, broadcastable to [b, h, n, m], true = attend; undefined if nothing is masked.
Tensor CombinedMask(const AttentionCall& call, const kernels::AttentionShape& s, Causality causality) {
  const bool causal = causality == Causality::kCausal;
  const bool padded = call.key_padding_mask.defined(), masked = call.attention_mask.defined();
  const int64_t b = s.b, n = s.n, m = s.m;
  if (!causal && !masked) return padded ? call.key_padding_mask.Reshape({b, 1, 1, m}) : Tensor();
  if (!causal && !padded) return call.attention_mask.Reshape({b, 1, n, m});

  const int64_t batches = padded || masked ? b : 1;
  const Tensor memory = padded ? call.key_padding_mask.Contiguous() : Tensor();
  const Tensor pairs = masked ? call.attention_mask.Contiguous() : Tensor();
  Tensor combined = Tensor::Empty({batches, 1, n, m}, DType::kBool);
  const uint8_t* const memory_data = memory.defined() ? memory.data<uint8_t>() : nullptr;
  const uint8_t* const pairs_data = pairs.defined() ? pairs.data<uint8_t>() : nullptr;
  uint8_t* const out = combined.data<uint8_t>();
  Launch([&] {
    ParallelForRange(batches * n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t batch = row / n, query = row % n;
        for (int64_t j = 0; j < m; ++j) {
          out[row * m + j] = (!causal || j <= query + m - n) &&
                             (memory_data == nullptr || memory_data[batch * m + j]) &&
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

// S[b, h, n, m], or its convolution with a filter, which reads and gives 0 where a query may not attend.
Variable Convolved(const Variable& S, const Variable& filter, int64_t left, const AttentionCall& call,
                   const kernels::AttentionShape& s) {
  if (!filter.defined()) return S;
  const Tensor mask = CombinedMask(call, s, Causality::kNone);  // beside causality, which the convolution knows
  const auto masked = [&mask](const Variable& x) { return mask.defined() ? MaskedFillUnless(x, mask, 0) : x; };
  const bool causal = s.causality == Causality::kCausal;
  return masked(ConvolveHeads(masked(S), filter, left, causal ? CausalConvolution::kYes : CausalConvolution::kNo));
}

}  // namespace

ComposedResult AttendComposed(const AttentionCall& call, AttentionCapture* capture) {
  const kernels::AttentionShape s = BindShape(call);
  const bool own_memory = s.kv_heads == kernels::KvHeads::kMultiHead;

  const Variable Q = call.scale == 1.0 ? call.Q : Scale(call.Q, call.scale);  // smaller than J
  const Variable J = own_memory ? Einsum("J[b,h_k,n,m] = einsum(Q[b,n,h_k,d_k], K[b,m,h_k,d_k])", {Q, call.K})
                                : Einsum("J[b,h,n,m] = einsum(Q[b,n,h,d_M], M[b,m,d_M])", {Q, call.K});
  const Tensor mask = CombinedMask(call, s, s.causality);
  const Variable C = Convolved(J, call.conv_l, call.left_l, call, s);
  // In float under bf16 too: an error of a logit is one of the exponent.
  Variable L = [&] {
    const ContextScope precision(&OpContext::precision, Precision::kFloat32);
    return MixHeads(C, call.P_l, call.R_Xl, call.R_Ml);
  }();
  // Bias and mask belong to the softmax heads: after P_l, or it would carry -inf from head to head.
  if (call.bias.defined()) L = Add(L, call.bias);
  if (call.bias_table.defined()) L = Add(L, DenseBias({call.bias_table, call.distance_bucket}, s.n, s.m));
  if (mask.defined()) L = MaskedFillUnless(L, mask, -std::numeric_limits<double>::infinity());
  const Variable W = Softmax(L);
  const Variable W_c = Convolved(W, call.conv_w, call.left_w, call, s);
  Variable U = MixHeads(W_c, call.P_w, call.R_Xw, call.R_Mw);
  if (capture != nullptr) {
    if (own_memory) capture->J = J.value();
    capture->L = L.value();
    capture->W = W.value();
    if (s.MixesWeights() || call.conv_w.defined()) capture->U = U.value();
    for (const AttentionProjection& projection : kAttentionProjections) {
      if (!IsDynamic(projection) || !(call.*projection.generated).defined()) continue;
      capture->dynamic.push_back({StrCat("R_", DynamicName(projection)), (call.*projection.generated).value()});
    }
  }
  if (call.dropout_rate > 0) U = Dropout(U, call.dropout_rate, call.dropout_key);
  const Variable O = own_memory ? Einsum("O[b,n,h_v,d_v] = einsum(U[b,h_v,n,m], V[b,m,h_v,d_v])", {U, call.V})
                                : Einsum("O[b,n,h,d_M] = einsum(U[b,h,n,m], M[b,m,d_M])", {U, call.K});
  return {O, W, U};
}

}  // namespace crosstalk
