// The fused implementation: the same function as nn/attention/composed.h, with everything between the projections in
// one kernel that keeps nothing of size n·m, but where that is no larger than Q. float, and without the weights W.
#pragma once

#include <optional>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

// X[b, n, d_X] and a projected memory → Y[b, n, d_Y]. The dropout key draws the numbers that AttendComposed draws.
// Usage errors for double and for AttentionOutputs::kWithWeights, which it does not give.
AttentionResult AttendFused(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& X,
                            const AttentionMemory& memory, const AttentionExtras& extras,
                            const std::optional<RandomKey>& dropout_key);

}  // namespace crosstalk
