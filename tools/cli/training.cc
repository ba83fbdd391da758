#include "tools/cli/training.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/step_cost.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"

namespace crosstalk {

namespace {

// Time left, from the speed of the steps of this process so far.
class Pace {
 public:
  explicit Pace(int64_t steps) : steps_(steps) {}
  double SecondsLeft(int64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (first_step_ < 0) {
      first_step_ = step;
      first_time_ = now;
      return -1;
    }
    const double elapsed = std::chrono::duration<double>(now - first_time_).count();
    return elapsed / static_cast<double>(step - first_step_) * static_cast<double>(steps_ - step);
  }

 private:
  int64_t steps_;
  int64_t first_step_ = -1;
  std::chrono::steady_clock::time_point first_time_;
};

}  // namespace

TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps) {
  TrainingObserver observer;
  observer.message = [](const std::string& message) { PrintMessage(message); };
  observer.step = [&progress, steps, pace = std::make_shared<Pace>(steps)](const StepResult& step) {
    const double left = pace->SecondsLeft(step.step);
    const std::string rate = CountText(static_cast<int64_t>(static_cast<double>(step.tokens) / step.seconds));
    progress.Update(StrCat("step ", step.step, "/", steps, "  loss ", FixedText(step.loss, 3), "  ",
                           MetricsText(step.metrics, 3), "  ", rate, " tokens/s",
                           left < 0 ? "" : "  " + DurationText(left) + " left"));
  };
  observer.evaluation = [&progress, steps](const RunEvaluation& evaluation) {
    progress.Last(StrCat("step ", evaluation.step, "/", steps, "  ", Bold(EvaluationText(evaluation))));
  };
  observer.stop = [&signals] { return signals.Received() != 0; };
  return observer;
}

std::string MetricText(const Metric& metric, double value, int digits) {
  if (!std::isfinite(value)) return "undefined";
  return DisplayOf(metric).is_share ? FixedText(100 * value, digits - 2) + " %" : FixedText(value, digits);
}

std::string MetricsText(const std::vector<Metric>& metrics, int digits, const std::vector<Metric>& constant_guess) {
  std::string text;
  for (const Metric& metric : metrics) {
    text += StrCat(text.empty() ? "" : "  ", DisplayOf(metric).label, " ", MetricText(metric, metric.value, digits));
    for (const Metric& guess : constant_guess) {
      if (guess.name != metric.name) continue;
      text += StrCat(" (constant guess ", MetricText(guess, guess.value, digits), ")");
    }
  }
  return text;
}

std::string EvaluationText(const RunEvaluation& evaluation) {
  return StrCat("held-out ", MetricsText(evaluation.result.metrics, 4, evaluation.baselines.constant_guess), " over ",
                evaluation.result.tokens > 0 ? CountText(evaluation.result.tokens) + " tokens"
                                             : CountText(evaluation.result.examples) + " answers",
                BoundText(evaluation));
}

std::string BoundText(const RunEvaluation& evaluation) {
  const auto& metrics = evaluation.result.metrics;
  const bool beside = !metrics.empty() && metrics[0].name == "ln_ppl";
  return beside && evaluation.baselines.entropy_bound
             ? ", entropy bound " + FixedText(*evaluation.baselines.entropy_bound, 3)
             : "";
}

namespace {

constexpr int64_t kMostRanks = 1024;  // that memory is estimated for

}  // namespace

int DryRun(const ResolvedConfig& config, const std::optional<Checkpoint>& checkpoint, bool as_json) {
  std::optional<Trained> origin, resumed;
  std::shared_ptr<const Tokenizer> tokenizer;
  if (checkpoint) resumed = OpenRun(checkpoint->path);
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
  const ModelConfig model_config =
      origin ? ConfigureModel(*config, origin->model->config(), origin->config) : ConfigureModel(*config, vocabulary);
  const std::unique_ptr<Model> model = MakeModelOfShapes(config, model_config);
  if (origin) LoadModelOf(*origin, model_config, config->optimization.seed);
  const StepCost cost = EstimateStep(config, model_config);
  std::vector<std::pair<int, int64_t>> of_ranks;  // how many, and the bytes of one
  const auto parts = static_cast<int>(std::min<int64_t>(config->optimization.shards, kMostRanks));
  for (int ranks = 2; ranks <= parts; ranks = ranks < parts ? std::min(2 * ranks, parts) : parts + 1) {
    of_ranks.emplace_back(ranks, BytesOfRank(config, model_config, cost, ranks));
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

TrainingSummary GoOnWith(PlannedRun planned, const StopSignals& signals, RankGroup* ranks, const RunCalls& calls) {
  Progress progress(calls.plain_interval);
  const TrainingObserver observer = MakeTrainingObserver(progress, signals, planned.config->optimization.steps);
  ResumeOptions resume;
  resume.from = ResumeOptions::From::kNewest;
  TrainingRun run = planned.lock != nullptr
                        ? TrainingRun(planned.config, std::move(planned.lock), resume, observer, ranks)
                        : TrainingRun(planned.config, planned.folder, resume, observer, ranks);
  if (calls.begun) calls.begun(run);
  TrainingSummary summary = run.Train();
  if (calls.finished && summary.end == TrainingSummary::End::kFinished) calls.finished(run, summary);
  return summary;
}

int GoOnWithAll(std::vector<PlannedRun> runs, const std::string& resumes, const StopSignals& signals, RankGroup* ranks,
                const RunCalls& calls) {
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].title.empty()) PrintPlace(i, runs.size(), runs[i].title);
    const TrainingSummary summary = GoOnWith(std::move(runs[i]), signals, ranks, calls);
    if (summary.end == TrainingSummary::End::kFinished) continue;
    PrintMessage("interrupted after step ", summary.step, "; ", resumes);
    return 128 + signals.Received();
  }
  return 0;
}

void PrintPlace(size_t index, size_t count, const std::string& title) {
  PrintMessage(Bold(StrCat("[", index + 1, "/", count, "] ", title)));
}

constexpr std::string_view kSeedPrefix = "seed-";

std::string SeedFolder(const std::string& folder, uint64_t seed) { return StrCat(folder, "/", kSeedPrefix, seed); }

std::optional<uint64_t> SeedOf(const std::string& name) {
  uint64_t seed = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kSeedPrefix)) return std::nullopt;
  if (std::from_chars(name.data() + kSeedPrefix.size(), end, seed).ptr != end) return std::nullopt;
  return StrCat(kSeedPrefix, seed) == name ? std::optional<uint64_t>(seed) : std::nullopt;
}

std::set<uint64_t> SeedsIn(const std::string& folder) {
  std::set<uint64_t> seeds;
  if (!Exists(folder)) return seeds;
  for (const std::string& name : ListDirectory(folder)) {
    if (const std::optional<uint64_t> seed = SeedOf(name)) seeds.insert(*seed);
  }
  return seeds;
}

void CheckHolds(const std::string& out, const char* whose, const std::function<bool(const std::string&)>& is_own) {
  if (KindOf(out) == PathKind::kNothing) return;
  for (const std::string& name : ListDirectory(out)) {
    CROSSTALK_CHECK(IsTemporaryName(name) || is_own(name), "--out ", out, ": holds files that are not those of ", whose,
                    " (", Excerpt(name), "); choose a new folder");
  }
}

TrainingConfig FinetuningUnder(const Trained& origin, const std::string& tasks, const Given& given,
                               const std::optional<double>& epochs, FinetuningLength* length) {
  TrainingConfig published = FinetuningConfig(origin, tasks, length);
  published.optimization.steps = 0;
  TrainingConfig config = given.Over(TrainingFields(), published);
  // Another optimizer cannot go on from that state, and is not asked to.
  const bool carries = given.Over(TrainingFields()).optimization.optimizer_start == OptimizerStart::kCarried;
  if (!carries && config.optimization.optimizer != published.optimization.optimizer)
    config.optimization.optimizer_start = OptimizerStart::kFresh;
  if (epochs) *length = {.epochs = *epochs, .steps = 0, .warmup = length->warmup};
  return config;
}

}  // namespace crosstalk
