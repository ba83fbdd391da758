#include "crosstalk/nn/attention/project.h"

#include <optional>
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

AttentionCall ProjectQueries(const AttentionConfig& config, const AttentionParameters& p, const Variable& X,
                             const AttentionMemory& memory, const AttentionCallOptions& options,
                             const std::optional<RandomKey>& dropout_key) {
  ConfiguredDims(config).Bind("X[b, n, d_X]", X.shape());
  CROSSTALK_CHECK(config.causality == Causality::kNone || X.size(1) == memory.K.size(1),
                  "attention: causal attention needs as many queries as memory positions, but X[b, n, d_X] has n=",
                  X.size(1), " and the memory has m=", memory.K.size(1));
  AttentionCall call;
  const bool own_memory = config.form == AttentionForm::kProjected;  // else all heads share M
  call.shape.kv_heads = own_memory ? kernels::KvHeads::kMultiHead : kernels::KvHeads::kMultiQuery;
  call.shape.causality = config.causality;
  call.scale = config.scale;
  switch (config.form) {
    case AttentionForm::kDotProduct:
      call.Q = Reshape(X, {X.size(0), X.size(1), 1, X.size(2)});
      break;
    case AttentionForm::kBilinear:
      call.Q = Einsum("A[b,n,h,d_M] = einsum(X[b,n,d_X], P[d_X,h,d_M])", {X, p.P});
      break;
    case AttentionForm::kProjected:
      call.Q = ProjectHeads("Q[b,n,h_k,d_k] = einsum(X[b,n,d_X], P_q[d_X,h_k,d_k])", X, p.P_q, p.b_q);
      break;
  }
  call.K = memory.K;
  call.V = own_memory && !config.tied() ? memory.V : memory.K;
  call.P_l = p.P_l;
  call.P_w = p.P_w;
  if (config.mixing.P_Xl) call.R_Xl = Einsum("R_Xl[b,n,h_k,h] = einsum(X[b,n,d_X], P_Xl[d_X,h_k,h])", {X, p.P_Xl});
  if (config.mixing.P_Xw) call.R_Xw = Einsum("R_Xw[b,n,h,h_v] = einsum(X[b,n,d_X], P_Xw[d_X,h,h_v])", {X, p.P_Xw});
  call.R_Ml = memory.R_Ml;
  call.R_Mw = memory.R_Mw;
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
