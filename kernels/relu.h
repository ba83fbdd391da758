// The rectifier and its gradient, which needs to know of each element no more than its sign: one bit.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/math.h"

namespace crosstalk::kernels {

// Bytes of the signs of `count` elements.
inline int64_t SignBytes(int64_t count) { return CeilDivide<int64_t>(count, 8); }

// y[i] = max(x[i], 0), NaN where x[i] is; bit i % 8 of positive[i / 8] says whether x[i] > 0. Threaded. T is float or
// double.
template <typename T>
void Relu(int64_t count, const T* x, T* y, uint8_t* positive);

// dx[i] = dy[i] where bit i is set, else 0.
template <typename T>
void ReluGradient(int64_t count, const uint8_t* positive, const T* dy, T* dx);

}  // namespace crosstalk::kernels
