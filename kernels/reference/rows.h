// Reductions, softmax, norms and cross-entropy as plain loops: the specification of kernels/rows.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "crosstalk/kernels/rows.h"

namespace crosstalk::kernels::reference {

// Reductions over the middle dimension of x[outer, reduced, inner], one element after another.

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

// Softmax and log-sum-exp over the middle dimension of x[outer, reduced, inner].

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

// RMS norm and layer norm of rows, with gradients. RMS norm is layer norm whose mean is taken as 0.

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

// Cross-entropy with z-loss, one row at a time: the loss and its gradient by the definition of softmax.

template <typename T>
void CrossEntropy(int64_t rows, int64_t classes, const T* logits, const int32_t* targets,
                  const CrossEntropyOptions& options, T* nll, T* log_z, bool* correct) {
  for (int64_t r = 0; r < rows; ++r) {
    nll[r] = log_z[r] = 0;
    correct[r] = false;
    if (targets[r] == options.ignore_index) continue;
    LogSumExp(1, classes, 1, logits + r * classes, log_z + r);
    nll[r] = log_z[r] - logits[r * classes + targets[r]];
    correct[r] =
        std::max_element(logits + r * classes, logits + (r + 1) * classes) == logits + r * classes + targets[r];
  }
}

// weights[rows]
template <typename T>
void CrossEntropyGradient(int64_t rows, int64_t classes, const T* logits, const int32_t* targets, const T* log_z,
                          const CrossEntropyOptions& options, T scale, const T* weights, T* dlogits) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < classes; ++c) {
      const T p = std::exp(logits[r * classes + c] - log_z[r]);
      const T gradient = (1 + 2 * static_cast<T>(options.z_loss) * log_z[r]) * p - (c == targets[r] ? T(1) : T(0));
      dlogits[r * classes + c] = targets[r] == options.ignore_index ? T(0) : scale * weights[r] * gradient;
    }
  }
}

}  // namespace crosstalk::kernels::reference
