#include "nn/attention_composed.h"

#include <limits>
#include <string_view>

#include "autograd/einsum.h"
#include "autograd/ops_dropout.h"
#include "autograd/ops_elementwise.h"
#include "autograd/ops_reduce.h"
#include "autograd/ops_shape.h"
#include "runtime/parallel.h"

namespace crosstalk {
namespace {

// The dimensions that the configuration fixes, for the shape errors of this layer.
Dims ConfiguredDims(const AttentionConfig& config) {
  constexpr std::string_view kSource = "the layer's configuration";
  Dims dims("attention");
  dims.Set("d_X", config.d_X, kSource).Set("d_M", config.d_M, kSource).Set("d_Y", config.d_Y, kSource);
  dims.Set("h", config.h, kSource);
  if (config.form == AttentionForm::kProjected) {
    dims.Set("h_k", config.h_k, kSource).Set("h_v", config.h_v, kSource);
    dims.Set("d_k", config.d_k, kSource).Set("d_v", config.d_v, kSource);
  }
  return dims;
}

enum class Wanted { kNo, kYes };

void CheckParameter(Dims& dims, Wanted wanted, std::string_view bracket, const Variable& parameter) {
  if (wanted == Wanted::kNo) {
    CROSSTALK_CHECK(!parameter.defined(), "attention: ", bracket, " is given, but the configuration has none");
    return;
  }
  CROSSTALK_CHECK(parameter.defined(), "attention: ", bracket, " is missing");
  dims.Bind(bracket, parameter.shape());
}

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
  ParallelForRange(batches * n, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t batch = row / n, query = row % n;
      for (int64_t j = 0; j < m; ++j) {
        out[row * m + j] = (!causal || j <= query) && (memory_data == nullptr || memory_data[batch * m + j]) &&
                           (pairs_data == nullptr || pairs_data[row * m + j]);
      }
    }
  });
  return combined;
}

void CheckMask(Dims& dims, std::string_view bracket, const Tensor& mask) {
  if (!mask.defined()) return;
  dims.Bind(bracket, mask.shape());
  CROSSTALK_CHECK(mask.dtype() == DType::kBool, "attention: the mask ", bracket, " is ", mask.dtype(),
                  ", not bool (true = attend)");
}

// J[b, h_k, n, m], scaled; without projections and bilinear, L[b, h, n, m]. The scale goes to the smaller factor.
Variable DotProducts(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                     const AttentionMemory& memory) {
  const auto scaled = [&](const Variable& x) { return config.scale == 1.0 ? x : Scale(x, config.scale); };
  switch (config.form) {
    case AttentionForm::kDotProduct: {
      const Variable J = Einsum("J[b,n,m] = einsum(X[b,n,d_X], M[b,m,d_X])", {scaled(X), memory.K});
      return Reshape(J, {J.size(0), 1, J.size(1), J.size(2)});
    }
    case AttentionForm::kBilinear: {
      const Variable A = Einsum("A[b,n,h,d_M] = einsum(X[b,n,d_X], P[d_X,h,d_M])", {X, p.P});
      return Einsum("L[b,h,n,m] = einsum(A[b,n,h,d_M], M[b,m,d_M])", {scaled(A), memory.K});
    }
    case AttentionForm::kProjected:
      break;
  }
  const Variable Q = Einsum("Q[b,n,h_k,d_k] = einsum(X[b,n,d_X], P_q[d_X,h_k,d_k])", {X, p.P_q});
  return Einsum("J[b,h_k,n,m] = einsum(Q[b,n,h_k,d_k], K[b,m,h_k,d_k])", {scaled(Q), memory.K});
}

// Mixes heads: to[b,t,n,m] = from[b,s,n,m]·P[s,t] + from·R_X[b,n,s,t] + from·R_M[b,m,s,t], each term where it is
// there, and `from` itself where none is. P + R_X (or P + R_M) is one matrix per query (or memory position), so P
// beside a dynamic projection costs no multiplications. Nothing here is as large as n·m·s·t.
Variable MixHeads(const Variable& from, const Variable& P, const Variable& R_X, const Variable& R_M) {
  const auto plus_static = [&](const Variable& R) { return P.defined() ? Add(R, P) : R; };
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

// U[b, h_v, n, m] and V → Y[b, n, d_Y].
Variable Output(const AttentionConfig& config, const AttentionParameters& p, const Variable& U,
                const AttentionMemory& memory) {
  switch (config.form) {
    case AttentionForm::kDotProduct:
      return Einsum("Y[b,n,d_M] = einsum(W[b,n,m], M[b,m,d_M])",
                    {Reshape(U, {U.size(0), U.size(2), U.size(3)}), memory.K});
    case AttentionForm::kBilinear: {
      const Variable O = Einsum("O[b,n,h,d_M] = einsum(W[b,h,n,m], M[b,m,d_M])", {U, memory.K});
      return Einsum("Y[b,n,d_Y] = einsum(O[b,n,h,d_M], Q[h,d_M,d_Y])", {O, p.Q});
    }
    case AttentionForm::kProjected:
      break;
  }
  const Variable& V = config.tied() ? memory.K : memory.V;
  const Variable O = Einsum("O[b,n,h_v,d_v] = einsum(U[b,h_v,n,m], V[b,m,h_v,d_v])", {U, V});
  return Einsum("Y[b,n,d_Y] = einsum(O[b,n,h_v,d_v], P_o[h_v,d_v,d_Y])", {O, p.P_o});
}

}  // namespace

void CheckAttentionParameters(const AttentionConfig& config, const AttentionParameters& p) {
  config.Validate();
  Dims dims = ConfiguredDims(config);
  const auto check = [&](bool wanted, std::string_view bracket, const Variable& parameter) {
    CheckParameter(dims, wanted ? Wanted::kYes : Wanted::kNo, bracket, parameter);
  };
  const bool projected = config.form == AttentionForm::kProjected;
  const bool bilinear = config.form == AttentionForm::kBilinear;
  check(projected, "P_q[d_X, h_k, d_k]", p.P_q);
  check(projected, "P_k[d_M, h_k, d_k]", p.P_k);
  check(projected && !config.tied(), "P_v[d_M, h_v, d_v]", p.P_v);
  check(projected, "P_o[h_v, d_v, d_Y]", p.P_o);
  check(config.mixing.P_l, "P_l[h_k, h]", p.P_l);
  check(config.mixing.P_w, "P_w[h, h_v]", p.P_w);
  check(config.mixing.P_Xl, "P_Xl[d_X, h_k, h]", p.P_Xl);
  check(config.mixing.P_Ml, "P_Ml[d_M, h_k, h]", p.P_Ml);
  check(config.mixing.P_Xw, "P_Xw[d_X, h, h_v]", p.P_Xw);
  check(config.mixing.P_Mw, "P_Mw[d_M, h, h_v]", p.P_Mw);
  check(bilinear, "P[d_X, h, d_M]", p.P);
  check(bilinear, "Q[h, d_M, d_Y]", p.Q);
}

AttentionMemory ProjectMemory(const AttentionConfig& config, const AttentionParameters& p, const Variable& M) {
  ConfiguredDims(config).Bind("M[b, m, d_M]", M.shape());
  AttentionMemory memory;
  if (config.form != AttentionForm::kProjected) {
    memory.K = M;
    return memory;
  }
  memory.K = Einsum("K[b,m,h_k,d_k] = einsum(M[b,m,d_M], P_k[d_M,h_k,d_k])", {M, p.P_k});
  if (!config.tied()) memory.V = Einsum("V[b,m,h_v,d_v] = einsum(M[b,m,d_M], P_v[d_M,h_v,d_v])", {M, p.P_v});
  if (config.mixing.P_Ml) memory.R_Ml = Einsum("R_Ml[b,m,h_k,h] = einsum(M[b,m,d_M], P_Ml[d_M,h_k,h])", {M, p.P_Ml});
  if (config.mixing.P_Mw) memory.R_Mw = Einsum("R_Mw[b,m,h,h_v] = einsum(M[b,m,d_M], P_Mw[d_M,h,h_v])", {M, p.P_Mw});
  return memory;
}

AttentionResult AttendComposed(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                               const AttentionMemory& memory, const AttentionExtras& extras,
                               const std::optional<RandomKey>& dropout_key) {
  Dims dims = ConfiguredDims(config);
  dims.Bind("X[b, n, d_X]", X.shape());
  dims.Bind(config.form == AttentionForm::kProjected ? "K[b, m, h_k, d_k]" : "M[b, m, d_M]", memory.K.shape());
  CheckMask(dims, "mask[b, m]", extras.mask.memory);
  CheckMask(dims, "mask[b, n, m]", extras.mask.pairs);
  const int64_t b = dims["b"], n = dims["n"], m = dims["m"];
  CROSSTALK_CHECK(config.causality == Causality::kNone || n == m, "attention: causal attention needs as many queries ",
                  "as memory positions, but X[b, n, d_X] has n=", n, " and the memory has m=", m);
  if (extras.bias.defined()) {
    dims.Bind(extras.bias.rank() == 4 ? "bias[1, h, n, m]" : "bias[h, n, m]", extras.bias.shape());
  }

  const Variable J = DotProducts(config, p, X, memory);
  Variable R_Xl, R_Xw;
  if (config.mixing.P_Xl) R_Xl = Einsum("R_Xl[b,n,h_k,h] = einsum(X[b,n,d_X], P_Xl[d_X,h_k,h])", {X, p.P_Xl});
  if (config.mixing.P_Xw) R_Xw = Einsum("R_Xw[b,n,h,h_v] = einsum(X[b,n,d_X], P_Xw[d_X,h,h_v])", {X, p.P_Xw});

  Variable L = MixHeads(J, p.P_l, R_Xl, memory.R_Ml);
  // Bias and mask belong to the softmax heads: after P_l, or it would carry -inf from head to head.
  if (extras.bias.defined()) L = Add(L, extras.bias);
  const Tensor mask = CombinedMask(config, extras.mask, b, n, m);
  if (mask.defined()) L = MaskedFillUnless(L, mask, -std::numeric_limits<double>::infinity());
  const Variable W = Softmax(L);
  Variable U = MixHeads(W, p.P_w, R_Xw, memory.R_Mw);
  if (dropout_key.has_value()) U = Dropout(U, config.dropout_rate, *dropout_key);

  AttentionResult result;
  result.Y = Output(config, p, U, memory);
  if (extras.outputs == AttentionOutputs::kWithWeights) {
    result.W = Permute(W, {0, 2, 3, 1});
    result.U = Permute(U, {0, 2, 3, 1});
  }
  return result;
}

}  // namespace crosstalk
