// AdamW and LAMB.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/nn/optim/optimizer.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// AdamW (Loshchilov and Hutter 2019), with or without bias correction (BERT's form has none).

// Vectors (norms, biases, also those of heads) do not decay, nor parameters whose path contains a text of `no_decay`.
// The optimizer sets what its options have of each step. Slots: "m" and "v", of the parameter's shape.
class AdamW : public Optimizer {
 public:
  explicit AdamW(std::vector<NamedParameter> parameters, const kernels::AdamWOptions& options = {},
                 std::vector<std::string> no_decay = {});

  bool Decays(size_t i) const;  // parameter i of the trainable ones in the constructor's list

 private:
  void Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) override;

  kernels::AdamWOptions options_;
  std::vector<std::string> no_decay_;
};

// LAMB (You et al. 2020, "Large Batch Optimization for Deep Learning", algorithm 2): Adam's update, scaled for each
// parameter to the parameter's own norm. With m and v as in AdamW:
//   u = m̂ / (√v̂ + ε) + weight_decay · p;  p ← p - learning_rate · (|p| / |u|) · u,
// where the ratio is 1 if |p| or |u| is 0. Parameters that do not decay (norms, biases) have the ratio 1 too, and so
// AdamW's update.
//
// Published forms differ:
// - The paper's m̂ and v̂ are corrected for their bias. ALBERT's code, with which it was pretrained, has m and v
//   themselves: the default here. AdamWOptions::BiasCorrection::kYes is the paper's.
// - The paper leaves a function φ(|p|) open. In ALBERT's code, as here, it is |p|; some implementations clip it, to 10
//   for example.
// - Some divide all gradients by their global norm first. That is the trainer's clipping (`clip`): 1 in ALBERT.
// - The paper takes a layer for the unit of the ratio; all implementations, and this one, a parameter tensor. ALBERT's
//   names decide what is left out ("LayerNorm", "layer_norm", "bias"); here, as in AdamW, that it is no matrix.

// Slots: "m" and "v", of the parameter's shape.
class Lamb : public Optimizer {
 public:
  explicit Lamb(std::vector<NamedParameter> parameters,
                const kernels::AdamWOptions& options = {.bias_correction = kernels::AdamWOptions::BiasCorrection::kNo},
                std::vector<std::string> no_decay = {});

  // Whether parameter i of the trainable ones in the constructor's list decays and has a ratio.
  bool Adapts(size_t i) const;

 private:
  void Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) override;

  kernels::AdamWOptions options_;
  std::vector<std::string> no_decay_;
};

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// Common to AdamW and LAMB: which parameters decay, and the options of a step.

// Error(kUsage), which begins with the optimizer's name, for what is out of range.
void CheckAdamOptions(const char* optimizer, const kernels::AdamWOptions& options);

// Vectors (norms, biases, also those of heads) do not decay, nor parameters whose path contains a text of no_decay.
bool Decays(const NamedParameter& parameter, const std::vector<std::string>& no_decay);

// The options of the step of one parameter, which decays or not; `step` counts the steps before this one.
kernels::AdamWOptions StepOptions(kernels::AdamWOptions options, bool decays, double learning_rate,
                                  double gradient_scale, int64_t step);

}  // namespace crosstalk
