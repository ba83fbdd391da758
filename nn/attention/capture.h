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
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
  // Of each dynamic projection that the layer has, a matrix for each query or memory position: "R_Xl"[b, n, h_k, h],
  // "R_Ml"[b, m, h_k, h], "R_Xw"[b, n, h, h_v], "R_Mw"[b, m, h, h_v].
  std::vector<NamedTensor> dynamic = {};
};

}  // namespace crosstalk
