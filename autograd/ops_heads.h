// Differentiable operations on heads: what positions and neighbouring tokens do to them.
#pragma once

#include <cstdint>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/kernels/rotary.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// x[b, n, heads, d] at the positions first … first + n - 1, each pair of its elements turned by its position's angle
// p · base^(-2i / d). d must be even.
Variable RotateByPosition(const Variable& x, kernels::RotaryPairs pairs, double base, int64_t first);

// C[b, h, n, m] = Σ_{a<c_q, k<c_k} filter[a, k, h] · S[b, h, n - (c_q - 1) + a, m - left + k], 0 outside. Causal: S is
// read as 0, and C is 0, where a query i does not see the key j ≤ i + m - n.
enum class CausalConvolution { kNo, kYes };
Variable ConvolveHeads(const Variable& S, const Variable& filter, int64_t left,
                       CausalConvolution causal = CausalConvolution::kNo);

}  // namespace crosstalk
