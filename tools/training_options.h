// The options that describe a training run, shared by `train` and `compare`, and what both print while it goes on.
#pragma once

#include <string>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/run.h"
#include "tools/options.h"
#include "tools/progress.h"
#include "tools/signals.h"

namespace crosstalk {

// Which of them a command leaves out because it sets them itself.
enum class TrainingOptionSet {
  kTrain,    // all
  kCompare,  // without --attention and its places, and without --seed
};
void AddTrainingOptions(OptionTable& options, TrainingConfig* config, TrainingOptionSet set);

// Paths made absolute, so that a run can be continued from anywhere.
void MakePathsAbsolute(TrainingConfig* config);

// Progress lines of a run of `steps` steps, the held-out measures as lines that stay, and the signals as a stop.
// Refers to its arguments.
TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps);

// "ln(PPL) 2.345 held out (34,112 tokens; entropy floor 1.021)"
std::string EvaluationText(const RunEvaluation& evaluation);
Json EvaluationResultJson(const RunEvaluation& evaluation);

}  // namespace crosstalk
