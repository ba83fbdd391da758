#include "tools/lab/experiment/step_time.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/platform.h"

namespace crosstalk {

namespace {

// A pass of more is measured on fewer examples, and an example of more in one layer: about a second on two processors.
constexpr double kMostMultiplications = 5e10;
constexpr int kMostPasses = 5;
constexpr double kMostSeconds = 3;  // no further pass is measured

bool IsMadeHere(const std::string& tokenizer) { return tokenizer == "sentencepiece" || tokenizer == "characters"; }

Vocabulary ExpectedVocabulary(const TrainingConfig& config) {
  if (IsMadeHere(config.data.tokenizer)) return VocabularyOf(config, nullptr);
  return VocabularyOf(config, LoadNamedTokenizer(config).get());
}

// The configuration on the bytes of the built-in corpus.
TrainingConfig OnBytes(TrainingConfig config) {
  config.data.tokenizer = "bytes";
  config.data.text.clear();
  config.data.validation.clear();
  return config;
}

// Of a tokenizer of bytes, with as many ids as the configuration's has.
Vocabulary BytesOf(int64_t size, const TrainingConfig& config, const Tokenizer& tokenizer) {
  Vocabulary vocabulary = VocabularyOf(config, &tokenizer);
  vocabulary.size = std::max(vocabulary.size, size);
  return vocabulary;
}

// Of the quickest of a few steps, without its update: whatever else runs on the machine makes one slower, and none
// quicker.
double SecondsOfAPass(const TrainingConfig& config, const Vocabulary& vocabulary, const TrainingData& data,
                      const StopSignals& signals) {
  LoopOptions options = MakeLoopOptions(config.optimization);
  options.schedule = {.kind = ScheduleKind::kConstant, .scale = 0};  // a rate that diverges is no matter of time
  TrainingInMemory training(config, data, vocabulary, options);
  Loop& loop = training.loop();
  double quickest = std::numeric_limits<double>::infinity();
  const Stopwatch watch;
  while (loop.step() < kMostPasses && watch.seconds() < kMostSeconds) {
    if (signals.Received() != 0) throw Interrupted();
    const StepResult step = loop.Step();
    quickest = std::min(quickest, step.forward_seconds + step.backward_seconds);
  }
  return quickest;
}

double MultiplicationsPerExample(const TrainingConfig& config, const Vocabulary& vocabulary) {
  const StepCost cost = EstimateStep(ResolvedConfig(config), vocabulary);
  return std::max(1.0, static_cast<double>(cost.step_multiplications) / static_cast<double>(config.optimization.batch));
}

// A part of the configuration's step that takes about a second.
TrainingConfig MeasuredPart(TrainingConfig config, const Vocabulary& vocabulary) {
  config.optimization.batch /= config.optimization.shards;
  config.optimization.shards = 1;
  if (MultiplicationsPerExample(config, vocabulary) > kMostMultiplications) {
    config.model.layers = 1;
    if (config.model.decoder_layers) config.model.decoder_layers = 1;
  }
  const double most = kMostMultiplications / MultiplicationsPerExample(config, vocabulary);
  config.optimization.batch =
      std::clamp<int64_t>(static_cast<int64_t>(std::min(most, 1e9)), 1, config.optimization.batch);
  return config;
}

bool Fits(const ResolvedConfig& config, const Vocabulary& vocabulary) {
  const int64_t memory = GetPlatformInfo().total_memory_bytes;
  return memory <= 0 || EstimateStep(config, vocabulary).total_bytes < memory * 9 / 10;
}

}  // namespace

StepCost CostOfStep(const TrainingConfig& config) {
  return EstimateStep(ResolvedConfig(config), ExpectedVocabulary(config));
}

std::optional<double> MeasureRate(const TrainingConfig& config, const StopSignals& signals) {
  const TrainingConfig whole = OnBytes(config);
  const TrainingData data = OpenTrainingData(*ResolvedConfig(whole));
  const Vocabulary vocabulary = BytesOf(ExpectedVocabulary(config).size, whole, *data.tokenizer);
  const ResolvedConfig measured(MeasuredPart(whole, vocabulary));
  if (!Fits(measured, vocabulary)) return std::nullopt;
  const double multiplications = static_cast<double>(EstimateStep(measured, vocabulary).step_multiplications);
  return multiplications / SecondsOfAPass(*measured, vocabulary, data, signals);
}

std::optional<FinetuningCost> CostOfFinetuning(const Cell& cell, const CellFinetuning& finetuning) {
  const std::optional<std::string> folder = TaskFolderOf(cell, finetuning);
  if (!folder) return std::nullopt;
  const int64_t vocabulary_size = ExpectedVocabulary(cell.pretraining).size;
  TrainedModel origin;
  origin.config = *ResolvedConfig(OnBytes(cell.pretraining));
  const std::shared_ptr<const Tokenizer> tokenizer = LoadNamedTokenizer(origin.config);
  origin.tokenizer = tokenizer;
  FinetuningLength length;
  TrainingConfig config = FinetuningOf(cell, finetuning, origin, *folder, &length);
  config.optimization.init_from.clear();
  TrainingData data;
  data.tokenizer = tokenizer;
  data.tasks = std::make_shared<TaskSet>(OpenTasks(config));
  SetSteps(
      length, [&] { return CountTrainingExamples(config, data); }, &config);
  const ResolvedConfig resolved(config);
  FinetuningCost cost = {.steps = config.optimization.steps,
                         .step = EstimateStep(resolved, BytesOf(vocabulary_size, config, *tokenizer))};
  double rows = 0;
  const double measures = static_cast<double>(EvaluationsOf(*resolved)) + 1;  // and the files at the end
  for (const TaskData& task : data.tasks->tasks) {
    if (task.dev != nullptr) rows += measures * static_cast<double>(task.dev->size());
    if (task.test != nullptr) rows += static_cast<double>(task.test->size());
  }
  cost.multiplications =
      static_cast<double>(cost.steps) * static_cast<double>(cost.step.step_multiplications) +
      rows * static_cast<double>(cost.step.forward_multiplications) / static_cast<double>(config.optimization.batch);
  return cost;
}

int64_t EvaluationsOf(const TrainingConfig& config) {
  const int64_t every = config.run.eval_every.value_or(std::max<int64_t>(1, config.optimization.steps / 8));
  return every == 0 ? 1 : std::max<int64_t>(1, config.optimization.steps / every);
}

double EvaluationShare(const TrainingConfig& config) {
  return static_cast<double>(EvaluationsOf(config) * config.run.eval_batches) / 3 /
         static_cast<double>(config.optimization.steps);
}

int64_t DiskOfRun(const TrainingConfig& config, const StepCost& cost) {
  constexpr int64_t kBytesOfALine = 300;  // of metrics.jsonl
  const int64_t weights = 4 * cost.parameters;
  return (config.run.keep + 1) * (weights + cost.optimizer_bytes) + weights +
         config.optimization.steps / config.run.log_every * kBytesOfALine;
}

}  // namespace crosstalk
