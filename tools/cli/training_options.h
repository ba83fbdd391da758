// The options that describe a training run, shared by `train` and `compare`: the rows of TrainingFields().
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/finetuning.h"  // paths
#include "tools/cli/option_table.h"

namespace crosstalk {

// All rows but those of `except`, which a command sets itself.
void AddTrainingOptions(OptionTable& options, const TrainingConfig& defaults = {},
                        const std::vector<std::string>& except = {});

}  // namespace crosstalk
