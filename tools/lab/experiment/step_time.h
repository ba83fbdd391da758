// The cost of a configuration's steps, without its text or tokenizer, and this machine's speed.
#pragma once

#include <cstdint>
#include <optional>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/step_cost.h"
#include "tools/lab/experiment/cells.h"

namespace crosstalk {

// A step's memory in the configuration, for the vocabulary that it asks for.
StepCost CostOfStep(const TrainingConfig& config);

// Multiplications a second of such a step here: of forward and backward in a few steps on bytes of the built-in corpus,
// in the shapes that the configuration has, with its whole vocabulary, but on so few examples, and of a large model in
// one layer, that all takes seconds. None where even that does not fit into this machine. Interrupted where a signal
// came.
std::optional<double> MeasureRate(const TrainingConfig& config, const StopSignals& signals);

// The cost of a finetuning: its steps, and its answers to the held-out rows, each of which counts as a forward pass.
// None where the task has no files.
struct FinetuningCost {
  int64_t steps = 0;
  StepCost step;
  double multiplications = 0;  // of the whole run
};
std::optional<FinetuningCost> CostOfFinetuning(const Cell& cell, const CellFinetuning& finetuning);

// Bytes on disk of a finished run.
int64_t DiskOfRun(const TrainingConfig& config, const StepCost& cost);

// Held-out measures of a run.
int64_t EvaluationsOf(const TrainingConfig& config);
// Their cost, as a share of its steps: a held-out batch is the forward third of one.
double EvaluationShare(const TrainingConfig& config);

}  // namespace crosstalk
