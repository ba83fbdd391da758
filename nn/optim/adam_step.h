// Common to AdamW and LAMB: which parameters decay, and the options of a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/kernels/optimizer_options.h"
#include "crosstalk/nn/module.h"

namespace crosstalk {

// Error(kUsage), which begins with the optimizer's name, for what is out of range.
void CheckAdamOptions(const char* optimizer, const kernels::AdamWOptions& options);

// Vectors (norms, biases, also those of heads) do not decay, nor parameters whose path contains a text of no_decay.
bool Decays(const NamedParameter& parameter, const std::vector<std::string>& no_decay);

// Of a parameter that decays or does not; `step` counts the steps before this one.
kernels::AdamWOptions StepOptions(kernels::AdamWOptions options, bool decays, double learning_rate,
                                  double gradient_scale, int64_t step);

}  // namespace crosstalk
