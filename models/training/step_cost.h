// The cost of a configuration's training step: a step is executed on shapes alone, so the answer is that of the code
// that trains, takes milliseconds, and needs no memory whatever the size of the model.
#pragma once

#include <cstdint>
#include <memory>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct StepCost {
  int64_t parameters = 0;
  int64_t frozen_parameters = 0;  // of them: not trained
  // The forward passes over the step's whole batch, as the pseudocode and the matrix products have them (no
  // elementwise work), and of the step with its gradient: 3 times that, 4 times with recomputation; less where
  // parameters are frozen, which is not counted.
  int64_t forward_multiplications = 0;
  int64_t step_multiplications = 0;
  int64_t total_bytes = 0;  // the most that tensors take at once
  // Its parts: parameters, and the gradients of those that are trained, as many as a step of several parts keeps at
  // once.
  int64_t parameter_bytes = 0;
  int64_t optimizer_bytes = 0;   // the optimizer's state
  int64_t activation_bytes = 0;  // what the peak takes beyond these two
  int64_t in_turn_bytes = 0;     // total_bytes of the same step with its parts one after another
};

// A model's structure, without its parameters' values.
std::unique_ptr<Model> MakeModelOfShapes(const ResolvedConfig& config, const ModelConfig& model);

// For NumThreads() threads: each has buffers of its own, and its own part where parts are computed beside each other.
// total_bytes is the peak of a real step on one thread to the byte, and a bound of it on more. Counts into the
// process's MemoryStats, and resets their peak.
StepCost EstimateStep(const ResolvedConfig& config, const ModelConfig& model);
// The cost of a step of a new model, with a tokenizer of that vocabulary.
inline StepCost EstimateStep(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  return EstimateStep(config, ConfigureModel(*config, vocabulary));
}

// The bytes of the most loaded of so many ranks, which compute the step's parts together and hold the optimizer's state
// of the parameters that they update alone: in_turn_bytes less what it does not hold, plus the largest gradients that
// it receives. `cost` is EstimateStep's.
int64_t BytesOfRank(const ResolvedConfig& config, const ModelConfig& model, const StepCost& cost, int ranks);
// Error(kResource) if a step, on one of so many ranks, does not fit into this machine.
void CheckMemory(const ResolvedConfig& config, const ModelConfig& model, int ranks);

}  // namespace crosstalk
#pragma GCC visibility pop
