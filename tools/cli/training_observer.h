// The progress output of `train` and `compare`, and the format of a held-out measure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/models/training/run.h"
#include "tools/cli/progress.h"
#include "tools/cli/signals.h"

namespace crosstalk {

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

}  // namespace crosstalk
