#include <memory>
#include <optional>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {
namespace {

constexpr int64_t kMaxParts = 3;  // of what is executed on shapes: layers, and parts of a batch

void RequireTraining(const Json& json) {
  TrainingConfig config;
  if (!Accepts([&] { config = TrainingConfigFromJson(json, "config"); })) return;
  const Json written = ToJson(config);
  Require(ToJson(TrainingConfigFromJson(written, "written")) == written,
          "not the configuration that was written: ", written.Dump());
  Require(Differences(config, config).empty(), "a configuration differs from itself");

  std::optional<ResolvedConfig> resolved;
  if (!Accepts([&] { resolved.emplace(config); })) return;
  const Json full = ToJson(**resolved);
  Require(ToJson(*ResolvedConfig(**resolved)) == full, "resolving changes what is resolved: ", full.Dump());
  Require(ToJson(*ResolvedConfig(TrainingConfigFromJson(full, "written"))) == full,
          "not the configuration of run.json: ", full.Dump());
  if (config.model.layers > kMaxParts || config.model.decoder_layers.value_or(0) > kMaxParts ||
      config.optimization.shards > kMaxParts)
    return;
  const Vocabulary vocabulary = VocabularyOf(config, nullptr);
  StepCost cost;
  if (!Accepts([&] { cost = EstimateStep(*resolved, vocabulary); })) return;
  Require(cost.parameters > 0 && cost.forward_multiplications > 0 && cost.step_multiplications > 0 &&
              cost.total_bytes > 0 && cost.parameter_bytes > 0 && cost.optimizer_bytes > 0 &&
              cost.activation_bytes >= 0,
          "an impossible cost: ", cost.parameters, " parameters, ", cost.forward_multiplications, " and ",
          cost.step_multiplications, " multiplications, ", cost.total_bytes, " bytes");
  Accepts([&] { MakeModelOfShapes(*resolved, ConfigureModel(**resolved, vocabulary)); });
}

void RequireModel(const Json& json) {
  ModelConfig config;
  if (!Accepts([&] { config = ReadModelConfig(json, "config"); })) return;
  const Json written = config.ToJson();
  Require(ReadModelConfig(written, "written").ToJson() == written, "not the model that was written: ", written.Dump());
  if (config.layers > kMaxParts || config.decoder_layers > kMaxParts) return;
  const ContextScope no_values(&OpContext::shapes_only, true);
  std::unique_ptr<Model> model;
  if (!Accepts([&] { model = MakeModel(config, 1); })) return;
  Require(model->config().ToJson() == written,
          "the model has another configuration: ", model->config().ToJson().Dump());
  Require(model->NumParameters() > 0, model->NumParameters(), " parameters");
}

}  // namespace

// A training configuration, or a model's. What is read is written as what reads to the same; resolving is done once;
// a cost that is counted is one.
void FuzzConfig(std::string_view input) {
  Json json;
  if (!Accepts([&] { json = ParseJson(input, "config"); })) return;
  RequireTraining(json);
  RequireModel(json);
}

}  // namespace crosstalk::fuzz
