// The trained model that a command is asked for, by MODEL, --run or --checkpoint.
#pragma once

#include <optional>
#include <string>

#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/dtype.h"
#include "tools/cli/option_table.h"

namespace crosstalk {

struct ModelToOpen {
  std::string model, run;  // two names of one option
  std::string checkpoint;  // empty: the command's default
};
// MODEL, --run and --checkpoint; `unsaid` is the checkpoint of a run if none is given.
FieldTable<ModelToOpen> ModelToOpenFields(WhichCheckpoint unsaid);

// --precision; none: as the model was trained.
template <typename Settings>
Field<Settings> PrecisionField(std::optional<Precision> Settings::*precision) {
  return MakeOption("--precision", precision, "",
                    "Operands of matrix products: float, or rounded to bfloat16; as the run was trained by default.");
}

// As Open reads it, of a run by default with the checkpoint options.which. Prints which damaged checkpoints were passed
// over, and the remarks. Error(kData) where the best is damaged or missing.
Trained OpenModel(const ModelToOpen& chosen, OpenOptions options);

// Gives a model that is not trained the precision that is asked for; none: leaves it its own. In bfloat16 its weights
// are rounded once, instead of at each use.
void TakePrecision(std::optional<Precision> asked, Model& model);

}  // namespace crosstalk
