// Inputs and results of an attention layer: parameters, masks, the projected memory, results. No functions.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/bias.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The learned tensors of a layer; undefined where the configuration has none. nn/attention/projections.h has a row for
// each. The bracket order is storage order, and ours: heads before their size, so that a projection is one matrix
// product of [d_X]·[d_X, h_k·d_k] and every head's rows are contiguous.
struct AttentionParameters {
  Variable P_q;        // [d_X, h_k, d_k]
  Variable P_k;        // [d_M, g_k, d_k]
  Variable P_v;        // [d_M, g_v, d_v]
  Variable P_o;        // [h_v, d_v, d_Y]
  Variable P_l;        // [h_k, h]
  Variable P_w;        // [h, h_v]
  Variable P_Xl;       // [d_X, h_k, h]
  Variable P_Ml;       // [d_M, h_k, h]
  Variable P_Xw;       // [d_X, h, h_v]
  Variable P_Mw;       // [d_M, h, h_v]
  Variable P;          // [d_X, h, d_M]
  Variable Q;          // [h, d_M, d_Y]
  Variable b_q;        // [h_k, d_k]
  Variable b_k;        // [g_k, d_k]
  Variable b_v;        // [g_v, d_v]
  Variable b_o;        // [d_Y]
  Variable dw1;        // [d_X, 4, d_g], of Xl, Ml, Xw, Mw
  Variable qkw;        // [4, d_g, 4, h]: two rows, two columns
  Variable dd;         // [d_X, 4, h]
  Variable lambda_q1;  // [d_k]
  Variable lambda_k1;  // [d_k]
  Variable lambda_q2;  // [d_k]
  Variable lambda_k2;  // [d_k]
  Variable P_lambda;   // [d_X, h_v]
  Variable conv_l;     // [c_ql, c_kl, h_k]
  Variable conv_w;     // [c_qw, c_kw, h]
  Variable q_norm;     // [d_k]
  Variable k_norm;     // [d_k]
  Variable norm_gain;  // [d_v]
  Variable gate;       // [d_v, d_u]: d_u is 1, or d_v
  Variable gate_bias;  // [d_u]
};

enum class AttentionOutputs { kOutputOnly, kWithWeights };

// Optional inputs of a layer's call besides X and M. The masks say to which memory positions a query may attend, beside
// the configuration's causality: true = attend; undefined = all. Where both are given, both must allow. A query that
// may attend to nothing gets W = 0, Y = b_o (0 without biases) and no gradient.
struct AttentionCallOptions {
  Tensor key_padding_mask = {};  // bool[b, m]
  Tensor attention_mask = {};    // bool[b, n, m]
  LogitsBias bias = {};          // added to L: relative position; a Variable [h, n, m] will do
  AttentionOutputs outputs = AttentionOutputs::kOutputOnly;
};

struct AttentionResult {
  Variable Y;  // [b, n, d_Y]
  // With kWithWeights, as views in the paper's order:
  Variable W;  // [b, n, m, h]: after the softmax
  Variable U;  // [b, n, m, h_v]: after P_w and dropout (W itself where nothing stands between h and h_v)
  AttentionImplementation implementation = AttentionImplementation::kComposed;  // that computed it
};

// Attention's projections of M: all that belongs to a memory position. Decoding caches one growing copy of it.
struct AttentionMemory {
  Variable K;     // [b, m, g_k, d_k]; without projections, and bilinear: M[b, m, d_M] itself
  Variable V;     // [b, m, g_v, d_v]; undefined where V = K
  Variable R_Ml;  // [b, m, h_k, h]; undefined without P_Ml
  Variable R_Mw;  // [b, m, h, h_v]; undefined without P_Mw
  Variable F_Ml;  // [b, m, 5, h]: two rows, two columns and the diagonal of R_Ml, of DynamicForm::kLowRank
  Variable F_Mw;  // the same of R_Mw
};

// The intermediate tensors of an attention layer, for inspection: a scope, inside which each
// application of a layer gives J, L, W and U beside its output.
//
//   std::vector<AttentionCapture> maps;
//
//   const std::function<void(const AttentionCapture&)> take = [&](const auto& one) { maps.push_back(one); };
//
//   const ContextScope captured(&OpContext::capture, &take);
//
//   model.Outputs(batch, OutputDetail::kResults, ForwardContext());

// One application of a layer. Tensors that the layer does not have are undefined.
//   J = scale · Q·K                                          the dot products, before the heads are mixed
//   L = J·P_l + J·R_Xl + J·R_Ml + bias, -infinity where masked   what the softmax reads (J + bias where nothing mixes)
//   W = softmax(L), 0 where masked
//   U = W·P_w + W·R_Xw + W·R_Mw, before dropout              the weights that the values get
struct AttentionCapture {
  // The layer that holds the parameters, by its dotted path: "encoder.block_0.self_attention".
  std::string module;
  // The place in the model that applied it (CurrentLayer()). Layers that share a module differ in it. A decoding
  // step has no more of it than the layer's own name.
  std::string layer;
  Tensor J;  // [b, h_k, n, m]; undefined in a layer without P_q and P_k, whose dot products are L
  Tensor L;  // [b, h, n, m]
  Tensor W;  // [b, h, n, m]
  Tensor U;  // [b, h_v, n, m]; undefined where nothing mixes the weights: it is W
  // For each dynamic projection that the layer has, a matrix for each query or memory position: "R_Xl"[b, n, h_k, h],
  // "R_Ml"[b, m, h_k, h], "R_Xw"[b, n, h, h_v], "R_Mw"[b, m, h, h_v].
  std::vector<NamedTensor> dynamic = {};
};

}  // namespace crosstalk
#pragma GCC visibility pop
