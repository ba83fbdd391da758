// What a trained model writes, at the end of its training: so that one sees what was learnt.
#pragma once

#include <string>

#include "crosstalk/models/training/run.h"

namespace crosstalk {

// Prints what the model makes of held-out text, as `generate` would. Returns the rest of "what next": the command for
// more, or "" of a model that writes nothing. What goes wrong is a message: the run is finished and saved.
std::string ShowClosingSample(const TrainingRun& run);

}  // namespace crosstalk
