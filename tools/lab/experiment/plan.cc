#include "tools/lab/experiment/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/platform.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/lab/bench/measured_step.h"

namespace crosstalk {

namespace {

// A pass of more is measured on fewer examples, and an example of more in one layer: about a second on two processors.
constexpr double kMostMultiplications = 5e10;
constexpr int kMostPasses = 5;
constexpr double kMostSeconds = 3;  // no further pass is measured

Vocabulary ExpectedVocabulary(const TrainingConfig& config) {
  if (IsTrainedTokenizer(config.data.tokenizer)) return VocabularyOf(config, nullptr);
  return VocabularyOf(config, LoadNamedTokenizer(config).get());
}

// The configuration on the bytes of the built-in corpus.
TrainingConfig OnBytes(TrainingConfig config) {
  config.data.tokenizer = "bytes";
  config.data.text.clear();
  config.data.validation.clear();
  return config;
}

// The vocabulary of a tokenizer of bytes, with as many ids as the configuration's has.
Vocabulary BytesOf(int64_t size, const TrainingConfig& config, const Tokenizer& tokenizer) {
  Vocabulary vocabulary = VocabularyOf(config, &tokenizer);
  vocabulary.size = std::max(vocabulary.size, size);
  return vocabulary;
}

// The seconds of the quickest of a few steps, without its update: other work on the machine makes one slower, and none
// quicker.
double SecondsOfAPass(const TrainingConfig& config, const Vocabulary& vocabulary, const TrainingData& data,
                      const StopSignals& signals) {
  LoopOptions options = MakeLoopOptions(config.optimization);
  options.schedule = {.kind = ScheduleKind::kConstant, .scale = 0};  // a rate that diverges is no matter of time
  TrainingInMemory training(config, data, vocabulary, options);
  double quickest = std::numeric_limits<double>::infinity();
  for (const MeasuredStep& step :
       MeasureSteps(training.loop(), {.repetitions = kMostPasses, .most_seconds = kMostSeconds, .stop = [&] {
                                        return signals.Received() != 0;
                                      }})) {
    quickest = std::min(quickest, step.result.forward_seconds + step.result.backward_seconds);
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
  Trained origin;
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

namespace {

int64_t StepsDone(const Cell& cell) {
  if (IsFinished(cell) || IsFinished(cell.PretrainingFolder(), false)) return cell.pretraining.optimization.steps;
  const std::vector<int64_t> steps = CheckpointStore(RunFolder(cell.PretrainingFolder()).CheckpointDirectory()).Steps();
  return steps.empty() ? 0 : std::min(steps.back(), cell.pretraining.optimization.steps);
}

// Calls check(), except for errors of a damaged file of the cell: that is the cell's own failure, and stops no other.
template <typename Check>
void UnlessDamaged(Check check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
  }
}

void CheckConfigurations(const std::vector<Cell>& cells) {
  const auto check = [](const std::string& folder, const std::string& why) {
    CROSSTALK_CHECK(why.empty(), folder, ": holds a run of another scale or configuration: ", why,
                    "\nchoose another --out, or repeat the scale and the options of the runs there");
  };
  for (const Cell& cell : cells) {
    UnlessDamaged([&] { check(cell.PretrainingFolder(), WhyAnother(cell)); });
    for (const CellFinetuning& one : cell.finetunings) {
      UnlessDamaged([&] { check(cell.FinetuningFolder(one), WhyAnother(cell, one)); });
    }
  }
}

// The text of the cells that are there must be that of the cells to come, for seeds are compared.
void CheckData(const std::vector<Cell>& cells) {
  std::map<std::string, std::string> fingerprints;
  for (const Cell& cell : cells) {
    const std::string text = TextOf(cell.pretraining);
    if (fingerprints.count(text) == 0) {
      fingerprints[text] = CheckTrainingData(*ResolvedConfig(cell.pretraining)).fingerprint;
    }
    UnlessDamaged([&] {
      const std::optional<std::string> there = DataFingerprintOf(cell);
      CROSSTALK_CHECK(!there || *there == fingerprints[text], cell.PretrainingFolder(),
                      ": was trained on other text; choose another --out, or the same --data");
    });
  }
}

// The cost of a model's finetunings, counted on one of its rows.
struct FinetuningPlan {
  double steps = 0;  // of its pretraining, that take as long
  int64_t memory_bytes = 0, disk_bytes = 0;
};

class Planner {
 public:
  Planner(const StopSignals& signals, Plan* plan) : signals_(signals), plan_(*plan) {}

  void Add(const std::vector<const Cell*>& cells) {
    const Cell& first = *cells[0];
    RowPlan row = {.name = first.name, .cells = static_cast<int64_t>(cells.size())};
    int64_t to_finetune = 0;
    for (const Cell* cell : cells) {
      const int64_t done = StepsDone(*cell);
      row.finished += IsFinished(*cell) ? 1 : 0;
      row.begun += !IsFinished(*cell) && done > 0 ? 1 : 0;
      row.steps_left += cell->pretraining.optimization.steps - done;
      to_finetune += IsFinished(*cell) ? 0 : 1;
    }
    const ResolvedConfig config(first.pretraining);
    const StepCost cost = CostOfStep(first.pretraining);
    row.parameters = cost.parameters;
    row.step_multiplications = cost.step_multiplications;
    row.memory_bytes = cost.total_bytes;
    row.disk_bytes = row.cells * DiskOfRun(*config, cost);
    double steps = 0;
    if (row.finished < row.cells) {
      const FinetuningPlan& finetuning = FinetuningOf(first, cost);
      steps = static_cast<double>(row.steps_left) * (1 + EvaluationShare(*config)) +
              finetuning.steps * static_cast<double>(to_finetune);
      row.memory_bytes = std::max(row.memory_bytes, finetuning.memory_bytes);
      row.disk_bytes += row.cells * finetuning.disk_bytes;
    }
    rows_.push_back({&first, steps});
    plan_.rows.push_back(std::move(row));
  }

  // Once all rows are there.
  void Measure() {
    std::map<std::string, size_t> quickest;  // row of each model that has something left to do
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i].steps == 0) continue;
      const auto known = quickest.emplace(ModelOf(i), i).first;
      if (plan_.rows[i].step_multiplications < plan_.rows[known->second].step_multiplications) known->second = i;
    }
    for (const auto& [model, i] : quickest) {
      const std::optional<double> rate = MeasureRate(rows_[i].first->pretraining, signals_);
      if (rate) plan_.rates[model] = *rate;
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      const auto rate = plan_.rates.find(ModelOf(i));
      if (rows_[i].steps == 0 || rate == plan_.rates.end()) continue;
      RowPlan& row = plan_.rows[i];
      row.step_seconds = static_cast<double>(row.step_multiplications) / rate->second;
      row.seconds = rows_[i].steps * *row.step_seconds;
    }
  }

 private:
  struct Row {
    const Cell* first;
    double steps;  // that are left, or take as long as what is left
  };

  const std::string& ModelOf(size_t row) const { return rows_[row].first->pretraining.model.name; }

  const FinetuningPlan& FinetuningOf(const Cell& cell, const StepCost& step) {
    const std::string& model = cell.pretraining.model.name;
    if (const auto known = finetunings_.find(model); known != finetunings_.end()) return known->second;
    FinetuningPlan& plan = finetunings_[model];
    for (const CellFinetuning& finetuning : cell.finetunings) {
      const std::optional<FinetuningCost> cost = CostOfFinetuning(cell, finetuning);
      if (!cost) {
        plan_.not_finetuned.push_back(finetuning.tasks);
        continue;
      }
      plan.steps += cost->multiplications / static_cast<double>(step.step_multiplications);
      plan.memory_bytes = std::max(plan.memory_bytes, cost->step.total_bytes);
      TrainingConfig config = cell.pretraining;
      config.optimization.steps = cost->steps;
      plan.disk_bytes += DiskOfRun(config, cost->step);
    }
    return plan;
  }

  const StopSignals& signals_;
  Plan& plan_;
  std::vector<Row> rows_;  // as those of the plan
  std::map<std::string, FinetuningPlan> finetunings_;
};

int64_t SumOf(const Plan& plan, int64_t RowPlan::*member) {
  int64_t sum = 0;
  for (const RowPlan& row : plan.rows) sum += row.*member;
  return sum;
}

}  // namespace

int64_t Plan::cells() const { return SumOf(*this, &RowPlan::cells); }
int64_t Plan::finished() const { return SumOf(*this, &RowPlan::finished); }
int64_t Plan::disk_bytes() const { return SumOf(*this, &RowPlan::disk_bytes); }
int64_t Plan::memory_bytes() const {
  int64_t most = 0;
  for (const RowPlan& row : rows) most = std::max(most, row.memory_bytes);
  return most;
}
std::optional<double> Plan::seconds() const {
  double sum = 0;
  for (const RowPlan& row : rows) {
    if (!row.step_seconds && row.finished < row.cells) return std::nullopt;
    sum += row.seconds;
  }
  return sum;
}

Plan MakePlan(const std::vector<Cell>& cells, const StopSignals& signals) {
  CheckConfigurations(cells);
  CheckData(cells);
  Plan plan;
  Planner planner(signals, &plan);
  std::vector<std::string> names;
  std::map<std::string, std::vector<const Cell*>> by_name;
  for (const Cell& cell : cells) {
    if (by_name[cell.name].empty()) names.push_back(cell.name);
    by_name[cell.name].push_back(&cell);
  }
  for (const std::string& name : names) planner.Add(by_name[name]);
  planner.Measure();
  return plan;
}

std::string PlanSummary(const Plan& plan) {
  const int64_t finished = plan.finished(), cells = plan.cells();
  std::string text =
      StrCat(cells, cells == 1 ? " cell, " : " cells, ", finished, " finished, ", cells - finished, " to run");
  if (finished == cells) return text;
  const std::optional<double> seconds = plan.seconds();
  text += StrCat(": about ", seconds ? EstimateText(*seconds) : "an unknown time", " here on ", NumThreads(),
                 NumThreads() == 1 ? " thread" : " threads", ", one after the other; ", BytesText(plan.disk_bytes()),
                 " on disk, ", BytesText(plan.memory_bytes()), " of memory at most");
  if (!plan.not_finetuned.empty()) {
    text += StrCat("\nnot finetuned on ", Join(plan.not_finetuned, ", "),
                   ": no files of them; --task-data FOLDER says where they are");
  }
  return text;
}

void PrintPlan(const Plan& plan, bool as_json) {
  using P = const RowPlan&;
  const auto estimated = [](const auto& seconds) {
    return [=](P row) -> TableValue {
      const bool is_known = row.step_seconds.has_value();
      const std::string text = is_known ? EstimateText(seconds(row)) : "unknown";
      return {is_known ? Json(seconds(row)) : Json(), row.finished == row.cells ? "" : text};
    };
  };
  const Columns<RowPlan> columns = {
      {"row", "row", &RowPlan::name},
      {"cells", "cells", &RowPlan::cells},
      {"finished", "finished", &RowPlan::finished},
      {"begun", "begun", &RowPlan::begun},
      {"step_seconds", "a step here", estimated([](P row) { return *row.step_seconds; })},
      {"seconds", "time", estimated([](P row) { return row.seconds; })},
      {"memory_bytes", "memory", Shown(BytesText, &RowPlan::memory_bytes)},
      {"disk_bytes", "disk", Shown(BytesText, &RowPlan::disk_bytes)},
      {"parameters", "parameters", Shown(CountText, &RowPlan::parameters)},
      {"step_multiplications", "multiplications a step", Shown(CountText, &RowPlan::step_multiplications)}};
  if (as_json) {
    return PrintResult(
        Json::MakeObject({{"cells", plan.cells()},
                          {"finished", plan.finished()},
                          {"seconds", ToJson(plan.seconds())},
                          {"disk_bytes", plan.disk_bytes()},
                          {"memory_bytes", plan.memory_bytes()},
                          {"threads", NumThreads()},
                          {"multiplications_per_second", JsonForm<decltype(plan.rates)>::Write(plan.rates)},
                          {"rows", JsonOf(columns, plan.rows)}}));
  }
  std::string text = MarkdownTable(TextOf(columns, plan.rows));
  for (const auto& [model, rate] : plan.rates) {
    text += StrCat("\nTimes of ", model, " are multiplications at the rate of a few passes that were measured here, ",
                   FixedText(rate / 1e9, 0), " billion a second.\n");
  }
  PrintResult(StrCat(text, "\n", PlanSummary(plan), "\n"));
}

}  // namespace crosstalk
