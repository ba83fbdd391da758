// Softmax and log-sum-exp over the middle dimension of x[outer, reduced, inner].
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "crosstalk/kernels/softmax.h"

namespace crosstalk::kernels::reference {

// Nothing above kHiddenLogit: zeros.
template <typename T>
void Softmax(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t at = o * reduced * inner + j;
      T max = -std::numeric_limits<T>::infinity();
      for (int64_t r = 0; r < reduced; ++r) {
        if (x[at + r * inner] > max) max = x[at + r * inner];
      }
      T sum = 0;
      for (int64_t r = 0; r < reduced; ++r) {
        const bool counts = x[at + r * inner] > T(kHiddenLogit);
        y[at + r * inner] = counts ? std::exp(x[at + r * inner] - max) : T(0);
        sum += y[at + r * inner];
      }
      for (int64_t r = 0; r < reduced && sum > 0; ++r) y[at + r * inner] /= sum;
    }
  }
}

template <typename T>
void SoftmaxGradient(int64_t outer, int64_t reduced, int64_t inner, const T* y, const T* dy, T* dx) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t at = o * reduced * inner + j;
      T dot = 0;
      for (int64_t r = 0; r < reduced; ++r) dot += y[at + r * inner] * dy[at + r * inner];
      for (int64_t r = 0; r < reduced; ++r) dx[at + r * inner] = y[at + r * inner] * (dy[at + r * inner] - dot);
    }
  }
}

template <typename T>
void LogSumExp(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t at = o * reduced * inner + j;
      T max = -std::numeric_limits<T>::infinity();
      for (int64_t r = 0; r < reduced; ++r) max = x[at + r * inner] > max ? x[at + r * inner] : max;
      T sum = 0;
      for (int64_t r = 0; r < reduced; ++r) sum += max > -HUGE_VAL ? std::exp(x[at + r * inner] - max) : T(0);
      y[o * inner + j] = sum > 0 ? max + std::log(sum) : max;
    }
  }
}

}  // namespace crosstalk::kernels::reference
