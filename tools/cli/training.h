// What the commands that train share: the options of a run, its progress and measures as text, and --dry-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/finetuning.h"  // paths
#include "crosstalk/models/training/run.h"
#include "tools/cli/option_table.h"
#include "tools/cli/progress.h"

namespace crosstalk {

// The options that describe a training run, shared by `train` and `compare`: the rows of TrainingFields().

// All rows but those of `except`, which a command sets itself.
void AddTrainingOptions(OptionTable& options, const TrainingConfig& defaults = {},
                        const std::vector<std::string>& except = {});

// The progress output of `train` and `compare`, and the format of a held-out measure.

// Progress lines of a run of `steps` steps, the held-out measures as lines that stay, and the signals as a stop.
// Refers to its arguments.
TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps);

// "2.3451", and of a metric that is a share "23.45 %": both with `digits` = 4; "undefined". `value` is of that metric.
std::string MetricText(const Metric& metric, double value, int digits);
// "ln(PPL) 2.3451": every metric by its label, with the guess of its name after it.
std::string MetricsText(const std::vector<Metric>& metrics, int digits, const std::vector<Metric>& constant_guess = {});
// "held-out ln(PPL) 2.3451 over 34,112 tokens, entropy bound 1.021",
// "held-out ln(PPL) 4.1044  masked accuracy 27.31 % (constant guess 4.90 %) over 9,728 tokens"
std::string EvaluationText(const RunEvaluation& evaluation);
// ", entropy bound 1.021" where it is known and the measure is ln(PPL), which it bounds.
std::string BoundText(const RunEvaluation& evaluation);

// --dry-run of the commands that train: what a run would be, and what it would take.

// Opens the data and the weights that the run would begin with, and prints its configuration, model, memory and
// multiplications. `checkpoint`: what it would go on from. Returns the exit code.
int DryRun(const ResolvedConfig& config, const std::optional<Checkpoint>& checkpoint, bool as_json);

}  // namespace crosstalk
