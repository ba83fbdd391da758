// Dropout by runtime/random.h's Uniform, one element at a time.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/random.h"

namespace crosstalk::kernels::reference {

template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, const T* x, T* y) {
  for (int64_t i = 0; i < count; ++i) {
    const bool dropped = static_cast<double>(Uniform(key, static_cast<uint64_t>(i))) < rate;
    y[i] = dropped ? T(0) : x[i] * static_cast<T>(1 / (1 - rate));
  }
}

}  // namespace crosstalk::kernels::reference
