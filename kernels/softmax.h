// Softmax and log-sum-exp over the middle dimension of contiguous x[outer, reduced, inner]; inner = 1 are rows.
// -infinity takes no part, and in a softmax neither does any x up to kHiddenLogit. Where nothing takes part (a query
// that sees nothing) softmax gives zeros, its gradient gives zeros; log-sum-exp of -infinity alone gives -infinity.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace crosstalk::kernels {

// A query does not see a position whose logit is this or less: an additive mask may be -infinity, the smallest float or
// whatever lies far below every real logit. The softmax and the fused attention share this definition. Beside a logit
// above it the weight is 0 anyway: two numbers of this size, in double too, are equal or differ by 1e22 and more.
inline constexpr float kHiddenLogit = -1e38f;

// y = e^(x - max x) / Σ e^(x - max x). y may be x.
template <typename T>
void Softmax(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y);

// dx = y · (dy - Σ_r dy · y). dx may be dy.
template <typename T>
void SoftmaxGradient(int64_t outer, int64_t reduced, int64_t inner, const T* y, const T* dy, T* dx);

// y[outer, inner] = max x + log Σ e^(x - max x). Its gradient is softmax(x) · dy: see LogSumExpGradient.
template <typename T>
void LogSumExp(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y);

// A log-sum-exp whose last digit is worth more than a thousandth of e^(x - y): of 8192 and more in float. What is
// computed from it takes the maximum and the sum apart.
template <typename T>
bool IsCoarseLogSumExp(T y) {
  return std::isfinite(y) && std::abs(y) >= T(0x1p-10) / std::numeric_limits<T>::epsilon();
}

// The same of one row, and its maximum: NaN if the row holds one.
template <typename T>
struct MaxAndLogSumExp {
  T max, log_sum_exp;
};
template <typename T>
MaxAndLogSumExp<T> RowLogSumExp(int64_t n, const T* x);

// Of x[0], x[stride] … x[(reduced - 1) · stride], all finite or -infinity: max x, and Σ e^(x - max x).
template <typename T>
struct MaxAndExpSum {
  T max;
  double sum;
};
template <typename T>
MaxAndExpSum<T> FindMaxAndExpSum(int64_t reduced, int64_t stride, const T* x);

// dx = dy[outer, inner] · e^(x - y[outer, inner]), which is softmax(x) · dy also where y is coarse; zeros where
// y = -infinity. dx may be x where inner = 1.
template <typename T>
void LogSumExpGradient(int64_t outer, int64_t reduced, int64_t inner, const T* x, const T* y, const T* dy, T* dx);

}  // namespace crosstalk::kernels
