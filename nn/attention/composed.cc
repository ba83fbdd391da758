#include "crosstalk/nn/attention/composed.h"

#include <limits>
#include <string>
#include <utility>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_dropout.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_heads.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/kernels/attention/mixings.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/project.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

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

// from[b,s,n,m]·R(F[b,n,5,s]), by the factors: kernels/attention/call.h.
Variable MixByFactors(const Variable& from, const Variable& F) {
  constexpr int64_t kRank = kernels::kMixingRank;
  const Variable T = Einsum("T[b,i,n,m] = einsum(from[b,s,n,m], A[b,n,i,s])", {from, Slice(F, /*dim=*/2, 0, kRank)});
  const Variable to =
      Einsum("to[b,t,n,m] = einsum(T[b,i,n,m], B[b,n,i,t])", {T, Slice(F, /*dim=*/2, kRank, 2 * kRank)});
  const int64_t b = F.size(0), n = F.size(1), h = F.size(3);
  const Variable D = Transpose(Reshape(Slice(F, /*dim=*/2, 2 * kRank, 2 * kRank + 1), {b, n, h}), 1, 2);
  return Add(to, Mul(from, Reshape(D, {b, h, n, 1})));
}

// The mixing of the heads of logits, or of weights.
struct Mixings {
  const Variable &P, &R_X, &R_M, &F_X, &F_M;
};

// Mixes heads: to[b,t,n,m] = from[b,s,n,m]·P[s,t] + from·R_X[b,n,s,t] + from·R_M[b,m,s,t] + from·R(F_X) + from·R(F_M),
// each term where it is there, and `from` itself where none is. P + R_X (or P + R_M) is one matrix per query (or memory
// position), so P beside a dynamic projection costs no multiplications. Nothing here is as large as n·m·s·t.
Variable MixHeads(const Variable& from, const Mixings& mixings) {
  const Variable &P = mixings.P, &R_X = mixings.R_X, &R_M = mixings.R_M, &F_X = mixings.F_X, &F_M = mixings.F_M;
  const auto plus_static = [&](const Variable& R) { return P.defined() ? Add(R, P) : R; };
  // The equation has a product with P all the same, and so has the fused implementation's count.
  if (P.defined() && (R_X.defined() || R_M.defined())) {
    CountMultiplications(SaturatingProduct(from.value().num_elements(), P.size(1)));
  }
  Variable to;
  const auto add = [&to](const Variable& term) { to = to.defined() ? Add(to, term) : term; };
  if (R_X.defined()) {
    add(Einsum("to[b,t,n,m] = einsum(from[b,s,n,m], R_X[b,n,s,t])", {from, plus_static(R_X)}));
  } else if (P.defined() && !R_M.defined()) {
    add(Einsum("to[b,t,n,m] = einsum(from[b,s,n,m], P[s,t])", {from, P}));
  }
  if (F_X.defined()) add(MixByFactors(from, F_X));
  if (R_M.defined() || F_M.defined()) {
    // [b, s, m, n], so that each memory position's product runs over contiguous queries.
    const Variable transposed = Contiguous(Transpose(from, 2, 3));
    if (R_M.defined()) {
      add(Transpose(Einsum("to[b,t,m,n] = einsum(from[b,s,m,n], R_M[b,m,s,t])",
                           {transposed, R_X.defined() ? R_M : plus_static(R_M)}),
                    2, 3));
    }
    if (F_M.defined()) add(Transpose(MixByFactors(transposed, F_M), 2, 3));
  }
  return to.defined() ? to : from;
}

// The matrices of F[b, n, 5, h]: [b, n, h, h].
Tensor MatricesOf(const Variable& F) {
  constexpr int64_t kRank = kernels::kMixingRank;
  const int64_t b = F.size(0), n = F.size(1), h = F.size(3);
  const Tensor identity = Initializer(0, F.dtype()).Make({h, h}, InitialValues::Identity());
  const Variable products = Einsum("R[b,n,s,t] = einsum(A[b,n,i,s], B[b,n,i,t])",
                                   {Slice(F, /*dim=*/2, 0, kRank), Slice(F, /*dim=*/2, kRank, 2 * kRank)});
  const Variable D = Reshape(Slice(F, /*dim=*/2, 2 * kRank, 2 * kRank + 1), {b, n, h, 1});
  return Add(products, Mul(D, Variable(identity))).value();
}

// "R_Xl" and its like, of the call's matrices or of its factors.
void CaptureDynamic(const AttentionCall& call, AttentionCapture* capture) {
  for (const kernels::MixingSide side : kernels::kMixingSides) {
    const auto& rows = kernels::kMixings[side];
    for (const auto& [matrices, factors] :
         {std::pair(&rows[kernels::kPerQuery], &rows[kernels::kFactorsPerQuery]),
          std::pair(&rows[kernels::kPerPosition], &rows[kernels::kFactorsPerPosition])}) {
      const Variable &R = call[matrices->operand], &F = call[factors->operand];
      if (!R.defined() && !F.defined()) continue;
      const std::string name(matrices->bracket.substr(0, matrices->bracket.find('[')));
      capture->dynamic.push_back({name, R.defined() ? R.value() : MatricesOf(F)});
    }
  }
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
  const bool own_memory = s.kv_heads != kernels::KvHeads::kMultiQuery;
  const bool grouped = s.kv_heads == kernels::KvHeads::kGrouped;
  const Variable K = grouped ? ForEachHead(call.K, s.h_k) : call.K, V = grouped ? ForEachHead(call.V, s.h_v) : call.V;

  const Variable Q = call.scale == 1.0 ? call.Q : Scale(call.Q, call.scale);  // smaller than J
  const Variable J = own_memory ? Einsum("J[b,h_k,n,m] = einsum(Q[b,n,h_k,d_k], K[b,m,h_k,d_k])", {Q, K})
                                : Einsum("J[b,h,n,m] = einsum(Q[b,n,h,d_M], M[b,m,d_M])", {Q, K});
  const Tensor mask = CombinedMask(call, s, s.causality);
  const Variable C = Convolved(J, call.conv_l, call.left_l, call, s);
  // In float under bf16 too: an error of a logit is one of the exponent.
  Variable L = [&] {
    const ContextScope precision(&OpContext::precision, Precision::kFloat32);
    return MixHeads(C, {call.P_l, call.R_Xl, call.R_Ml, call.F_Xl, call.F_Ml});
  }();
  // Bias and mask belong to the softmax heads: after P_l, or it would carry -inf from head to head.
  if (call.bias.defined()) L = Add(L, call.bias);
  if (call.bias_table.defined()) L = Add(L, DenseBias({call.bias_table, call.distance_bucket}, s.n, s.m));
  if (mask.defined()) L = MaskedFillUnless(L, mask, -std::numeric_limits<double>::infinity());
  const Variable W = Softmax(L);
  const Variable W_c = Convolved(W, call.conv_w, call.left_w, call, s);
  Variable U = MixHeads(W_c, {call.P_w, call.R_Xw, call.R_Mw, call.F_Xw, call.F_Mw});
  if (capture != nullptr) {
    if (own_memory) capture->J = J.value();
    capture->L = L.value();
    capture->W = W.value();
    if (s.MixesWeights() || call.conv_w.defined()) capture->U = U.value();
    CaptureDynamic(call, capture);
  }
  if (call.dropout_rate > 0) U = Dropout(U, call.dropout_rate, call.dropout_key);
  const Variable O = own_memory ? Einsum("O[b,n,h_v,d_v] = einsum(U[b,h_v,n,m], V[b,m,h_v,d_v])", {U, V})
                                : Einsum("O[b,n,h,d_M] = einsum(U[b,h,n,m], M[b,m,d_M])", {U, K});
  return {O, W, U};
}

}  // namespace crosstalk
