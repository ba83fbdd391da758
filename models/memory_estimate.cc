#include "crosstalk/models/memory_estimate.h"

#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/t5/config.h"

namespace crosstalk {

StepCost EstimateStep(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  const T5Config t5 = T5ConfigFromJson(FindModel(config->model).configure(*config, vocabulary), "");
  const Batch b =
      FindObjective(*config->objective).empty_batch(*config, vocabulary.tokens, config->batch / config->accumulate);
  const T5Cost c = EstimateT5(t5, b.rows(), b.Get("inputs").size(1), b.Get("targets").size(1), config->activations);
  return {c.parameters,
          c.forward_multiplications * config->accumulate,
          c.step_multiplications * config->accumulate,
          c.parameter_bytes,
          c.optimizer_bytes,
          c.activation_bytes};
}

}  // namespace crosstalk
