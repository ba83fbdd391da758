#include "tools/reproduce/step_time.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "crosstalk/autograd/precision.h"
#include "crosstalk/autograd/scopes.h"
#include "crosstalk/models/objectives/objective.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/stop_request.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/trainer.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/stopwatch.h"
#include "tools/statistics.h"

namespace crosstalk {

namespace {

// A step of more is measured on fewer examples: about a second on two processors.
constexpr double kMostMultiplications = 5e10;
// An example of more is measured in one layer: 20 seconds.
constexpr double kMostOfAnExample = 1e12;
constexpr size_t kMostSteps = 3;
constexpr double kMostSeconds = 4;  // no further step is measured
constexpr size_t kAnsweredRows = 16;

bool IsMadeHere(const std::string& tokenizer) { return tokenizer == "sentencepiece" || tokenizer == "characters"; }

Vocabulary ExpectedVocabulary(const TrainingConfig& config) {
  if (IsMadeHere(config.tokenizer)) return VocabularyOf(config, nullptr);
  return VocabularyOf(config, LoadNamedTokenizer(config).get());
}

// The configuration on the bytes of the built-in corpus.
TrainingConfig OnBytes(TrainingConfig config) {
  config.tokenizer = "bytes";
  config.data.clear();
  config.validation.clear();
  return config;
}

// Of a tokenizer of bytes, with as many ids as the configuration's has.
Vocabulary BytesOf(int64_t size, const TrainingConfig& config, const Tokenizer& tokenizer) {
  Vocabulary vocabulary = VocabularyOf(config, &tokenizer);
  vocabulary.size = std::max(vocabulary.size, size);
  return vocabulary;
}

// A model that is trained on what it is given, without a folder.
struct Rig {
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;

  Rig(const TrainingConfig& config, const Vocabulary& vocabulary)
      : model(MakeModel(FindModel(config.model).configure(config, vocabulary), "configuration", config.seed)) {
    model->SetActivations(config.activations);
    Freeze(config, *model);
    optimizer = MakeOptimizer(config, model->Parameters());
  }

  double MedianSeconds(const TrainingConfig& config, const TrainingData& data, const StopSignals& signals) {
    const std::unique_ptr<BatchSource> batches = MakeBatches(config, data);
    const TrainerOptions options = {.schedule = MakeSchedule(config),
                                    .clip_norm = config.clip.value_or(0),
                                    .loss = MakeLossOptions(config),
                                    .denominator = config.loss_denominator,
                                    .seed = config.seed};
    Trainer trainer(*model, *optimizer, *batches, options);
    const PrecisionScope precision(config.precision);
    std::vector<double> seconds;
    const Stopwatch watch;
    do {
      if (signals.Received() != 0) throw Interrupted();
      const Stopwatch step;
      trainer.Step();
      seconds.push_back(step.seconds());
    } while (seconds.size() <= kMostSteps && watch.seconds() < kMostSeconds);
    if (seconds.size() > 1) seconds.erase(seconds.begin());  // which touches memory for the first time
    return Median(std::move(seconds));
  }
};

double OfAnExample(const TrainingConfig& config, const StepCost& cost) {
  return static_cast<double>(cost.step_multiplications) / static_cast<double>(config.batch);
}

// A part of the configuration's step that takes about a second.
TrainingConfig MeasuredPart(TrainingConfig config, const StepCost& cost) {
  const double an_example = OfAnExample(config, cost);
  const double most = std::min(kMostMultiplications / std::max(1.0, an_example), 1e9);
  config.batch = std::clamp<int64_t>(static_cast<int64_t>(most), 1, config.batch / config.accumulate);
  config.accumulate = 1;
  if (an_example > kMostOfAnExample) {
    config.layers = 1;
    if (config.decoder_layers) config.decoder_layers = 1;
  }
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

std::optional<StepTime> MeasureStep(const TrainingConfig& config, const StepCost& cost, const StopSignals& signals) {
  const ResolvedConfig measured(MeasuredPart(OnBytes(config), cost));
  const TrainingData data = OpenTrainingData(*measured);
  const Vocabulary vocabulary = BytesOf(ExpectedVocabulary(config).size, *measured, *data.tokenizer);
  if (!Fits(measured, vocabulary)) return std::nullopt;
  const double part = static_cast<double>(EstimateStep(measured, vocabulary).step_multiplications);
  Rig rig(*measured, vocabulary);
  const double seconds = rig.MedianSeconds(*measured, data, signals);
  return StepTime{seconds * static_cast<double>(cost.step_multiplications) / part, measured->batch, measured->layers};
}

std::optional<FinetuningTime> MeasureFinetuning(const Cell& cell, const ScaleFinetuning& finetuning,
                                                const StopSignals& signals) {
  const std::optional<std::string> folder = TaskFolderOf(cell, finetuning);
  if (!folder) return std::nullopt;
  const int64_t vocabulary_size = ExpectedVocabulary(cell.pretraining).size;
  OriginOutline origin;
  origin.config = *ResolvedConfig(OnBytes(cell.pretraining));
  const std::shared_ptr<const Tokenizer> tokenizer = LoadNamedTokenizer(origin.config);
  origin.tokenizer = tokenizer;
  FinetuningLength length;
  TrainingConfig config = FinetuningOf(cell, finetuning, origin, *folder, &length);
  config.init_from.clear();
  TrainingData data;
  data.tokenizer = tokenizer;
  data.tasks = std::make_shared<TaskSet>(OpenTasks(config));
  SetSteps(
      length, [&] { return CountTrainingExamples(config, data); }, &config);
  const Vocabulary vocabulary = BytesOf(vocabulary_size, config, *tokenizer);
  FinetuningTime time = {.seconds = 0, .steps = config.steps, .cost = EstimateStep(ResolvedConfig(config), vocabulary)};
  TrainingConfig part = MeasuredPart(config, time.cost);
  part.layers = config.layers;
  part.decoder_layers = config.decoder_layers;
  const ResolvedConfig measured(part);
  if (!Fits(measured, vocabulary)) return std::nullopt;
  Rig rig(*measured, vocabulary);
  const double scale = static_cast<double>(config.batch) / static_cast<double>(part.batch);
  time.seconds = rig.MedianSeconds(*measured, data, signals) * scale * static_cast<double>(config.steps);
  const NoGradScope no_grad;
  const double measures = static_cast<double>(EvaluationsOf(*measured)) + 1;  // and the files at the end
  for (const TaskData& task : data.tasks->tasks) {
    if (task.dev == nullptr || task.dev->empty()) continue;
    const std::vector<TaskRow> rows(
        task.dev->begin(), task.dev->begin() + static_cast<int64_t>(std::min(kAnsweredRows, task.dev->size())));
    const Stopwatch watch;
    ObjectiveOf(*measured).answer(*measured, *rig.model, *tokenizer, *task.type, rows, {});
    const double a_row = watch.seconds() / static_cast<double>(rows.size());
    const double tested = task.test == nullptr ? 0 : static_cast<double>(task.test->size());
    time.seconds += a_row * (measures * static_cast<double>(task.dev->size()) + tested);
  }
  return time;
}

int64_t EvaluationsOf(const TrainingConfig& config) {
  const int64_t every = config.eval_every.value_or(std::max<int64_t>(1, config.steps / 8));
  return every == 0 ? 1 : std::max<int64_t>(1, config.steps / every);
}

int64_t DiskOfRun(const TrainingConfig& config, const StepCost& cost) {
  constexpr int64_t kBytesOfALine = 300;  // of metrics.jsonl
  const int64_t weights = 4 * cost.parameters;
  return (config.keep + 1) * (weights + cost.optimizer_bytes) + weights +
         config.steps / config.log_every * kBytesOfALine;
}

}  // namespace crosstalk
