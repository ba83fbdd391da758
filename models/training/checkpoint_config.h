// The content of a run's checkpoints, for the code that writes them and the code that reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/origin.h"
#include "crosstalk/runtime/json.h"

namespace crosstalk {

inline constexpr char kModelName[] = "model.safetensors";
inline constexpr char kOptimizerName[] = "optimizer.safetensors";
inline constexpr char kConfigName[] = "config.json";
inline constexpr char kStateName[] = "state.json";

// The members of a checkpoint's config.json, checked.
struct CheckpointConfig {
  TrainingConfig training;
  Json model;
  std::string fingerprint;
  std::optional<Origin> origin;  // where training.init_from names one
};
CheckpointConfig ReadCheckpointConfig(const Checkpoint& checkpoint);

// The path of the tokenizer in a checkpoint. Error(kData) if it has none.
std::string TokenizerPath(const Checkpoint& checkpoint);

// One line each, to follow a colon.
std::string Lines(const std::vector<std::string>& lines);
std::vector<std::string> ReasonsOf(const std::vector<SkippedCheckpoint>& skipped);

}  // namespace crosstalk
