#include "tools/cli/training_options.h"

namespace crosstalk {

void AddTrainingOptions(OptionTable& options, const TrainingConfig& defaults, const std::vector<std::string>& except) {
  options.AddFields(TrainingFields(), defaults, except);
}

}  // namespace crosstalk
