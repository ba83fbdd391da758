#include "tools/page/model_cost.h"

#include <memory>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

// Far more than anybody trains. A model of shapes takes no memory for its parameters, but does for each layer.
constexpr int64_t kMostLayers = 10'000;

void CheckLayers(const Json& model, const std::string& source) {
  const JsonReader reader(model, source);
  for (const auto& [key, value] : model.AsObject()) {
    const bool counts = key.ends_with("layers") || key.ends_with("groups");
    if (counts && value.is_int() && value.AsInt() > kMostLayers) reader.FailAt(key, "is more than ", kMostLayers);
  }
}

}  // namespace

ModelCost CostOfModel(const TrainingConfig& config, const Json& model_json, const std::string& source) {
  CheckLayers(model_json, source);
  int64_t multiplications = 0;
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const ContextScope counted(&OpContext::multiplications, &multiplications);
  const std::unique_ptr<Model> model = MakeModel(*ReadModelConfig(model_json, source), config.optimization.seed);
  const ObjectiveType& objective = ObjectiveOf(config);
  const Batch example = objective.empty_batch(config.objective, model->config().tokens, 1);
  ModelCost cost;
  cost.text = model->Describe();
  cost.implementation = AttentionImplementationText(*model);
  cost.example = objective.describe(config.objective);
  cost.parameters = model->NumParameters();
  model->Loss(example, {}, {});
  cost.forward_multiplications = CheckedMultiplications(multiplications);
  // The last dimension of both is a row's length; of multiple choice, that of one choice.
  const int64_t inputs = example.Get("inputs").size(-1);
  const int64_t targets = example.Has("targets") ? example.Get("targets").size(-1) : inputs;
  for (const AttentionPlace& place : model->AttentionPlaces()) {
    const bool crosses = place.name.starts_with("encoder-decoder");
    const bool decodes = crosses || place.name.starts_with("decoder");
    const int64_t n = decodes ? targets : inputs, m = decodes && !crosses ? targets : inputs;
    cost.places.push_back({place.name, place.config, n, m, CostOf(place.config, n, m)});
  }
  return cost;
}

}  // namespace crosstalk
