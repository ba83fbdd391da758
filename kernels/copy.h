// Strided copies: transposes, permutations, slices, concatenation and broadcasts made contiguous.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/shape.h"

namespace crosstalk::kernels {

// y[i…] = x[i…] over `shape`, any strides (in elements; 0 in x where it is stretched, never in y). Threaded;
// dimensions are merged where the strides allow it, and a transpose goes in square blocks through the cache.
// T is float, double, int32_t, int64_t, uint8_t (kBool) or uint16_t (kBFloat16).
template <typename T>
void CopyStrided(const Shape& shape, const T* x, const Strides& strides_x, T* y, const Strides& strides_y);

}  // namespace crosstalk::kernels
