// TrainingConfig: everything that decides what a training run computes, in five parts, each for those who read it, and
// its table of fields, from which the command line, --config, run.json, checkpoints, the checks, the difference at
// resume and the manual are made. A new option is a member of a part and a row of its table: of data, optimization
// and run in fields.cc, of the others beside their structs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/model.h"
#include "crosstalk/models/model_config.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/nn/layers.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/field.h"
#include "crosstalk/runtime/json.h"

#pragma GCC visibility push(default)
namespace crosstalk {

class Tokenizer;
struct ObjectiveType;

// The denominator of a step's loss: the targets that are not padding, or all positions of the batch, padding too (as in
// the published T5 runs).
enum class LossDenominator { kTokens, kPositions };
// The use of the origin's optimizer state in a run that begins with another's weights.
enum class OptimizerStart { kFresh, kCarried };

template <>
struct EnumNames<OptimizerStart> {
  static constexpr EnumName<OptimizerStart> kTable[] = {{OptimizerStart::kFresh, "fresh"},
                                                        {OptimizerStart::kCarried, "carried"}};
};
template <>
struct EnumNames<LossDenominator> {
  static constexpr EnumName<LossDenominator> kTable[] = {{LossDenominator::kTokens, "tokens"},
                                                         {LossDenominator::kPositions, "positions"}};
};

// The fields' rows say what they mean.
struct DataConfig {
  std::string text;
  std::string validation;
  std::string text_field = kTextField;
  CorpusKind corpus = CorpusKind::kStories;  // where `text` is empty
  std::string tokenizer = "sentencepiece";
  int64_t vocabulary = 1000;
};

// The range of every seed.
inline constexpr FieldRange kSeedRange = {0, 9.2e18};

struct OptimizationConfig {
  std::string init_from;
  OptimizerStart optimizer_start = OptimizerStart::kFresh;
  std::string frozen;
  int64_t steps = 2000;
  std::string continued_at;
  int64_t batch = 16;
  int64_t shards = 1;
  std::optional<OptimizerKind> optimizer;
  std::optional<ScheduleKind> schedule;
  std::optional<double> learning_rate;
  std::optional<int64_t> warmup;
  double decay = 0.1;
  double final_learning_rate = 0;
  double decay_power = 1;
  double weight_decay = 0.01;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-6;
  // None: kYes. A model whose published form is another fills it in, where the optimizer reads it.
  std::optional<kernels::AdamWOptions::BiasCorrection> bias_correction;
  std::optional<double> clip;
  std::optional<double> z_loss;
  LossDenominator loss_denominator = LossDenominator::kTokens;
  Activations activations = Activations::kKeep;
  Precision precision = Precision::kFloat32;
  uint64_t seed = 1;
};

// The most rows of a part of a step, and those of a batch of an evaluation.
int64_t RowsAtATime(const OptimizationConfig& config);

// The outputs and their intervals.
struct RunConfig {
  std::optional<int64_t> eval_every;
  int64_t eval_batches = 32;
  std::optional<int64_t> checkpoint_every;
  int64_t keep = 2;
  int64_t log_every = 1;
  bool tensorboard = false;
};

// The defaults are the model that `crosstalk train` without options trains in a few minutes.
struct TrainingConfig {
  DataConfig data;
  ObjectiveConfig objective;
  ModelConfig model;
  OptimizationConfig optimization;
  RunConfig run;
};

const FieldTable<TrainingConfig>& TrainingFields();

// A configuration whose defaults are filled in and whose fields have been checked, each alone and against the others:
// what a run computes with. Everything but the data is known to fit. Error(kUsage) that names the field.
class ResolvedConfig {
 public:
  explicit ResolvedConfig(const TrainingConfig& config);
  const TrainingConfig& operator*() const { return config_; }
  const TrainingConfig* operator->() const { return &config_; }

 private:
  TrainingConfig config_;
};

// Keys are the table's, so that the result can be given to --config.
Json ToJson(const TrainingConfig& config);
// With its defaults filled in. Error(kData) with `source` and the key for what is missing, unknown, of another type,
// out of range, or does not fit the rest.
TrainingConfig TrainingConfigFromJson(const Json& json, const std::string& source);
template <>
struct JsonForm<TrainingConfig> {
  static constexpr FieldType kType = FieldType::kObject;
  static Json Write(const TrainingConfig& config) { return ToJson(config); }
  static TrainingConfig Read(const std::string& key, const Json& json, const FieldOptions&) {
    return TrainingConfigFromJson(json, key);
  }
};

// Sets the fields that its model, optimizer, schedule and objective do not read to their defaults.
void ResetUnusedFields(TrainingConfig& config);

// "d_model: 128 here, 256 there" for each differing field that affects results; empty if a run of `there` can be
// continued with `here`, for more steps too. `data`, `validation` and `init_from` are compared by content elsewhere.
std::vector<std::string> Differences(const TrainingConfig& here, const TrainingConfig& there);

// The configuration of a run that goes on to `steps` when its own are done: those are added to continued_at.
TrainingConfig Continued(TrainingConfig run, int64_t steps);
// The end of the stage that `step` belongs to, steps done: of continued_at and steps the first that is not below it.
int64_t EndOfStage(const OptimizationConfig& config, int64_t step);

// The names of `frozen`; none if it is empty or "none".
std::vector<std::string> FrozenNames(const OptimizationConfig& config);
// Gives a model the configuration's precision and activations, and makes the parameters that `frozen` names
// untrainable. Error(kUsage) of that field where a name is none of the model's, or nothing is left to train.
void PrepareModel(const OptimizationConfig& config, Model& model);

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizationConfig& config, std::vector<NamedParameter> parameters);
LossOptions MakeLossOptions(const OptimizationConfig& config);
ScheduleConfig MakeSchedule(const OptimizationConfig& config);
// The one that it names, or its model's first.
const ObjectiveType& ObjectiveOf(const TrainingConfig& config);
// The tokenizer's properties for its model; for one that does not exist yet (null), the requested ones.
Vocabulary VocabularyOf(const TrainingConfig& config, const Tokenizer* tokenizer);
// The configuration of its model, with a tokenizer of that vocabulary. Error(kUsage) of the field at fault.
ModelConfig ConfigureModel(const TrainingConfig& config, const Vocabulary& vocabulary);
// The same of a model with the weights of an origin, which is `model` and was trained by the configuration `before`:
// what no field says alone (ids above the tokenizer's, the norms' epsilon, heads that its publisher gave it) is as
// there.
ModelConfig ConfigureModel(const TrainingConfig& config, const ModelConfig& model, const TrainingConfig& before);

}  // namespace crosstalk
#pragma GCC visibility pop
