// Records what a training step of a configuration takes on this machine, for a simulation of many ranks.
#pragma once

#include <cstdint>
#include <functional>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/op_context.h"
#include "tools/lab/simulate/recording.h"

namespace crosstalk {

// Steps for warming up.
inline constexpr int64_t kStepsBeforeRecording = 3;

// Trains so many steps and `steps` more in memory, as `crosstalk train` does on one process. `progress` is told after
// each that counts. Interrupted where `stop` says so; errors of training.
StepRecording RecordStep(const ResolvedConfig& config, int64_t steps, const StopRequest& stop,
                         const std::function<void(int64_t done)>& progress);

}  // namespace crosstalk
