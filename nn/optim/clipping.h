// The norm of all gradients together, and clipping by it.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// sqrt Σ g² over the gradients of all trainable parameters, summed in double in a fixed order. Not finite if a
// gradient is not.
double GradientNorm(const std::vector<NamedParameter>& parameters);
// Its terms: Σ g² of each parameter, 0 where there is no gradient; and the norm of them.
std::vector<double> GradientSquares(const std::vector<NamedParameter>& parameters);
double NormOf(const std::vector<double>& squares);

// The factor that limits the norm of gradients to max_norm: min(1, max_norm / norm).
// max_norm 0 means no clipping. Give it to Optimizer::Step as gradient_scale: NaN, which Step refuses,
// if the norm is not finite or if, clipped, its square is not (in float).
double ClipScale(double norm, double max_norm);

// "encoder.final_norm.scale[17] = nan" of the first gradient that is not finite; empty if all are.
std::string DescribeNonFiniteGradient(const std::vector<NamedParameter>& parameters);

}  // namespace crosstalk
