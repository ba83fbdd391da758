// The cost of a call, before it begins: runs, time, disk and memory, by multiplications and one rate that is
// measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/step_cost.h"
#include "tools/lab/experiment/cells.h"

namespace crosstalk {

// The cost of a configuration's steps, without its text or tokenizer, and this machine's speed.

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

// The plan of one row: its cells are alike.
struct RowPlan {
  std::string name;  // "t5-talking-24x32"
  int64_t cells = 0, finished = 0, begun = 0;
  int64_t steps_left = 0;              // of pretraining, over its cells
  std::optional<double> step_seconds;  // none if there is nothing left to do, or no rate
  double seconds = 0;                  // to finish its cells
  int64_t memory_bytes = 0;            // of a step's tensors
  int64_t disk_bytes = 0;              // that its cells take when they are finished
  int64_t step_multiplications = 0;
  int64_t parameters = 0;  // of the model
};

struct Plan {
  std::vector<RowPlan> rows;
  std::vector<std::string> not_finetuned;  // tasks whose files are not there
  // Multiplications a second of each model that has something left to do, where they could be measured.
  std::map<std::string, double> rates;
  int64_t cells() const;
  int64_t finished() const;
  int64_t disk_bytes() const;
  int64_t memory_bytes() const;           // the most that a row takes
  std::optional<double> seconds() const;  // none if there is no rate
};

// Measures a few passes of each model that has something left to do, of its quickest row. A signal ends it early with
// Interrupted. Error(kUsage) where cells hold runs of another configuration.
Plan MakePlan(const std::vector<Cell>& cells, const StopSignals& signals);

// The sum: a sentence.
std::string PlanSummary(const Plan& plan);
// A line of each row and the sum, or all as JSON.
void PrintPlan(const Plan& plan, bool as_json);

}  // namespace crosstalk
