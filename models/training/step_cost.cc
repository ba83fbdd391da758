#include "crosstalk/models/training/step_cost.h"

#include <algorithm>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

std::unique_ptr<Model> MakeModelOfShapes(const ResolvedConfig& config, const ModelConfig& model) {
  const ContextScope no_values(&OpContext::shapes_only, true);
  return MakeModel(model, config->optimization.seed);
}

StepCost EstimateStep(const ResolvedConfig& config, const ModelConfig& model_config) {
  int64_t multiplications = 0;
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const ContextScope counted(&OpContext::multiplications, &multiplications);
  const int64_t live_before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  const std::unique_ptr<Model> model = MakeModel(model_config, config->optimization.seed);
  PrepareModel(config->optimization, *model);
  const std::vector<NamedParameter> parameters = model->Parameters();
  const std::unique_ptr<Optimizer> optimizer = MakeOptimizer(config->optimization, parameters);
  const Batch batch = FindObjective(*config->objective.name)
                          .empty_batch(config->objective, model_config.tokens, RowsAtATime(config->optimization));
  StepCost cost;
  const int64_t parts = config->optimization.shards;
  const bool beside = AreBesideEachOther(parts, parameters);
  const int kept = MostGradientsKept(parts);
  std::vector<Tensor> sums;  // of earlier parts, the most that are kept while another is computed
  const int64_t before_parts = GetMemoryStats().live_bytes;
  int64_t part_bytes = 0, gradient_bytes = 0;  // of one part alone: the most, and at its end
  for (int64_t part = 0; part < std::min<int64_t>(2, parts); ++part) {
    for (int i = 0; part > 0 && i < kept; ++i) {
      for (const NamedParameter& parameter : parameters) {
        if (!parameter.trainable || !parameter.value.grad().defined()) continue;
        sums.push_back(Tensor::Empty(parameter.value.shape(), parameter.value.grad().dtype()));
      }
    }
    model->ZeroGrad();
    const int64_t before = multiplications;
    const LossResult loss =
        model->Loss(batch, MakeLossOptions(config->optimization), {.phase = ForwardContext::Phase::kTraining});
    const int64_t of_the_part = CheckedMultiplications(multiplications) - before;
    cost.forward_multiplications = CheckedMultiplications(
        SaturatingProduct(config->optimization.batch, CeilDivide(of_the_part, RowsAtATime(config->optimization))));
    Backward(loss.Scaled({}));
    if (part == 0) {
      part_bytes = GetMemoryStats().peak_bytes - before_parts;
      gradient_bytes = GetMemoryStats().live_bytes - before_parts;
    }
  }
  sums.clear();
  optimizer->Step(0, ClipScale(GradientNorm(parameters), config->optimization.clip.value_or(0)));
  cost.in_turn_bytes = GetMemoryStats().peak_bytes - live_before;
  const int64_t at_a_time = std::min<int64_t>(NumThreads(), parts);
  const int64_t beside_bytes =
      before_parts - live_before + at_a_time * part_bytes + (parts - at_a_time) * gradient_bytes;
  cost.total_bytes = beside ? std::max(cost.in_turn_bytes, beside_bytes) : cost.in_turn_bytes;
  cost.parameters = model->NumParameters();
  for (const NamedParameter& parameter : parameters) {
    const int64_t elements = parameter.value.value().num_elements();
    if (!parameter.trainable) cost.frozen_parameters += elements;
    cost.parameter_bytes +=
        (parameter.trainable ? 2 + (beside ? parts - 1 : kept) : 1) * elements * SizeOf(parameter.value.dtype());
  }
  cost.optimizer_bytes = optimizer->StateBytes();
  cost.activation_bytes = std::max<int64_t>(0, cost.total_bytes - cost.parameter_bytes - cost.optimizer_bytes);
  const int64_t passes = config->optimization.activations == Activations::kRecompute ? 4 : 3;
  cost.step_multiplications = CheckedMultiplications(SaturatingProduct(passes, cost.forward_multiplications));
  return cost;
}

int64_t BytesOfRank(const ResolvedConfig& config, const ModelConfig& model_config, const StepCost& cost, int ranks) {
  if (ranks == 1) return cost.total_bytes;
  const int64_t parts = config->optimization.shards;
  const std::unique_ptr<Model> model = MakeModelOfShapes(config, model_config);
  {
    const ContextScope no_values(&OpContext::shapes_only, true);
    PrepareModel(config->optimization, *model);
  }
  const std::vector<NamedParameter> parameters = model->Parameters();
  const std::vector<int> owners = OwnersOf(parameters, ranks);
  std::vector<int64_t> owned(static_cast<size_t>(ranks));
  int64_t trainable = 0, largest = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (owners[i] < 0) continue;
    const Tensor& value = parameters[i].value.value();
    const int64_t bytes = BytesOf(value.num_elements(), value.dtype());
    owned[static_cast<size_t>(owners[i])] += bytes;
    trainable += bytes;
    largest = std::max(largest, bytes);
  }
  const double share =
      static_cast<double>(*std::max_element(owned.begin(), owned.end())) / static_cast<double>(trainable);
  const int64_t fewer_kept = MostGradientsKept(parts) - MostGradientsKept(CeilDivide<int64_t>(parts, ranks));
  const auto not_held = static_cast<int64_t>((1 - share) * static_cast<double>(cost.optimizer_bytes));
  const int64_t received = std::min<int64_t>(kMostReceiving * largest, trainable);
  return cost.in_turn_bytes - not_held - fewer_kept * trainable + received;
}

void CheckMemory(const ResolvedConfig& config, const ModelConfig& model, int ranks) {
  constexpr const char* kAdvice = ": use a smaller model or batch, more shards, or activations = recompute";
  const int64_t memory = GetPlatformInfo().total_memory_bytes;
  int64_t bytes = 0;
  try {
    bytes = BytesOfRank(config, model, EstimateStep(config, model), ranks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    Fail(ErrorKind::kResource, "a training step needs more memory than a process can address", kAdvice);
  }
  if (memory > 0 && bytes > memory) {
    Fail(ErrorKind::kResource, "a training step needs ", bytes / 1'000'000, " MB, and this machine has ",
         memory / 1'000'000, " MB", kAdvice);
  }
}

}  // namespace crosstalk
