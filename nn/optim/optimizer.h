// Optimizer: what all optimizers share: which parameters, how many steps, and named state that checkpoints keep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update of every trainable parameter, in place, from gradient_scale · grad(). A parameter that holds no
  // gradient is left as it is, with its state. Gradients are not cleared. Throws Error(kNumerical), before anything is
  // changed, if the learning rate or the scale is not finite (a gradient norm that overflowed, say).
  void Step(double learning_rate, double gradient_scale = 1.0);
  int64_t step() const { return step_; }  // how often Step has been called, over all resumptions

  // The state, sharing memory with the optimizer: "step" (int64, one element), "carried_steps" (the same) where there
  // are some, then one tensor per slot named PARAMETER.SLOT ("encoder.final_norm.scale.v").
  std::vector<NamedTensor> State() const;
  // Takes over a state that the same optimizer of the same model gave; order does not matter. Error(kData), naming the
  // tensor, where one is missing, unknown, or of another shape or dtype; nothing is changed then.
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

}  // namespace crosstalk
