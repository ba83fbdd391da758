// What all optimizers share: parameters, steps and named state; the schedule of learning rates; clipping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/function_ref.h"
#include "crosstalk/runtime/safetensors.h"

#pragma GCC visibility push(default)
namespace crosstalk {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update of every trainable parameter, in place, from gradient_scale · grad(). A parameter that holds no
  // gradient is left as it is, with its state. Gradients are not cleared. Throws, before anything is changed,
  // Error(kNumerical) if the learning rate or the scale is not finite (a gradient norm that overflowed, say), a usage
  // error if one is negative.
  void Step(double learning_rate, double gradient_scale = 1.0);
  int64_t step() const { return step_; }  // how often Step has been called, over all resumptions

  // The state, sharing memory with the optimizer: "step" (int64, one element), "carried_steps" (the same) if there
  // are some, then one tensor per slot named PARAMETER.SLOT ("encoder.final_norm.scale.v").
  std::vector<NamedTensor> State() const;
  // Takes over a state that the same optimizer of the same model gave; order does not matter. Error(kData), naming the
  // tensor, if one is missing, unknown, or of another shape or dtype; nothing is changed then.
  void LoadState(const std::vector<NamedTensor>& state);
  // Before the first step: takes over what another run's optimizer of the same kind knows of these parameters, and goes
  // on from the steps that it has seen; step() stays 0. Its other parameters are left out. Errors as of LoadState.
  void CarryOver(std::vector<NamedTensor> state);
  int64_t StateBytes() const;

 protected:
  // Those that are not trainable are left out: they have no state.
  explicit Optimizer(std::vector<NamedParameter> parameters);

  // Steps that the slots have seen: step(), and those of a state that was carried over.
  int64_t steps_seen() const { return carried_steps_ + step_; }
  // The trainable ones.
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  // To be called from the constructor of the derived class: zeros for parameter `i` under a name.
  void AddSlot(size_t i, const std::string& name, const Shape& shape);
  // Slot number `slot` of parameter `i`, in the order of AddSlot.
  const Tensor& Slot(size_t i, size_t slot) const { return slots_[i][slot].tensor; }

 private:
  // Updates parameter `i`, whose gradient is defined and contiguous. steps_seen() counts the steps before this one.
  // Called for several parameters at a time, on any thread.
  virtual void Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) = 0;

  std::vector<NamedParameter> parameters_;
  std::vector<std::vector<NamedTensor>> slots_;  // by parameter; names in full
  int64_t step_ = 0;
  int64_t carried_steps_ = 0;
};

// Learning rates as a function of the step alone.

enum class ScheduleKind {
  kInverseSquareRoot,  // scale / sqrt(max(step, warmup_steps)), and the decay of the last part of the run (T5)
  kConstant,           // scale
  // These rise to `scale` in warmup_steps and fall until step T, each step s at
  kLinear,      // scale · (s + 1) / warmup_steps, then scale · (T - s) / (T - warmup_steps): from `scale` itself to 0
  kLinearBert,  // scale · s / warmup_steps, then scale · (T - s) / T, which counts from step 0: the published BERT's,
                // whose rate drops from `scale` to (1 - warmup_steps / T) of it when the warm-up ends
  kCosine,      // scale · (s + 1) / warmup_steps, then final + (scale - final) · (1 + cos(π·p)) / 2 with
                // p = (s - warmup_steps) / (T - warmup_steps): half a wave from `scale` to `final_rate`
  kPolynomial,  // scale · (s + 1) / warmup_steps, then final + (scale - final) · ((T - s) / (T - warmup_steps))^power:
                // kLinear where power is 1 and final 0. ALBERT's own counts from step 0, as kLinearBert does.
};

template <>
struct EnumNames<ScheduleKind> {
  static constexpr EnumName<ScheduleKind> kTable[] = {{ScheduleKind::kInverseSquareRoot, "inverse-square-root"},
                                                      {ScheduleKind::kConstant, "constant"},
                                                      {ScheduleKind::kLinear, "linear"},
                                                      {ScheduleKind::kLinearBert, "linear-bert"},
                                                      {ScheduleKind::kCosine, "cosine"},
                                                      {ScheduleKind::kPolynomial, "polynomial"}};
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kInverseSquareRoot;
  double scale = 1.0;            // T5: 1 with Adafactor's relative steps
  int64_t warmup_steps = 10000;  // T5: 10,000 of 524,288 steps; a short run needs fewer
  int64_t total_steps = 0;       // T; needed by those that fall, and by the last decay
  // kInverseSquareRoot: times min(1, (T - step) / (decay_fraction · T)). 0: none.
  double decay_fraction = 0.1;
  double final_rate = 0;  // kCosine, kPolynomial: what it falls to
  double power = 1;       // kPolynomial
  // The lengths of a run that was continued at its end, ascending: steps below each are those of a run of so many
  // steps, steps from the last one on those of a run of total_steps.
  std::vector<int64_t> earlier_totals = {};

  // Throws a usage error of the field, as a training configuration calls it: learning_rate, warmup, steps, decay,
  // final_learning_rate, decay_power.
  void Validate() const;
};

// The rate for step = 0, 1, …, T - 1. Steps from T on get what T - 1 got.
double LearningRate(const ScheduleConfig& config, int64_t step);

// The norm of all gradients together, and clipping by it.

// sqrt Σ g² over the gradients of all trainable parameters, summed in double in a fixed order. Not finite if a
// gradient is not.
double GradientNorm(const std::vector<NamedParameter>& parameters);
// Its terms: Σ g² of each parameter, 0 if there is no gradient; and the norm of them.
std::vector<double> GradientSquares(const std::vector<NamedParameter>& parameters);
double NormOf(const std::vector<double>& squares);

// The factor that limits the norm of gradients to max_norm: min(1, max_norm / norm).
// max_norm 0 means no clipping. Give it to Optimizer::Step as gradient_scale: NaN, which Step refuses,
// if the norm is not finite or if, clipped, its square is not (in float).
double ClipScale(double norm, double max_norm);

// "encoder.final_norm.scale[17] = nan" of the first gradient that is not finite; empty if all are.
std::string DescribeNonFiniteGradient(const std::vector<NamedParameter>& parameters);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// A loop over parameters, threaded however many and however small they are.

// f(i) for each i with elements[i] > 0: for a large parameter by itself, so that f's own loops are threaded; for the
// others several at a time, each on one thread. f(i) must not depend on the others' results.
void ForEachParameter(const std::vector<int64_t>& elements, FunctionRef<void(size_t i)> f);

}  // namespace crosstalk
