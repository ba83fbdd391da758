#include "crosstalk/nn/attention/project.h"

#include <string_view>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/nn/linear.h"

namespace crosstalk {
namespace {

// The dimensions that the configuration fixes, for the shape errors of this layer.
Dims ConfiguredDims(const AttentionConfig& config) {
  constexpr std::string_view kSource = "the layer's configuration";
  Dims dims("attention");
  for (const AttentionDim& dim : kAttentionDims) {  // a form has no use for some, and has 0 there
    if (config.*dim.size > 0) dims.Set(dim.name, config.*dim.size, kSource);
  }
  return dims;
}

// `equation`, which is x[b, n, d] times P[d, heads, size], and + bias[heads, size] where it is defined: one product
// then too.
Variable ProjectHeads(const char* equation, const Variable& x, const Variable& P, const Variable& bias) {
  if (!bias.defined()) return Einsum(equation, {x, P});
  const int64_t heads = bias.size(0), size = bias.size(1);
  const Variable y = ApplyWeight(x, Reshape(P, {P.size(0), heads * size}), Reshape(bias, {heads * size}));
  return Reshape(y, {x.size(0), x.size(1), heads, size});
}

void CheckMask(Dims& dims, std::string_view bracket, const Tensor& mask) {
  if (!mask.defined()) return;
  dims.Bind(bracket, mask.shape());
  CROSSTALK_CHECK(mask.dtype() == DType::kBool, "attention: the mask ", bracket, " is ", mask.dtype(),
                  ", not bool (true = attend)");
}

}  // namespace

void CheckAttentionParameters(const AttentionConfig& config, const AttentionParameters& p) {
  config.Validate();
  Dims dims = ConfiguredDims(config);
  for (const AttentionProjection& projection : kAttentionProjections) {
    const Variable& parameter = p.*projection.parameter;
    const bool present = IsPresent(projection, config);
    CROSSTALK_CHECK(present || !parameter.defined(), "attention: ", projection.bracket,
                    " is given, but the configuration has none");
    CROSSTALK_CHECK(!present || parameter.defined(), "attention: ", projection.bracket, " is missing");
    if (present) dims.Bind(projection.bracket, parameter.shape());
  }
}

Dims CheckAttentionInputs(const AttentionConfig& config, const Variable& X, const AttentionMemory& memory,
                          const AttentionExtras& extras) {
  Dims dims = ConfiguredDims(config);
  dims.Bind("X[b, n, d_X]", X.shape());
  dims.Bind(config.form == AttentionForm::kProjected ? "K[b, m, h_k, d_k]" : "M[b, m, d_M]", memory.K.shape());
  CheckMask(dims, "mask[b, m]", extras.mask.memory);
  CheckMask(dims, "mask[b, n, m]", extras.mask.pairs);
  CROSSTALK_CHECK(config.causality == Causality::kNone || dims["n"] == dims["m"],
                  "attention: causal attention needs as many queries as memory positions, but X[b, n, d_X] has n=",
                  dims["n"], " and the memory has m=", dims["m"]);
  if (extras.bias.by_distance()) {
    dims.Bind("bias_table[h, buckets]", extras.bias.values.shape());
    dims.Set("distances", dims["n"] + dims["m"] - 1, "n + m - 1");
    dims.Bind("distance_bucket[distances]", extras.bias.distance_bucket.shape());
  } else if (extras.bias.defined()) {
    dims.Bind(extras.bias.values.rank() == 4 ? "bias[1, h, n, m]" : "bias[h, n, m]", extras.bias.values.shape());
  }
  return dims;
}

AttentionMemory ProjectMemory(const AttentionConfig& config, const AttentionParameters& p, const Variable& M) {
  ConfiguredDims(config).Bind("M[b, m, d_M]", M.shape());
  AttentionMemory memory;
  if (config.form != AttentionForm::kProjected) {
    memory.K = M;
    return memory;
  }
  memory.K = ProjectHeads("K[b,m,h_k,d_k] = einsum(M[b,m,d_M], P_k[d_M,h_k,d_k])", M, p.P_k, p.b_k);
  if (!config.tied()) {
    memory.V = ProjectHeads("V[b,m,h_v,d_v] = einsum(M[b,m,d_M], P_v[d_M,h_v,d_v])", M, p.P_v, p.b_v);
  }
  if (config.mixing.P_Ml) memory.R_Ml = Einsum("R_Ml[b,m,h_k,h] = einsum(M[b,m,d_M], P_Ml[d_M,h_k,h])", {M, p.P_Ml});
  if (config.mixing.P_Mw) memory.R_Mw = Einsum("R_Mw[b,m,h,h_v] = einsum(M[b,m,d_M], P_Mw[d_M,h,h_v])", {M, p.P_Mw});
  return memory;
}

AttentionQueries ProjectQueries(const AttentionConfig& config, const AttentionParameters& p, const Variable& X) {
  AttentionQueries queries;
  switch (config.form) {
    case AttentionForm::kDotProduct:
      queries.Q = Reshape(X, {X.size(0), X.size(1), 1, X.size(2)});
      break;
    case AttentionForm::kBilinear:
      queries.Q = Einsum("A[b,n,h,d_M] = einsum(X[b,n,d_X], P[d_X,h,d_M])", {X, p.P});
      break;
    case AttentionForm::kProjected:
      queries.Q = ProjectHeads("Q[b,n,h_k,d_k] = einsum(X[b,n,d_X], P_q[d_X,h_k,d_k])", X, p.P_q, p.b_q);
      break;
  }
  if (config.mixing.P_Xl) queries.R_Xl = Einsum("R_Xl[b,n,h_k,h] = einsum(X[b,n,d_X], P_Xl[d_X,h_k,h])", {X, p.P_Xl});
  if (config.mixing.P_Xw) queries.R_Xw = Einsum("R_Xw[b,n,h,h_v] = einsum(X[b,n,d_X], P_Xw[d_X,h,h_v])", {X, p.P_Xw});
  return queries;
}

Variable ProjectOutput(const AttentionConfig& config, const AttentionParameters& p, const Variable& O) {
  if (config.form == AttentionForm::kDotProduct) return Reshape(O, {O.size(0), O.size(1), O.size(3)});
  const Variable heads = AsOperand(O);
  if (config.form == AttentionForm::kBilinear) {
    return Einsum("Y[b,n,d_Y] = einsum(O[b,n,h,d_M], Q[h,d_M,d_Y])", {heads, p.Q});
  }
  if (!p.b_o.defined()) return Einsum("Y[b,n,d_Y] = einsum(O[b,n,h_v,d_v], P_o[h_v,d_v,d_Y])", {heads, p.P_o});
  const int64_t width = O.size(2) * O.size(3);
  return ApplyWeight(Reshape(heads, {O.size(0), O.size(1), width}), Reshape(p.P_o, {width, p.P_o.size(2)}), p.b_o);
}

}  // namespace crosstalk
