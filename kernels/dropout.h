// Dropout whose mask is a pure function of (key, element index), so that nothing is stored for the backward pass.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/random.h"

namespace crosstalk::kernels {

// y[i] = Uniform(key, i) < rate ? 0 : x[i] / (1 - rate), with runtime/random.h's Uniform, bit for bit.
// The gradient is the same function of dy. 0 ≤ rate < 1. y may be x.
template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, const T* x, T* y);

}  // namespace crosstalk::kernels
