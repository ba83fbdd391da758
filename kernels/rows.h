// Kernels over rows, or over one dimension of an array: reductions, softmax, norms, cross-entropy. One source file
// each.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace crosstalk::kernels {

// Sums, maxima and scans over one dimension or all of an array. x[outer, reduced, inner] is contiguous; inner = 1 are
// reductions of rows, outer = 1 of columns. Sums are blocked (error grows as √, at worst as the number of blocks), in
// an order that the shape alone decides, never the number of threads or the width of a vector.

// y[outer, inner] = Σ_r x[outer, r, inner]; reduced = 0 gives 0.
template <typename T>
void Sum(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y);

// y[outer, inner] = max_r x, index = the first r where it stands (may be null). reduced ≥ 1. A NaN wins: the first.
template <typename T>
void Max(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y, int64_t* index);

// dx[outer, reduced, inner] = dy at `index`, 0 elsewhere.
template <typename T>
void MaxGradient(int64_t outer, int64_t reduced, int64_t inner, const int64_t* index, const T* dy, T* dx);

// Over a whole contiguous array, accumulated in double.
template <typename T>
double SumOfSquares(int64_t count, const T* x);

// The lowest index whose element is NaN or infinite, or -1.
template <typename T>
int64_t FirstNonFinite(int64_t count, const T* x);

// Softmax and log-sum-exp over the middle dimension of contiguous x[outer, reduced, inner]; inner = 1 are rows.
// -infinity takes no part, and in a softmax neither does any x up to kHiddenLogit. Where nothing takes part (a query
// that sees nothing) softmax gives zeros, its gradient gives zeros; log-sum-exp of -infinity alone gives -infinity.

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

// max x and Σ e^(x - max x) over x[0], x[stride] … x[(reduced - 1) · stride], all finite or -infinity.
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

// RMS norm and layer norm over the rows of contiguous x[rows, cols], with gradients. The forward pass saves
// statistics, one per row, which the gradient needs besides x.

// Whether a gradient is added to what dx holds.
enum class AddsToInput { kNo, kYes };

// rstd = 1 / √(mean x² + epsilon);  y = x · rstd · scale.  scale[cols] may be null (1). rstd[rows] is written.
template <typename T>
void RmsNorm(int64_t rows, int64_t cols, const T* x, const T* scale, double epsilon, T* y, T* rstd);

// dx = rstd · (g - x̂ · mean(g · x̂)), g = dy · scale, x̂ = x · rstd;  dscale[cols] = Σ_rows dy · x̂.
// Either result may be null. workspace: NormWorkspace(rows, cols) elements (may be null if dscale is). dx may be dy
// where it is not added to.
template <typename T>
void RmsNormGradient(int64_t rows, int64_t cols, const T* x, const T* scale, const T* rstd, const T* dy, T* dx,
                     T* dscale, T* workspace, AddsToInput adds = AddsToInput::kNo);

// mean, rstd = 1 / √(mean (x - mean)² + epsilon);  y = (x - mean) · rstd · scale + bias. scale, bias [cols] may be
// null (1, 0). mean[rows], rstd[rows] are written.
template <typename T>
void LayerNorm(int64_t rows, int64_t cols, const T* x, const T* scale, const T* bias, double epsilon, T* y, T* mean,
               T* rstd);

// dx = rstd · (g - mean(g) - x̂ · mean(g · x̂));  dscale = Σ_rows dy · x̂;  dbias = Σ_rows dy. Any result may be null.
template <typename T>
void LayerNormGradient(int64_t rows, int64_t cols, const T* x, const T* scale, const T* mean, const T* rstd,
                       const T* dy, T* dx, T* dscale, T* dbias, T* workspace, AddsToInput adds = AddsToInput::kNo);

// Elements of T that the gradients need for the partial sums of row tiles.
int64_t NormWorkspace(int64_t rows, int64_t cols);

// Cross-entropy of rows of logits against class numbers, with z-loss (Mesh TensorFlow's):
//   log Z = log Σ_c e^logits[c],   nll = log Z - logits[target],   loss = nll + z_loss · (log Z)².
// Rows whose target is ignore_index have loss 0 and gradient 0.

struct CrossEntropyOptions {
  int32_t ignore_index = -1;  // any other target is in [0, classes): the caller has checked
  double z_loss = 0;          // 1e-4 in T5's training, 0 in evaluation
};

// logits[rows, classes], targets[rows] → nll[rows], log_z[rows] (both 0 in ignored rows) and correct[rows]: whether the
// target is the class of the largest logit, of equal ones the first (false in ignored rows, and where a logit is NaN).
template <typename T>
void CrossEntropy(int64_t rows, int64_t classes, const T* logits, const int32_t* targets,
                  const CrossEntropyOptions& options, T* nll, T* log_z, bool* correct);

// dlogits[c] = weight · ((1 + 2 · z_loss · log Z) · e^(logits[c] - log Z) - [c = target]), weight = scale ·
// weights[row] (weights may be null: 1). dlogits may be logits: no second array of that size is needed.
template <typename T>
void CrossEntropyGradient(int64_t rows, int64_t classes, const T* logits, const int32_t* targets, const T* log_z,
                          const CrossEntropyOptions& options, T scale, const T* weights, T* dlogits);

}  // namespace crosstalk::kernels
