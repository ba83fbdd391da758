// Differentiable normalisations over the last dimension.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// y[…, d] = x · rsqrt(mean(x²) + eps) · scale[d]. No mean is subtracted and there is no bias (T5).
Variable RmsNorm(const Variable& x, const Variable& scale, double eps);
// y[…, d] = (x - mean) · rsqrt(variance + eps) · scale[d] + bias[d] (BERT).
Variable LayerNorm(const Variable& x, const Variable& scale, const Variable& bias, double eps);

}  // namespace crosstalk
