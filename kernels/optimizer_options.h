// An optimizer step's parameters: the user's choices, and the values that the optimizer sets at each step (nn/optim).
#pragma once

#include <cstdint>

#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {
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
  // Of each step:
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
  // Of each step:
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
