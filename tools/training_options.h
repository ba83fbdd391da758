// The options that describe a training run, shared by `train` and `compare`: the rows of TrainingFields().
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "tools/option_table.h"

namespace crosstalk {

// All rows but those of `except`, which a command sets itself.
void AddTrainingOptions(OptionTable& options, TrainingConfig* config, const std::vector<std::string>& except = {});

// Paths made absolute, so that a run can be continued from anywhere.
void MakePathsAbsolute(TrainingConfig* config);

}  // namespace crosstalk
