// What `train` and `compare` print while a run goes on, and how a held-out measure reads.
#pragma once

#include <cstdint>
#include <string>

#include "crosstalk/models/training/run.h"
#include "tools/progress.h"
#include "tools/signals.h"

namespace crosstalk {

// Progress lines of a run of `steps` steps, the held-out measures as lines that stay, and the signals as a stop.
// Refers to its arguments.
TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps);

// "ln(PPL) 2.3451": every metric by its label.
std::string MetricsText(const std::vector<Metric>& metrics, int digits);
// "held-out ln(PPL) 2.3451 over 34,112 tokens, entropy bound 1.021"
std::string EvaluationText(const RunEvaluation& evaluation);
// ", entropy bound 1.021" where it is known and the measure is ln(PPL), which it bounds.
std::string BoundText(const RunEvaluation& evaluation);

}  // namespace crosstalk
