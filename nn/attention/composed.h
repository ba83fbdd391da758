// The composed implementation: the paper's pseudocode in einsum, in float and double. It is what the fast kernels are
// tested against and where a new idea starts; nn/attention/attention.h is the layer that most callers want.
#pragma once

#include <optional>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/capture.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

// X[b, n, d_X] and a projected memory → Y[b, n, d_Y]. With a dropout key, U's element i in the storage order
// [b, h_v, n, m] is dropped by the key's number i; without one nothing is dropped, whatever the configuration's rate.
// The tensors of a capture are filled in where one is given.
AttentionResult AttendComposed(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& X,
                               const AttentionMemory& memory, const AttentionExtras& extras,
                               const std::optional<RandomKey>& dropout_key, AttentionCapture* capture = nullptr);

}  // namespace crosstalk
