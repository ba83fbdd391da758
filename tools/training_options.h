// The options that describe a training run, shared by `train` and `compare`: the rows of TrainingFields().
#pragma once

#include <string>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "tools/option_table.h"

namespace crosstalk {

// All rows but those of `except`, which a command sets itself.
void AddTrainingOptions(OptionTable& options, const TrainingConfig& defaults = {},
                        const std::vector<std::string>& except = {});

// Without "." and doubled slashes; empty for nothing. "a/.." stays: where a is a link, that is not the folder that a is
// in. Error(kUsage) of the field where the working folder cannot be told.
std::string AbsolutePath(const char* field, const std::string& path);

// Paths made absolute, so that a run can be continued from anywhere.
void MakePathsAbsolute(TrainingConfig* config);

}  // namespace crosstalk
