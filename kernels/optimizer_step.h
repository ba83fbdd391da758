// One optimizer step for one parameter, in place, in a few fused passes. State has the parameter's type.
#pragma once

#include <cstdint>

#include "crosstalk/runtime/enum_names.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// An optimizer step's parameters: the user's choices, and the values that the optimizer sets at each step (nn/optim).
namespace kernels {

// Adafactor without momentum, as Mesh TensorFlow has it (reference: mesh_tensorflow/optimize.py):
//   g² = (gradient_scale · g)² + epsilon1;  v ← decay · v + (1 - decay) · g²;  u = g / √v;
//   u ← u / max(1, RMS(u) / clip_threshold);  p ← p - learning_rate · max(RMS(p), epsilon2) · u.
struct AdafactorOptions {
  double epsilon1 = 1e-30;
  double epsilon2 = 1e-3;                             // floor of the parameter's RMS
  double clip_threshold = 1;                          // the update's RMS is at most this; 0: no clipping
  enum class StepScale { kParameterRms, kAbsolute };  // kAbsolute: learning_rate · u
  StepScale step_scale = StepScale::kParameterRms;
  // Set at each step:
  double learning_rate = 0;
  double decay = 0;           // 1 - (t + 1)^-0.8
  double gradient_scale = 1;  // global-norm clipping, accumulation
};

// AdamW (Loshchilov and Hutter 2019; BERT's form has no bias correction):
//   m ← beta1 · m + (1 - beta1) · g;  v ← beta2 · v + (1 - beta2) · g²;
//   p ← p - learning_rate · (m̂ / (√v̂ + epsilon) + weight_decay · p).
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  enum class BiasCorrection { kNo, kYes };
  BiasCorrection bias_correction = BiasCorrection::kYes;
  // Set at each step:
  double learning_rate = 0;
  double gradient_scale = 1;
  int64_t step = 1;  // 1 at the first step; used by the correction alone
};

}  // namespace kernels

template <>
struct EnumNames<kernels::AdamWOptions::BiasCorrection> {
  static constexpr EnumName<kernels::AdamWOptions::BiasCorrection> kTable[] = {
      {kernels::AdamWOptions::BiasCorrection::kNo, "no"}, {kernels::AdamWOptions::BiasCorrection::kYes, "yes"}};
};

}  // namespace crosstalk
#pragma GCC visibility pop

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
