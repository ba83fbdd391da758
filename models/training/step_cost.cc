#include "crosstalk/models/training/step_cost.h"

#include <algorithm>

#include "crosstalk/autograd/precision.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/nn/optim/clipping.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/shapes_only.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

StepCost EstimateStep(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  const ShapesOnlyScope scope;
  const PrecisionScope precision(config->precision);
  const int64_t live_before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  const std::unique_ptr<Model> model =
      MakeModel(FindModel(config->model).configure(*config, vocabulary), "configuration", config->seed);
  model->SetActivations(config->activations);
  Freeze(*config, *model);
  const std::vector<NamedParameter> parameters = model->Parameters();
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(*config, parameters);
  const Batch batch =
      FindObjective(*config->objective).empty_batch(*config, vocabulary.tokens, config->batch / config->accumulate);
  StepCost cost;
  // The second part's gradients are added to those of the first, and a second step finds the optimizer's state there.
  for (int64_t part = 0; part < std::min<int64_t>(2, config->accumulate); ++part) {
    const int64_t before = scope.Multiplications();
    const LossResult loss = model->Loss(batch, MakeLossOptions(*config), {.phase = ForwardContext::Phase::kTraining});
    const int64_t of_the_part = CheckedMultiplications(scope.Multiplications()) - before;
    cost.forward_multiplications = CheckedMultiplications(SaturatingProduct(config->accumulate, of_the_part));
    Backward(loss.Scaled({}));
  }
  optimizer->Step(0, ClipScale(GradientNorm(parameters), config->clip.value_or(0)));
  cost.total_bytes = GetMemoryStats().peak_bytes - live_before;
  cost.parameters = model->NumParameters();
  for (const NamedParameter& parameter : parameters) {
    const int64_t elements = parameter.value.value().num_elements();
    if (!parameter.trainable) cost.frozen_parameters += elements;
    cost.parameter_bytes += (parameter.trainable ? 2 : 1) * elements * SizeOf(parameter.value.dtype());
  }
  cost.optimizer_bytes = optimizer->StateBytes();
  cost.activation_bytes = std::max<int64_t>(0, cost.total_bytes - cost.parameter_bytes - cost.optimizer_bytes);
  const int64_t passes = config->activations == Activations::kRecompute ? 4 : 3;
  cost.step_multiplications = CheckedMultiplications(SaturatingProduct(passes, cost.forward_multiplications));
  return cost;
}

}  // namespace crosstalk
