#include "tools/lab/experiment/results.h"

#include <algorithm>
#include <map>
#include <utility>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/statistics.h"
#include "tools/cli/training.h"

namespace crosstalk {

namespace {

PairResult TestPair(const std::string& better, const std::string& worse, double strict_level, double sign,
                    const Scatter& scatter, const std::function<BySeed(const std::string& row)>& values) {
  PairResult pair = {.better = better, .worse = worse};
  pair.gains = PairedDifferences(values(better), values(worse));
  for (auto& [seed, gain] : pair.gains) gain *= sign;
  pair.mean = Summarise(ValuesOf(pair.gains)).mean;
  pair.at_95 = IntervalOfDifferences(pair.gains, scatter, kClaimLevel);
  pair.at_most = IntervalOfDifferences(pair.gains, scatter, strict_level);
  return pair;
}

// All pairs at 95 % each: a claim that is the conjunction of its pairs is wrongly confirmed no more often than its
// weakest pair. One pair of k is enough to refute it, so there the level is divided by k (Bonferroni).
Verdict VerdictOf(const std::vector<PairResult>& pairs) {
  const auto any = [&](const auto& condition) { return std::any_of(pairs.begin(), pairs.end(), condition); };
  if (pairs.empty() || any([](const PairResult& pair) { return pair.gains.empty(); })) return Verdict::kNotMeasured;
  if (any([](const PairResult& pair) { return pair.at_most && pair.at_most->high < 0; })) return Verdict::kDoesNotHold;
  const bool unconfirmed = any([](const PairResult& pair) { return !pair.at_95 || !(pair.at_95->low > 0); });
  return unconfirmed ? Verdict::kUndecided : Verdict::kHolds;
}

}  // namespace

std::string ClaimResult::VerdictText() const {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kDoesNotHold:
      return "does not hold";
    case Verdict::kUndecided:
      return StrCat("undecided at ", seeds, seeds == 1 ? " seed" : " seeds");
    case Verdict::kNotMeasured:
      break;
  }
  return "not measured";
}

ClaimResult TestClaim(const TableClaim& claim, const TableMeasure& measure,
                      const std::function<Scatter(const std::string& row)>& scatter,
                      const std::function<BySeed(const std::string& row)>& values) {
  ClaimResult result = {.claim = &claim, .measure = measure};
  const double strict_level = 1 - (1 - kClaimLevel) / static_cast<double>(claim.pairs.size());
  const double sign = LowerIsBetter(measure) ? -1 : 1;
  for (const std::vector<std::string>& pair : claim.pairs) {
    result.pairs.push_back(TestPair(pair[0], pair[1], strict_level, sign, scatter(pair[0]), values));
    const int64_t seeds = static_cast<int64_t>(result.pairs.back().gains.size());
    result.seeds = result.pairs.size() == 1 ? seeds : std::min(result.seeds, seeds);
  }
  result.verdict = VerdictOf(result.pairs);
  return result;
}

namespace {

// Seeds that a row has folders of, beside those that are asked for.
std::set<uint64_t> SeedsOf(const Experiment& experiment, size_t row) {
  std::set<uint64_t> seeds =
      SeedsIn(StrCat(experiment.cells, "/", experiment.table.CellName(experiment.table.rows[row])));
  seeds.insert(experiment.seeds.begin(), experiment.seeds.end());
  return seeds;
}

double InPercent(const std::string& measure, double value) {
  return crosstalk::DisplayOf({.name = measure, .value = value}).is_share ? 100 * value : value;
}

// The step at which the curve, straight between its points, first is at `value`; none where it never is. A curve that
// begins below has no point to come from: it was there by its first.
std::optional<double> StepBelow(const PretrainingRecord& record, double value) {
  const std::vector<double>&x = record.curve_steps, &y = record.curve;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!(y[i] <= value)) continue;
    return i == 0 ? x[0] : x[i] - (x[i] - x[i - 1]) * (value - y[i]) / (y[i - 1] - y[i]);
  }
  return std::nullopt;
}

void TakePretraining(const PretrainingRecord& record, const std::vector<TableMeasure>& measures, CellResult* result) {
  result->run = record;
  for (const TableMeasure& measure : measures) {
    if (!measure.curve_below) continue;
    if (const std::optional<double> step = StepBelow(record, *measure.curve_below))
      result->values[measure.name] = *step;
  }
  for (const auto& [measure, value] : record.values) result->values[measure] = InPercent(measure, value);
}

void TakeScores(const FinetuningRecord& record, const std::vector<TableMeasure>& measures, CellResult* result) {
  for (const TableMeasure& measure : measures) {
    const auto task = record.scores.find(measure.task);
    if (task == record.scores.end()) continue;
    const auto value = task->second.find(measure.of);
    if (value == task->second.end()) continue;
    const double best = measure.of == "score" ? 1 : FindTask(measure.task).best;
    result->values[measure.name] = 100 * value->second / best;
  }
}

// The tasks that the cells are finetuned on and that are no column of the table.
std::vector<TableMeasure> MoreMeasures(const Experiment& experiment) {
  std::vector<TableMeasure> measures = experiment.table.measures;
  for (const CellFinetuning& finetuning : experiment.finetunings) {
    for (const std::string& task : Split(finetuning.tasks, ',')) {
      const bool there =
          std::any_of(measures.begin(), measures.end(), [&](const TableMeasure& one) { return one.task == task; });
      if (!there)
        measures.push_back({.name = task, .label = task, .task = task, .of = "score", .mean_of = {}, .digits = 2});
    }
  }
  return measures;
}

// "step 40 of 100", "not begun", …
std::string StateOf(const Cell& cell) {
  if (const std::string failure = FailureOf(cell); !failure.empty()) return "failed, " + failure;
  if (!RunFolder(cell.PretrainingFolder()).HoldsRun()) return "not begun";
  return StrCat("not finished: step ", StepOf(cell), " of ", cell.pretraining.optimization.steps);
}

class Collector {
 public:
  Collector(const Experiment& experiment, TableResult* result) : experiment_(experiment), result_(*result) {}

  void Collect(size_t index, RowResult* row) {
    std::vector<double> step_times;
    for (const uint64_t seed : SeedsOf(experiment_, index)) {
      std::optional<CellResult> read = Read(experiment_.CellOf(index, seed));
      if (!read) continue;
      row->model_parameters = read->run.parameters;
      if (read->run.step_seconds) step_times.push_back(*read->run.step_seconds);
      row->cells.push_back(std::move(*read));
    }
    row->step_time = MedianOfKnown(std::move(step_times));
  }

 private:
  void Miss(const Cell& cell, const std::string& reason) { result_.missing.push_back({cell.Title(), reason}); }
  void MissUnreadable(const Cell& cell, const std::string& what) {
    result_.missing.push_back({.title = cell.Title(), .reason = what, .unreadable = true});
  }

  std::optional<CellResult> Read(const Cell& cell) {
    CellResult result = {.seed = cell.pretraining.optimization.seed};
    try {
      const std::optional<CellRecord> kept = KeptRecord(cell);
      if (!kept && !IsFinished(cell.PretrainingFolder(), false)) {
        Miss(cell, StateOf(cell));
        return std::nullopt;
      }
      if (const std::string why = WhyAnother(cell); !why.empty()) {
        Miss(cell, "not counted: it is a run of another configuration: " + why);
        return std::nullopt;
      }
      const PretrainingRecord pretraining = kept ? kept->pretraining : ReadPretraining(cell.PretrainingFolder());
      if (!NoteRun(cell, pretraining)) return std::nullopt;
      TakePretraining(pretraining, result_.measures, &result);
      for (const CellFinetuning& finetuning : cell.finetunings) {
        try {
          CollectFinetuning(cell, kept, pretraining, finetuning, &result);
        } catch (const Error& error) {
          MissUnreadable(cell, StrCat(finetuning.tasks, ": cannot be read: ", error.what()));
        }
      }
    } catch (const Error& error) {
      MissUnreadable(cell, StrCat("cannot be read: ", error.what()));
      return std::nullopt;
    }
    return result;
  }

  void CollectFinetuning(const Cell& cell, const std::optional<CellRecord>& kept, const PretrainingRecord& pretraining,
                         const CellFinetuning& finetuning, CellResult* result) {
    const bool is_kept = kept && kept->finetunings.count(finetuning.tasks) > 0;
    if (!is_kept && !IsFinished(cell.FinetuningFolder(finetuning), true)) {
      Miss(cell, StrCat(finetuning.tasks, ": ", WhyNotFinetuned(cell, finetuning)));
      return;
    }
    if (const std::string why = WhyAnother(cell, finetuning); !why.empty()) {
      Miss(cell, StrCat(finetuning.tasks, ": not counted: it is a run of another configuration: ", why));
      return;
    }
    const FinetuningRecord record =
        is_kept ? kept->finetunings.at(finetuning.tasks) : ReadFinetuning(cell, finetuning, pretraining);
    if (IsOfTheSameText(record.data_fingerprint, &task_fingerprints_[finetuning.tasks])) {
      TakeScores(record, result_.measures, result);
    } else {
      Miss(cell, StrCat(finetuning.tasks, ": not counted: it learned from other files than the first"));
    }
  }

  static std::string WhyNotFinetuned(const Cell& cell, const CellFinetuning& finetuning) {
    if (const std::string failure = FailureOf(cell); !failure.empty()) return "failed, " + failure;
    if (RunFolder(cell.FinetuningFolder(finetuning)).HoldsRun()) return "finetuning is not finished";
    if (IsFinished(cell.PretrainingFolder(), false)) return "not finetuned on";
    return "not finetuned on, and the weights to begin with are not there: the cell has to be pretrained again";
  }

  // Whether it is the first of its kind, or has the fingerprint of the first.
  static bool IsOfTheSameText(const std::string& fingerprint, std::string* first) {
    if (first->empty()) *first = fingerprint;
    return fingerprint == *first;
  }

  // Notes the run's machine and text: runs on another than the table's first are not counted.
  bool NoteRun(const Cell& cell, const PretrainingRecord& record) {
    if (!IsOfTheSameText(record.data_fingerprint, &fingerprints_[TextOf(cell.pretraining)])) {
      Miss(cell, "not counted: it was trained on other text than the first");
      return false;
    }
    result_.data.insert(record.data);
    result_.versions.insert(record.versions.begin(), record.versions.end());
    result_.processors.insert(record.processors.begin(), record.processors.end());
    return true;
  }

  const Experiment& experiment_;
  TableResult& result_;
  std::map<std::string, std::string> fingerprints_;       // of the first pretraining, by its text
  std::map<std::string, std::string> task_fingerprints_;  // of the first finetuning, by its tasks
};

}  // namespace

BySeed RowResult::ValuesOf(const TableMeasure& measure) const {
  BySeed values;
  for (const CellResult& cell : cells) {
    double sum = 0;
    size_t parts = 0;
    for (const std::string& part : measure.mean_of.empty() ? std::vector<std::string>{measure.name} : measure.mean_of) {
      const auto found = cell.values.find(part);
      if (found == cell.values.end()) break;
      sum += found->second;
      ++parts;
    }
    const size_t wanted = std::max<size_t>(1, measure.mean_of.size());
    if (parts == wanted) values[cell.seed] = sum / static_cast<double>(wanted);
  }
  return values;
}

bool TableResult::IsMeasured(const TableMeasure& measure) const {
  return std::any_of(rows.begin(), rows.end(), [&](const RowResult& row) { return !row.ValuesOf(measure).empty(); });
}

Scatter TableResult::ScatterOf(const TableMeasure& measure, const std::string& group) const {
  std::vector<BySeed> values;
  for (const RowResult& row : rows) {
    if (row.row->group == group) values.push_back(row.ValuesOf(measure));
  }
  return crosstalk::ScatterOf(values);
}

int64_t TableResult::MostSeeds() const {
  size_t most = 0;
  for (const RowResult& row : rows) most = std::max(most, row.cells.size());
  return static_cast<int64_t>(most);
}

namespace {

std::optional<int64_t> Shared(const std::vector<RowResult>& rows, int64_t RowResult::*of) {
  const auto as_first = [&](const RowResult& row) { return row.*of == rows[0].*of; };
  return std::all_of(rows.begin(), rows.end(), as_first) ? std::optional<int64_t>(rows.at(0).*of) : std::nullopt;
}

// All that the cells have measured at their ends, ln(PPL) first.
std::vector<TableMeasure> MeasuresFound(const std::vector<RowResult>& rows) {
  std::set<std::string> names;
  for (const RowResult& row : rows) {
    for (const CellResult& cell : row.cells) {
      for (const auto& [name, value] : cell.values) names.insert(name);
    }
  }
  std::vector<TableMeasure> measures;
  for (const std::string& name : names) measures.push_back(MeasureOfMetric(name));
  std::stable_partition(measures.begin(), measures.end(), [](const auto& one) { return one.name == "ln_ppl"; });
  return measures;
}

}  // namespace

std::optional<int64_t> TableResult::Length() const { return Shared(rows, &RowResult::length); }
std::optional<int64_t> TableResult::Steps() const { return Shared(rows, &RowResult::steps); }

void KeepRecords(const Experiment& experiment) {
  for (size_t row = 0; row < experiment.configs.size(); ++row) {
    for (const uint64_t seed : SeedsOf(experiment, row)) KeepRecord(experiment.CellOf(row, seed));
  }
}

namespace {

// The value of a field of a configuration; 0 of one that is not a number.
double NumberAt(const TrainingConfig& config, const std::string& key) {
  const Json json = ToJson(config);
  const Json* const value = json.Find(key);
  return value != nullptr && value->is_number() ? value->AsDouble() : 0;
}

}  // namespace

TableResult CollectTable(const Experiment& experiment) {
  const Table& table = experiment.table;
  TableResult result;
  result.experiment = &experiment;
  result.table = &table;
  result.measures = MoreMeasures(experiment);
  Collector collector(experiment, &result);
  for (size_t i = 0; i < experiment.configs.size(); ++i) {
    const TrainingConfig& config = experiment.configs[i];
    RowResult row = {.row = &table.rows[i], .layer = LayerOfRow(config)};
    row.over = NumberAt(config, table.over);
    row.length = config.objective.input_length;
    row.steps = config.optimization.steps;
    row.cost = CostOf(row.layer, row.length, row.length);
    collector.Collect(i, &row);
    result.rows.push_back(std::move(row));
  }
  if (table.measures.empty()) result.measures = MeasuresFound(result.rows);
  const auto row_of = [&](const std::string& name) {
    return *std::find_if(result.rows.begin(), result.rows.end(),
                         [&](const RowResult& row) { return row.row->name == name; });
  };
  for (const TableClaim& claim : table.claims) {
    for (const TableMeasure& measure : table.measures) {
      if (std::find(claim.measures.begin(), claim.measures.end(), measure.name) == claim.measures.end()) continue;
      result.claims.push_back(TestClaim(
          claim, measure, [&](const std::string& name) { return result.ScatterOf(measure, row_of(name).row->group); },
          [&](const std::string& name) { return row_of(name).ValuesOf(measure); }));
    }
  }
  return result;
}

}  // namespace crosstalk
