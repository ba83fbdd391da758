// A run's configuration from what its user gives of it: over the defaults, over that of the run that is resumed, or
// over that whose weights it begins with.
#pragma once

#include <functional>
#include <string>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/run_start.h"

namespace crosstalk {

// The configuration with what is given in it, and the rest as in `base`.
using GivenOver = std::function<TrainingConfig(const TrainingConfig& base)>;

// Of a new run. Of model and tokenizer, what is not given is as in the run whose weights it begins with. Error(kUsage)
// of the field "model" for another model than that.
TrainingConfig ConfigToBegin(const GivenOver& given);
// Of a run that is resumed, in `folder` or from a checkpoint: what is not given is as in it. More steps than it has
// continue it. Error(kUsage) of the field "steps" for fewer.
TrainingConfig ConfigToResume(const GivenOver& given, const ResumeOptions& resume, const std::string& folder);

// Without "." and doubled slashes; empty for nothing. "a/.." stays: where a is a link, that is not the folder that a is
// in. Error(kUsage) of the field where the working folder cannot be told.
std::string AbsolutePath(const char* field, const std::string& path);
// Paths made absolute, so that a run can be continued from anywhere.
void MakePathsAbsolute(TrainingConfig* config);

}  // namespace crosstalk
