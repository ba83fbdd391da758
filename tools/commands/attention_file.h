// One attention layer evaluated on named tensors in the paper's layouts, as a file holds them: for checking against any
// other framework. Which tensors are there decides the kind of attention.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

// The treatment of non-finite inputs and results.
enum class NonFinite { kRefuse, kAllow };

struct AttentionTensorsOptions {
  // Else the fused one in float, the composed one in double.
  std::optional<AttentionImplementation> implementation = {};
  // Properties that the tensors do not show: scale, causality, positions, λ_init, which keys are shared or convolved,
  // groups of heads, a norm of heads without gain.
  AttentionConfig layer = {};
  DType dtype = DType::kFloat32;  // the arithmetic's and the results'; inputs are converted to it
  AttentionOutputs outputs = AttentionOutputs::kWithWeights;
  NonFinite non_finite = NonFinite::kRefuse;
};

struct AttentionEvaluation {
  std::vector<NamedTensor> tensors;
  // That computed Y and the gradients. W, which the fused one never holds, is the composed one's always.
  AttentionImplementation implementation = AttentionImplementation::kComposed;
  // "result 'Y' has nan at [0, 0, 1] of [2, 3, 4]", for each that has one, if that is allowed.
  std::vector<std::string> non_finite = {};
};

// Inputs, float32 or float64 unless a line says otherwise:
//   X[b, n, d_X]; M[b, m, d_M] (absent: M is X)
//   P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_v[d_M, d_v, h_v], P_o[d_Y, d_v, h_v], and with them any of P_l[h_k, h],
//   P_w[h, h_v], P_Xl[d_X, h_k, h], P_Ml[d_M, h_k, h], P_Xw[d_X, h, h_v], P_Mw[d_M, h, h_v],
//   and all, all but b_o, or none of b_q[d_k, h_k], b_k[d_k, h_k], b_v[d_v, h_v], b_o[d_Y]
//   what docs/family.md has: dw1, qkw, dd; lambda_q1, lambda_k1, lambda_q2, lambda_k2; P_lambda; conv_l, conv_w;
//   q_norm, k_norm; norm_gain; gate, gate_bias or P[d_X, d_M, h] and Q[d_M, d_Y, h]: general bilinear or none of these:
//   plain dot-product attention, d_X = d_M = d_Y, h = 1 mask bool[b, n, m] (true = attend); bias[h, n, m]; dY[b, n,
//   d_Y]
// Results: Y[b, n, d_Y]; W[b, n, m, h] if asked for; where dY is given, "d" + name for every floating-point input but
// dY (dX holds both parts where M is X).
// Throws Error(kData) that names the file, the tensor and the shapes for a tensor that is missing, not known, out of
// place, empty, of a wrong type, or of a shape that does not fit the others; a usage error where the fused
// implementation is asked for in double; Error(kNumerical) for the first input or result that is not finite. A bias of
// -infinity is: it hides a pair, as the mask does.
AttentionEvaluation EvaluateAttention(const TensorFile& inputs, const AttentionTensorsOptions& options);

}  // namespace crosstalk
