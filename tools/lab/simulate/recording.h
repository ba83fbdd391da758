// StepRecording: what one training step took on one machine, which a simulation of many ranks is made of. Seconds are
// medians over a few steps; a part is one of those that a step's batch is cut into.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

struct RecordedParameter {
  std::string name;
  int64_t elements = 0;
  int64_t bytes = 0;      // of the value, and of a gradient
  bool trainable = true;  // else no gradient, no owner
  bool reached = true;    // a part has a gradient of it; else the message to its owner is empty
  double seconds = 0;     // from the start of a part's backward until its gradient is complete
};

struct StepRecording {
  // Where it was recorded.
  std::string version, processor, simd_target;
  int64_t threads = 1;
  // What was recorded.
  std::string model;                        // for people
  Json configuration = Json::MakeObject();  // as run.json has it
  int64_t batch = 1;                        // rows of a step
  int64_t parts = 1;                        // S
  int64_t steps = 1;                        // that the medians are of

  double step_seconds = 0;  // of the whole step, as it was
  // The seconds of one part.
  double batch_seconds = 0;  // to make its rows
  double forward_seconds = 0;
  double backward_seconds = 0;
  int64_t loss_bytes = 0;  // of what it says of its loss, in a message
  // The seconds of all trainable parameters together.
  double add_seconds = 0;                     // to add one gradient to another
  double norm_seconds = 0;                    // for the sum of squares
  double optimizer_seconds = 0;               // for the update
  int64_t optimizer_bytes = 0;                // the optimizer's state
  std::vector<RecordedParameter> parameters;  // in the model's order

  int64_t TrainableBytes() const;
};

Json ToJson(const StepRecording& recording);
// Error(kData) that begins with `source` for what is missing, unknown, of another type, or cannot be.
StepRecording RecordingFromJson(const Json& json, const std::string& source);
// The beginning of each file.
std::string RecordingBegin();
StepRecording ReadRecording(const std::string& path);

// Records what a training step of a configuration takes on this machine, for a simulation of many ranks.

// Steps for warming up.
inline constexpr int64_t kStepsBeforeRecording = 3;

// Trains so many steps and `steps` more in memory, as `crosstalk train` does on one process. `progress` is told after
// each that counts. Interrupted where `stop` says so; errors of training.
StepRecording RecordStep(const ResolvedConfig& config, int64_t steps, const StopRequest& stop,
                         const std::function<void(int64_t done)>& progress);

}  // namespace crosstalk
