// RMS norm and layer norm over the rows of contiguous x[rows, cols], with gradients. The forward pass saves
// statistics, one per row, which the gradient needs besides x.
#pragma once

#include <cstdint>

namespace crosstalk::kernels {

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

}  // namespace crosstalk::kernels
