// The composed implementation: the paper's pseudocode in einsum, in float and double. The fast kernels are tested
// against it, and a new idea starts here; nn/attention/attention.h is the layer that most callers want.
#pragma once

#include "crosstalk/autograd/ops_attention.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/capture.h"

namespace crosstalk {

struct ComposedResult {
  Variable O;  // [b, n, h_v, d_v]
  Variable W;  // [b, h, n, m]
  Variable U;  // [b, h_v, n, m], after dropout
};
// The same function as FusedAttention (autograd/ops_attention.h). The tensors of a capture are filled in where one is
// given.
ComposedResult AttendComposed(const AttentionCall& call, AttentionCapture* capture = nullptr);

}  // namespace crosstalk
