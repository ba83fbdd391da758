// How long steps of a configuration take on this machine, and what they cost: measured without its text or tokenizer.
#pragma once

#include <cstdint>
#include <optional>

#include "crosstalk/models/step_cost.h"
#include "crosstalk/models/training/config.h"
#include "tools/reproduce/cells.h"

namespace crosstalk {

struct StepTime {
  double seconds = 0;    // of a whole step
  int64_t examples = 0;  // that were measured at a time, of the batch
  int64_t layers = 0;    // that were measured
};

// What a step of the configuration takes of memory, for the vocabulary that it asks for.
StepCost CostOfStep(const TrainingConfig& config);

// A few steps on bytes of the built-in corpus, in the shapes that the configuration has, with its whole vocabulary. A
// step that takes long is measured on fewer examples, and one of which a single example takes long in one layer; then
// the time is scaled up by the multiplications. None where it does not fit into this machine.
// Interrupted where a signal came.
std::optional<StepTime> MeasureStep(const TrainingConfig& config, const StepCost& cost, const StopSignals& signals);

// The same of a finetuning: its steps, and its answers to the held-out rows, which are measured on a few of them by a
// model that has learnt nothing yet, so that a T5 writes the longest answers.
struct FinetuningTime {
  double seconds = 0;  // of the whole run
  int64_t steps = 0;
  StepCost cost;
};
std::optional<FinetuningTime> MeasureFinetuning(const Cell& cell, const ScaleFinetuning& finetuning,
                                                const StopSignals& signals);

// Bytes on disk of a finished run.
int64_t DiskOfRun(const TrainingConfig& config, const StepCost& cost);

// Held-out measures of a run.
int64_t EvaluationsOf(const TrainingConfig& config);

}  // namespace crosstalk
