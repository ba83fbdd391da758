// RMS norm and layer norm of rows, with gradients. RMS norm is layer norm whose mean is taken as 0.
#pragma once

#include <cmath>
#include <cstdint>

namespace crosstalk::kernels::reference {

enum class Mean { kZero, kComputed };

// scale, bias [cols] may be null. mean[rows] and rstd[rows] are written.
template <typename T>
void Norm(Mean kind, int64_t rows, int64_t cols, const T* x, const T* scale, const T* bias, T epsilon, T* y, T* mean,
          T* rstd) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * cols;
    mean[r] = 0;
    for (int64_t j = 0; j < cols && kind == Mean::kComputed; ++j) mean[r] += row[j] / static_cast<T>(cols);
    T variance = 0;
    for (int64_t j = 0; j < cols; ++j) variance += (row[j] - mean[r]) * (row[j] - mean[r]) / static_cast<T>(cols);
    rstd[r] = 1 / std::sqrt(variance + epsilon);
    for (int64_t j = 0; j < cols; ++j) {
      const T normal = (row[j] - mean[r]) * rstd[r];
      y[r * cols + j] = normal * (scale == nullptr ? T(1) : scale[j]) + (bias == nullptr ? T(0) : bias[j]);
    }
  }
}

template <typename T>
void NormGradient(Mean kind, int64_t rows, int64_t cols, const T* x, const T* scale, const T* mean, const T* rstd,
                  const T* dy, T* dx, T* dscale, T* dbias) {
  for (int64_t j = 0; j < cols; ++j) dscale[j] = dbias[j] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto normal = [&](int64_t j) { return (x[r * cols + j] - mean[r]) * rstd[r]; };
    const auto g = [&](int64_t j) { return dy[r * cols + j] * (scale == nullptr ? T(1) : scale[j]); };
    T mean_g = 0, mean_g_normal = 0;
    for (int64_t j = 0; j < cols; ++j) {
      if (kind == Mean::kComputed) mean_g += g(j) / static_cast<T>(cols);
      mean_g_normal += g(j) * normal(j) / static_cast<T>(cols);
      dscale[j] += dy[r * cols + j] * normal(j);
      dbias[j] += dy[r * cols + j];
    }
    for (int64_t j = 0; j < cols; ++j) dx[r * cols + j] = rstd[r] * (g(j) - mean_g - normal(j) * mean_g_normal);
  }
}

}  // namespace crosstalk::kernels::reference
