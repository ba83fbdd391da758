// Activation recomputation: memory for time.
#pragma once

#include <functional>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Computes function(inputs) without recording its inside, and computes it again when its gradient is asked for. Leaves
// that `function` captures (parameters) receive their gradients too. `function` must be a pure function of its inputs
// and of captured leaves (dropout is, its numbers come from a key).
Variable Recompute(const std::function<Variable(const std::vector<Variable>&)>& function,
                   const std::vector<Variable>& inputs);

}  // namespace crosstalk
