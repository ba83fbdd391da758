#include "crosstalk/nn/attention/composed.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/kernels/attention/call.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/nn/init.h"
#include "crosstalk/nn/layers.h"
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
          const int64_t before = query + m - n - j;  // its own position
          out[row * m + j] = (!causal || (before >= 0 && (s.window == 0 || before < s.window))) &&
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
// each term where it is there, and `from` itself if none is. P + R_X (or P + R_M) is one matrix per query (or memory
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

// x[b, n, heads, d] or [b, heads, n, m] with `dim`, that of heads, cut into [p, r, t]: head (p·r + i)·t + member, of
// which the r heads i read member `member` of pair p in a memory of p·t heads. t is 2 where pairs share pairs, else 1.
Variable CutHeads(const Variable& x, int dim, int64_t memory_heads, int64_t t) {
  std::vector<int64_t> sizes = x.shape().ToVector();
  const int64_t readers = sizes[static_cast<size_t>(dim)] / memory_heads;
  sizes[static_cast<size_t>(dim)] = memory_heads / t;
  sizes.insert(sizes.begin() + dim + 1, {readers, t});
  return Reshape(x, Shape(sizes));
}

// K or V[b, m, g, d] as [b, m, p, t, d].
Variable CutMemory(const Variable& x, int64_t t) {
  return Reshape(x, {x.size(0), x.size(1), x.size(2) / t, t, x.size(3)});
}

// J[b, h_k, n, m] / scale. K[b, m, d_k] of one head is the memory itself.
Variable DotProducts(const Variable& Q, const Variable& K, const kernels::AttentionShape& s) {
  if (K.rank() == 3) return Einsum("J[b,h,n,m] = einsum(Q[b,n,h,d_M], M[b,m,d_M])", {Q, K});
  if (s.g_k == s.h_k) return Einsum("J[b,h_k,n,m] = einsum(Q[b,n,h_k,d_k], K[b,m,h_k,d_k])", {Q, K});
  const int64_t t = s.key_sharing == kernels::KeySharing::kPairs ? 2 : 1;
  const Variable J = Einsum("J[b,p,r,t,n,m] = einsum(Q[b,n,p,r,t,d_k], K[b,m,p,t,d_k])",
                            {CutHeads(Q, /*dim=*/2, s.g_k, t), CutMemory(K, t)});
  return Reshape(J, {s.b, s.h_k, s.n, s.m});
}

// O[b, n, h_v, d_v].
Variable WeightedValues(const Variable& U, const Variable& V, const kernels::AttentionShape& s) {
  if (V.rank() == 3) return Einsum("O[b,n,h,d_M] = einsum(U[b,h,n,m], M[b,m,d_M])", {U, V});
  if (s.g_v == s.h_v) return Einsum("O[b,n,h_v,d_v] = einsum(U[b,h_v,n,m], V[b,m,h_v,d_v])", {U, V});
  const Variable O = Einsum("O[b,n,p,r,t,d_v] = einsum(U[b,p,r,t,n,m], V[b,m,p,t,d_v])",
                            {CutHeads(U, /*dim=*/1, s.g_v, 1), CutMemory(V, 1)});
  return Reshape(O, {s.b, s.n, s.h_v, s.d_v});
}

}  // namespace

ComposedResult AttendComposed(const AttentionCall& call, AttentionCapture* capture) {
  const kernels::AttentionShape s = BindShape(call);
  const Variable Q = call.scale == 1.0 ? call.Q : Scale(call.Q, call.scale);  // smaller than J
  const Variable J = DotProducts(Q, call.K, s);
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
    if (call.K.rank() > 3) capture->J = J.value();
    capture->L = L.value();
    capture->W = W.value();
    if (s.MixesWeights() || call.conv_w.defined()) capture->U = U.value();
    CaptureDynamic(call, capture);
  }
  if (call.dropout_rate > 0) U = Dropout(U, call.dropout_rate, call.dropout_key);
  return {WeightedValues(U, call.V, s), W, U};
}

namespace {

// The publishers'.
constexpr double kHeadNormEpsilon = 1e-5, kGeneratorEpsilon = 1e-6;

// The dimensions that the configuration fixes, for the shape errors of this layer.
Dims& SetDims(const AttentionConfig& config, Dims& dims) {
  constexpr std::string_view kSource = "the layer's configuration";
  for (const AttentionDim& dim : kAttentionDims) {  // a form has no use for some, and has 0 there
    if (config.*dim.size > 0) dims.Set(dim.name, config.*dim.size, kSource);
  }
  if (config.form != AttentionForm::kProjected) return dims;
  for (const OptionalAttentionDim& dim : kOptionalAttentionDims) {
    if (const int64_t size = dim.size(config); size > 0) dims.Set(dim.name, size, kSource);
  }
  return dims;
}

// `equation`, which is x[b, n, d] times P[d, heads, size], and + bias[heads, size] if it is defined: one product
// then too.
Variable ProjectHeads(const char* equation, const Variable& x, const Variable& P, const Variable& bias) {
  if (!bias.defined()) return Einsum(equation, {x, P});
  const int64_t heads = bias.size(0), size = bias.size(1);
  const Variable y = ApplyWeight(x, Reshape(P, {P.size(0), heads * size}), Reshape(bias, {heads * size}));
  return Reshape(y, {x.size(0), x.size(1), heads, size});
}

// x[b, n, heads, d] with each vector normed, and turned by its position.
Variable AtPositions(const AttentionConfig& config, Variable x, const Variable& gain, int64_t first) {
  if (gain.defined()) x = RmsNorm(x, gain, kQueryKeyNormEpsilon);
  if (config.rotary == Rotary::kNone) return x;
  const auto pairs =
      config.rotary == Rotary::kHalves ? kernels::RotaryPairs::kHalves : kernels::RotaryPairs::kInterleaved;
  return RotateByPosition(x, pairs, config.rotary_frequencies, first);
}

Variable ProjectedQueries(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                          int64_t first) {
  return AtPositions(config, ProjectHeads("Q[b,n,h_k,d_k] = einsum(X[b,n,d_X], P_q[d_X,h_k,d_k])", X, p.P_q, p.b_q),
                     p.q_norm, first);
}

// F[b, n, 5, h] of logits and of weights.
struct Factors {
  Variable l, w;
};

// A low-rank generator's output for x[b, n, d], X with first = 0 or M with first = 1, for the mixings c = first (Xl,
// Ml) and first + 2 (Xw, Mw):
//   H = GELU(x·dw1_c)   A[i] = H·qkw_c[i], i < 4   F = (rms over h of A[0], A[1]; A[2], A[3]; tanh(x·dd_c))
// All four products with x are one.
Factors GeneratedFactors(const AttentionParameters& p, const Variable& x, int64_t first) {
  const auto of_mixing = [](const Variable& parameter, int dim, int64_t c, const Shape& shape) {
    return Reshape(Slice(parameter, dim, c, c + 1), shape);
  };
  const int64_t d = p.dw1.size(0), d_g = p.dw1.size(2), h = p.dd.size(2), w = first + 2;
  const Variable P = Concat({of_mixing(p.dw1, 1, first, {d, d_g}), of_mixing(p.dw1, 1, w, {d, d_g}),
                             of_mixing(p.dd, 1, first, {d, h}), of_mixing(p.dd, 1, w, {d, h})},
                            1);
  const Variable products = Einsum("Y[b,n,e] = einsum(x[b,n,d], P[d,e])", {x, P});
  const Variable H = Gelu(Slice(products, 2, 0, 2 * d_g)), D = Tanh(Slice(products, 2, 2 * d_g, 2 * (d_g + h)));
  const auto of = [&](int64_t c, int64_t place) {
    const Variable A = Einsum("A[b,n,i,h] = einsum(H[b,n,d_g], K[d_g,i,h])",
                              {Slice(H, 2, place * d_g, (place + 1) * d_g), of_mixing(p.qkw, 0, c, {d_g, 4, h})});
    const Variable rows = RmsNorm(Slice(A, 2, 0, 2), Variable(Tensor::Full({h}, 1, A.dtype())), kGeneratorEpsilon);
    const Variable diagonal = Slice(D, 2, place * h, (place + 1) * h);
    return Concat({rows, Slice(A, 2, 2, 4), Reshape(diagonal, {x.size(0), x.size(1), 1, h})}, 2);
  };
  return {of(first, 0), of(w, 1)};
}

// F[b, n, 5, h] of the matrices R(F) + I.
Variable PlusIdentity(const Variable& F) {
  const Tensor ones = Tensor::Zeros({F.size(2), F.size(3)}, F.dtype());
  ones.Slice(0, F.size(2) - 1, F.size(2)).Fill(1);
  return Add(F, Variable(ones));
}

// S[h, h_v], whose column g has `value` at row 2g + member: how a pair of softmax heads meets its value head.
Variable OfMember(int64_t h, int64_t member, double value, DType dtype) {
  const Tensor S = Tensor::Zeros({h, h / 2}, dtype);
  for (int64_t g = 0; g < h / 2; ++g) S.Select(0, 2 * g + member).Slice(0, g, g + 1).Fill(value);
  return Variable(S);
}

// P[h, h] with zeros between heads of different groups, if there are some. Undefined stays so.
Variable WithinGroups(const AttentionConfig& config, const Variable& P) {
  if (!P.defined() || config.mixing_group == 0) return P;
  const Tensor mask = Tensor::Zeros(P.shape(), P.dtype());
  for (int64_t first = 0; first < config.h; first += config.mixing_group) {
    mask.Slice(0, first, first + config.mixing_group).Slice(1, first, first + config.mixing_group).Fill(1);
  }
  return Mul(P, Variable(mask));
}

// P_w[h, h_v] of differential attention: 1 and -λ in each column.
Variable DifferentialWeights(const AttentionConfig& config, const AttentionParameters& p) {
  const DType dtype = p.lambda_q1.dtype();
  return Add(OfMember(config.h, 0, 1, dtype), Mul(DifferentialLambda(config, p), OfMember(config.h, 1, -1, dtype)));
}

// R_Xw[b, n, h, h_v] of its second version: 1 and -σ(X·P_lambda).
Variable DifferentialMatrices(const AttentionConfig& config, const AttentionParameters& p, const Variable& X) {
  const Variable sigma = Sigmoid(Einsum("to[b,n,h_v] = einsum(X[b,n,d_X], P_lambda[d_X,h_v])", {X, p.P_lambda}));
  const DType dtype = sigma.dtype();
  const Variable columns = Reshape(sigma, {X.size(0), X.size(1), 1, config.h_v});
  return Add(Mul(columns, OfMember(config.h, 1, -1, dtype)), OfMember(config.h, 0, 1, dtype));
}

}  // namespace

Variable DifferentialLambda(const AttentionConfig& config, const AttentionParameters& p) {
  const auto exp_of = [](const Variable& a, const Variable& b) { return Exp(Sum(Mul(a, b))); };
  return AddScalar(Sub(exp_of(p.lambda_q1, p.lambda_k1), exp_of(p.lambda_q2, p.lambda_k2)), config.LambdaInit());
}

Variable LogitsMixing(const AttentionConfig& config, const AttentionParameters& p) {
  return WithinGroups(config, p.P_l);
}

Variable WeightsMixing(const AttentionConfig& config, const AttentionParameters& p) {
  return config.differential == Differential::kV1 ? DifferentialWeights(config, p) : WithinGroups(config, p.P_w);
}

void CheckAttentionParameters(const AttentionConfig& config, const AttentionParameters& p) {
  config.Validate();
  Dims dims("attention");
  SetDims(config, dims);
  for (const AttentionProjection& projection : kAttentionProjections) {
    const Variable& parameter = p.*projection.parameter;
    const bool present = IsPresent(projection, config);
    CROSSTALK_CHECK(present || !parameter.defined(), "attention: ", projection.bracket,
                    " is given, but the configuration has none");
    CROSSTALK_CHECK(!present || parameter.defined(), "attention: ", projection.bracket, " is missing");
    if (present) dims.Bind(projection.bracket, parameter.shape());
  }
}

AttentionMemory ProjectMemory(const AttentionConfig& config, const AttentionParameters& p, const Variable& M,
                              int64_t first) {
  Dims dims("attention");
  SetDims(config, dims).Bind("M[b, m, d_M]", M.shape());
  AttentionMemory memory;
  if (config.form != AttentionForm::kProjected) {
    memory.K = M;
    return memory;
  }
  memory.K = AtPositions(config, ProjectHeads("K[b,m,g_k,d_k] = einsum(M[b,m,d_M], P_k[d_M,g_k,d_k])", M, p.P_k, p.b_k),
                         p.k_norm, first);
  if (!config.tied()) {
    memory.V = ProjectHeads("V[b,m,g_v,d_v] = einsum(M[b,m,d_M], P_v[d_M,g_v,d_v])", M, p.P_v, p.b_v);
  }
  if (config.mixing.P_Ml) memory.R_Ml = Einsum("R_Ml[b,m,h_k,h] = einsum(M[b,m,d_M], P_Ml[d_M,h_k,h])", {M, p.P_Ml});
  if (config.mixing.P_Mw) memory.R_Mw = Einsum("R_Mw[b,m,h,h_v] = einsum(M[b,m,d_M], P_Mw[d_M,h,h_v])", {M, p.P_Mw});
  if (config.dynamic_form == DynamicForm::kLowRank) {
    const Factors F = GeneratedFactors(p, M, 1);
    memory.F_Ml = F.l;
    memory.F_Mw = F.w;
  }
  return memory;
}

AttentionCall ProjectQueries(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                             const AttentionMemory& memory, const AttentionCallOptions& options,
                             const std::optional<RandomKey>& dropout_key, int64_t first) {
  Dims dims("attention");
  SetDims(config, dims).Bind("X[b, n, d_X]", X.shape());
  CROSSTALK_CHECK(config.causality == Causality::kNone || first + X.size(1) == memory.K.size(1),
                  "attention: causal attention needs as many queries as memory positions, but X[b, n, d_X] has n=",
                  first + X.size(1), " and the memory has m=", memory.K.size(1));
  AttentionCall call;
  const bool own_memory = config.form == AttentionForm::kProjected;  // else all heads share M
  call.shape.key_sharing = config.key_sharing;
  call.shape.causality = config.causality;
  call.shape.window = config.window;
  call.scale = config.scale;
  switch (config.form) {
    case AttentionForm::kDotProduct:
      call.Q = Reshape(X, {X.size(0), X.size(1), 1, X.size(2)});
      break;
    case AttentionForm::kBilinear:
      call.Q = Einsum("A[b,n,h,d_M] = einsum(X[b,n,d_X], P[d_X,h,d_M])", {X, p.P});
      break;
    case AttentionForm::kProjected:
      call.Q = ProjectedQueries(config, p, X, first);
      break;
  }
  call.K = memory.K;
  call.V = own_memory && !config.tied() ? memory.V : memory.K;
  call.P_l = LogitsMixing(config, p);
  call.P_w = WeightsMixing(config, p);
  call.conv_l = p.conv_l;
  call.conv_w = p.conv_w;
  call.left_l = KeysBefore(config.c_kl, config.convolution_keys);
  call.left_w = KeysBefore(config.c_kw, config.convolution_keys);
  if (config.mixing.P_Xl) call.R_Xl = Einsum("R_Xl[b,n,h_k,h] = einsum(X[b,n,d_X], P_Xl[d_X,h_k,h])", {X, p.P_Xl});
  if (config.mixing.P_Xw) call.R_Xw = Einsum("R_Xw[b,n,h,h_v] = einsum(X[b,n,d_X], P_Xw[d_X,h,h_v])", {X, p.P_Xw});
  call.R_Ml = memory.R_Ml;
  call.R_Mw = memory.R_Mw;
  if (config.dynamic_form == DynamicForm::kLowRank) {
    const Factors F = GeneratedFactors(p, X, 0);
    call.F_Xl = p.P_l.defined() ? F.l : PlusIdentity(F.l);
    call.F_Xw = p.P_w.defined() ? F.w : PlusIdentity(F.w);
    call.F_Ml = memory.F_Ml;
    call.F_Mw = memory.F_Mw;
  }
  if (config.differential == Differential::kV2) call.R_Xw = DifferentialMatrices(config, p, X);
  const Variable& bias = options.bias.values;
  if (options.bias.by_distance()) {
    call.bias_table = bias;
    call.distance_bucket = options.bias.distance_bucket;
  } else if (bias.defined()) {
    call.bias = bias.rank() == 4 ? Reshape(bias, {bias.size(1), bias.size(2), bias.size(3)}) : bias;
  }
  call.key_padding_mask = options.key_padding_mask;
  call.attention_mask = options.attention_mask;
  if (dropout_key.has_value()) {
    call.dropout_rate = config.dropout_rate;
    call.dropout_key = *dropout_key;
  }
  return call;
}

kernels::AttentionShape ShapeOf(const AttentionConfig& config) {
  kernels::AttentionShape s;
  s.P_l = config.mixing.P_l;
  s.P_w = config.mixing.P_w || config.differential == Differential::kV1;
  s.R_Xl = config.mixing.P_Xl;
  s.R_Ml = config.mixing.P_Ml;
  s.R_Xw = config.mixing.P_Xw || config.differential == Differential::kV2;
  s.R_Mw = config.mixing.P_Mw;
  s.F_Xl = s.F_Ml = s.F_Xw = s.F_Mw = config.dynamic_form == DynamicForm::kLowRank;
  s.c_ql = config.c_ql;
  s.c_kl = config.c_kl;
  s.c_qw = config.c_qw;
  s.c_kw = config.c_kw;
  return s;
}

Variable ProjectOutput(const AttentionConfig& config, const AttentionParameters& p, const Variable& given) {
  if (config.form == AttentionForm::kDotProduct) return Reshape(given, {given.size(0), given.size(1), given.size(3)});
  Variable O = given;
  if (config.head_norm != HeadNorm::kNone) {
    const Variable gain = p.norm_gain.defined() ? p.norm_gain : Variable(Tensor::Full({O.size(3)}, 1, O.dtype()));
    O = RmsNorm(O, gain, kHeadNormEpsilon);
    if (const double factor = config.HeadNormFactor(); factor != 1) O = Scale(O, factor);
  }
  if (config.head_gate != HeadGate::kNone) O = Mul(O, Sigmoid(ApplyWeight(O, p.gate, p.gate_bias)));
  const Variable heads = AsOperand(O);
  if (config.form == AttentionForm::kBilinear) {
    return Einsum("Y[b,n,d_Y] = einsum(O[b,n,h,d_M], Q[h,d_M,d_Y])", {heads, p.Q});
  }
  if (!p.b_o.defined()) return Einsum("Y[b,n,d_Y] = einsum(O[b,n,h_v,d_v], P_o[h_v,d_v,d_Y])", {heads, p.P_o});
  const int64_t width = O.size(2) * O.size(3);
  return ApplyWeight(Reshape(heads, {O.size(0), O.size(1), width}), Reshape(p.P_o, {width, p.P_o.size(2)}), p.b_o);
}

}  // namespace crosstalk
