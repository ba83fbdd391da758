// The trained model that a command is asked for: --run FOLDER and --checkpoint last, best or a checkpoint's path; by
// default the best of a run on tasks, as its scores.json is, and the last of any other.
#pragma once

#include <optional>
#include <string>

#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/dtype.h"
#include "tools/cli/option_table.h"

namespace crosstalk {

struct ChosenModel {
  std::string run;
  std::string checkpoint;              // empty: the default
  std::optional<Precision> precision;  // none: that of the run
};
const FieldTable<ChosenModel>& ChosenModelFields();

// --precision; none: as the model was trained.
template <typename Settings>
Field<Settings> PrecisionField(std::optional<Precision> Settings::*precision) {
  return MakeOption("--precision", precision, "",
                    "Operands of matrix products: float, or rounded to bfloat16; as the run was trained by default.");
}

// In the precision that is asked for (TakePrecision). Says which damaged checkpoints were passed over. Error(kData)
// where the best is damaged or missing.
TrainedModel LoadChosenModel(const ChosenModel& chosen);

// Gives a model that is not trained the precision that is asked for; none: leaves it its own. In bfloat16 its weights
// are rounded once, instead of at each use.
void TakePrecision(std::optional<Precision> asked, Model& model);

}  // namespace crosstalk
