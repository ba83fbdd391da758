// One optimizer step for one parameter, in place, in a few fused passes. State has the parameter's type.
#pragma once

#include <cstdint>

#include "crosstalk/kernels/optimizer_options.h"

namespace crosstalk::kernels {

// Unfactored: v[count] is the running mean of g².
template <typename T>
void AdafactorStep(int64_t count, const AdafactorOptions& options, const T* gradient, T* v, T* parameter);

// Factored over parameter[rows, cols]: v_row[rows], v_col[cols] are running means of g² over the other dimension, and
// v[i, j] = v_row[i] · v_col[j] / mean(v_row). workspace: AdafactorWorkspace(rows, cols) elements.
template <typename T>
void AdafactorFactoredStep(int64_t rows, int64_t cols, const AdafactorOptions& options, const T* gradient, T* v_row,
                           T* v_col, T* parameter, T* workspace);
int64_t AdafactorWorkspace(int64_t rows, int64_t cols);

template <typename T>
void AdamWStep(int64_t count, const AdamWOptions& options, const T* gradient, T* m, T* v, T* parameter);

// LAMB (You et al. 2020, algorithm 2, φ(z) = z): m and v as above, for the parameter as one layer
//   u = m̂ / (√v̂ + epsilon) + weight_decay · p;  p ← p - learning_rate · (|p| / |u|) · u,
// where the ratio is 1 if either norm is 0. Two passes: m, v and both norms; then p, for which u is computed again.
template <typename T>
void LambStep(int64_t count, const AdamWOptions& options, const T* gradient, T* m, T* v, T* parameter);

}  // namespace crosstalk::kernels
