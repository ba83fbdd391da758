// The trained model that a command is asked for: --run FOLDER and --checkpoint last, best or a checkpoint's path; by
// default the best of a run on tasks, as its scores.json is, and the last of any other.
#pragma once

#include <string>

#include "crosstalk/models/training/trained_model.h"
#include "tools/option_table.h"

namespace crosstalk {

struct ChosenModel {
  std::string run;
  std::string checkpoint;  // empty: the default
  std::string precision;   // empty: that of the run
};

// --precision; empty: as the model was trained.
void AddPrecision(OptionTable& options, std::string* precision);
void AddChosenModel(OptionTable& options, ChosenModel* chosen);

// In the precision that is asked for (TakePrecision). Says which damaged checkpoints were passed over. Error(kData)
// where the best is damaged or missing.
TrainedModel LoadChosenModel(const ChosenModel& chosen);

// Gives a model that is not trained the precision that is asked for; empty: leaves it its own. In bfloat16 its weights
// are rounded once, instead of at each use.
void TakePrecision(const std::string& asked, Model& model);

}  // namespace crosstalk
