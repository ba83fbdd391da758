// --dry-run of the commands that train: what a run would be, and what it would take.
#pragma once

#include <optional>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/config.h"

namespace crosstalk {

// Opens the data and the weights that the run would begin with, and prints its configuration, model, memory and
// multiplications. `checkpoint`: what it would go on from. Returns the exit code.
int DryRun(const ResolvedConfig& config, const std::optional<Checkpoint>& checkpoint, bool as_json);

}  // namespace crosstalk
