// Matrix products as three plain loops.
#pragma once

#include "crosstalk/kernels/gemm/gemm.h"

namespace crosstalk::kernels::reference {

template <typename T>
void Gemm(const GemmArguments<T>& g) {
  const T *a = g.a.data(), *b = g.b.data();
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < g.k; ++p) {
        const T x = g.transpose_a == Transpose::kYes ? a[p * g.a.stride + i] : a[i * g.a.stride + p];
        const T y = g.transpose_b == Transpose::kYes ? b[j * g.b.stride + p] : b[p * g.b.stride + j];
        sum += x * y;
      }
      T& c = g.c[i * g.ldc + j];
      c = g.alpha * sum + (g.beta == T(0) ? T(0) : g.beta * c) + (g.bias == nullptr ? T(0) : g.bias[j]);
    }
  }
}

}  // namespace crosstalk::kernels::reference
