// One matrix product by itself, for kernels/gemm/gemm.cc: float by our own blocked kernel, double by OpenBLAS.
#pragma once

#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/gemm/openblas.h"

namespace crosstalk::kernels {

// Threaded, unless called from a loop that is. The arguments are checked; m, n ≥ 1.
void ComputeProduct(const GemmArguments<float>& g);
void ComputeProduct(const GemmArguments<double>& g);

// OpenBLAS's word for it.
inline int Cblas(Transpose transpose) { return transpose == Transpose::kYes ? kCblasTranspose : kCblasNoTranspose; }

// C ← beta · C, where 0 overwrites: a product of nothing.
template <typename T>
void ScaleResult(const GemmArguments<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    T* row = g.c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) row[j] = g.beta == T(0) ? T(0) : g.beta * row[j];
  }
}

}  // namespace crosstalk::kernels
