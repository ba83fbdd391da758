// The trained model that a command is asked for: --run FOLDER and --checkpoint last, best or a checkpoint's path.
#pragma once

#include <string>

#include "crosstalk/models/training/trained_model.h"
#include "tools/option_table.h"

namespace crosstalk {

struct ChosenModel {
  std::string run;
  std::string checkpoint = "last";
};

void AddChosenModel(OptionTable& options, ChosenModel* chosen);

// Says which damaged checkpoints were passed over.
TrainedModel LoadChosenModel(const ChosenModel& chosen);

}  // namespace crosstalk
