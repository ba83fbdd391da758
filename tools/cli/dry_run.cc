#include "tools/cli/dry_run.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "tools/cli/format.h"
#include "tools/cli/output.h"

namespace crosstalk {

namespace {

constexpr int64_t kMostRanks = 1024;  // that memory is estimated for

}  // namespace

int DryRun(const ResolvedConfig& config, const std::optional<Checkpoint>& checkpoint, bool as_json) {
  std::optional<TrainedModel> origin;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<TrainedModel> resumed;
  if (checkpoint) resumed = LoadTrainedModel(*checkpoint);
  if (resumed) tokenizer = resumed->tokenizer;
  // A checkpoint holds the weights, and needs nothing of where the run took its first ones.
  if (!config->optimization.init_from.empty() &&
      !(resumed && resumed->config.optimization.init_from == config->optimization.init_from)) {
    origin = LoadOrigin(config->optimization.init_from, config->optimization.optimizer_start);
    if (!checkpoint) tokenizer = TokenizerOf(*origin, *config);
  }
  const TrainingData checked = CheckTrainingData(*config, tokenizer);
  const std::string& data = checked.description;
  const Vocabulary vocabulary = VocabularyOf(*config, checked.tokenizer.get());
  if (origin && checked.tokenizer != nullptr) CheckModelOf(*origin, *config, *checked.tokenizer);
  const std::unique_ptr<Model> model = MakeModelOfShapes(config, vocabulary);
  if (origin) LoadModelOf(*origin, model->config(), config->optimization.seed);
  const StepCost cost = EstimateStep(config, vocabulary);
  std::vector<std::pair<int, int64_t>> of_ranks;  // how many, and the bytes of one
  const auto parts = static_cast<int>(std::min<int64_t>(config->optimization.shards, kMostRanks));
  for (int ranks = 2; ranks <= parts; ranks = ranks < parts ? std::min(2 * ranks, parts) : parts + 1) {
    of_ranks.emplace_back(ranks, BytesOfRank(config, vocabulary, cost, ranks));
  }
  if (as_json) {
    Json rank_bytes = Json::MakeObject();
    for (const auto& [ranks, bytes] : of_ranks) rank_bytes.Set(std::to_string(ranks), bytes);
    PrintResult(Json::MakeObject({{"configuration", ToJson(*config)},
                                  {"model", model->config().ToJson()},
                                  {"data", data},
                                  {"implementation", AttentionImplementationText(*model)},
                                  {"parameters", cost.parameters},
                                  {"frozen_parameters", cost.frozen_parameters},
                                  {"memory_bytes", cost.total_bytes},
                                  {"memory_bytes_of_a_rank", rank_bytes},
                                  {"parameter_bytes", cost.parameter_bytes},
                                  {"optimizer_bytes", cost.optimizer_bytes},
                                  {"activation_bytes", cost.activation_bytes},
                                  {"multiplications_per_step", cost.step_multiplications},
                                  {"threads", NumThreads()}}));
    return 0;
  }
  std::string text = StrCat(ToJson(*config).DumpPretty());
  const auto line = [&text](std::string name, const auto&... parts) {
    name.resize(28, ' ');
    text += StrCat(name, parts..., "\n");
  };
  line("data", data);
  line("model", model->Describe());
  for (const AttentionPlace& place : model->AttentionPlaces()) line(place.name, ToString(place.config));
  line("implementation", AttentionImplementationText(*model), " attention, by which memory is estimated");
  line("parameters", CountText(cost.parameters));
  if (cost.frozen_parameters > 0) {
    line("", CountText(cost.parameters - cost.frozen_parameters), " are trained, ", CountText(cost.frozen_parameters),
         " are frozen");
  }
  if (checkpoint) {
    line("weights", checkpoint->path, " (step ", checkpoint->step, ")");
  } else if (origin) {
    line("weights", origin->checkpoint, " (step ", origin->step, ")");
  }
  line("memory of tensors", BytesText(cost.total_bytes), " (parameters and gradients ", BytesText(cost.parameter_bytes),
       ", optimizer ", BytesText(cost.optimizer_bytes), ", activations ", BytesText(cost.activation_bytes), ")");
  if (const int64_t memory = GetPlatformInfo().total_memory_bytes; memory > 0 && cost.total_bytes > memory) {
    line("", "more than the ", BytesText(memory), " of this machine, on which it cannot be trained");
  }
  for (const auto& [ranks, bytes] : of_ranks)
    line("  of each of " + std::to_string(ranks) + " ranks", BytesText(bytes));
  line("multiplications a step", CountText(cost.step_multiplications), " (forward and backward)");
  line("a step", config->optimization.batch, " examples of ", ObjectiveOf(*config).describe(config->objective));
  PrintResult(text);
  return 0;
}

}  // namespace crosstalk
