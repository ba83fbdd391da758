// Softmax and log-sum-exp over the middle dimension of contiguous x[outer, reduced, inner]; inner = 1 are rows.
// -infinity takes no part; where nothing takes part (a wholly masked query) softmax gives zeros, its gradient gives
// zeros, and log-sum-exp gives -infinity.
#pragma once

#include <cstdint>

namespace crosstalk::kernels {

// y = e^(x - max x) / Σ e^(x - max x). y may be x.
template <typename T>
void Softmax(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y);

// dx = y · (dy - Σ_r dy · y). dx may be dy.
template <typename T>
void SoftmaxGradient(int64_t outer, int64_t reduced, int64_t inner, const T* y, const T* dy, T* dx);

// y[outer, inner] = max x + log Σ e^(x - max x). Its gradient is softmax(x) · dy: see LogSumExpGradient.
template <typename T>
void LogSumExp(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y);

// dx = dy[outer, inner] · e^(x - y[outer, inner]); zeros where y = -infinity.
template <typename T>
void LogSumExpGradient(int64_t outer, int64_t reduced, int64_t inner, const T* x, const T* y, const T* dy, T* dx);

}  // namespace crosstalk::kernels
