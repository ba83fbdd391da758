// What a training step of a configuration costs, before anything of it is allocated.
#pragma once

#include <cstdint>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

struct StepCost {
  int64_t parameters = 0;
  // Of a step's forward passes over its whole batch, as the pseudocode and the matrix products have them (no
  // elementwise work), and of the step with its gradient: 3 times that, 4 times with recomputation.
  int64_t forward_multiplications = 0;
  int64_t step_multiplications = 0;
  int64_t parameter_bytes = 0;   // parameters and their gradients
  int64_t optimizer_bytes = 0;   // the optimizer's state
  int64_t activation_bytes = 0;  // what the peak takes beyond these two
  int64_t total_bytes() const { return parameter_bytes + optimizer_bytes + activation_bytes; }
};

StepCost EstimateStep(const ResolvedConfig& config, const Vocabulary& vocabulary);

}  // namespace crosstalk
