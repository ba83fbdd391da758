// Reductions over the middle dimension of x[outer, reduced, inner], one element after another.
#pragma once

#include <cstdint>

namespace crosstalk::kernels::reference {

template <typename T>
void Sum(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      T sum = 0;
      for (int64_t r = 0; r < reduced; ++r) sum += x[(o * reduced + r) * inner + j];
      y[o * inner + j] = sum;
    }
  }
}

template <typename T>
void Max(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y, int64_t* index) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      int64_t best = 0;
      for (int64_t r = 1; r < reduced; ++r) {
        if (x[(o * reduced + r) * inner + j] > x[(o * reduced + best) * inner + j]) best = r;
      }
      y[o * inner + j] = x[(o * reduced + best) * inner + j];
      index[o * inner + j] = best;
    }
  }
}

}  // namespace crosstalk::kernels::reference
