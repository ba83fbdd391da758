#include "tools/experiment/results.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/experiment/cell_record.h"
#include "tools/run_metrics.h"

namespace crosstalk {

namespace {

// Seeds that a row has folders of, beside those that are asked for.
std::set<int64_t> SeedsOf(const std::string& row_folder, int64_t asked_for) {
  std::set<int64_t> seeds;
  for (int64_t seed = 1; seed <= asked_for; ++seed) seeds.insert(seed);
  if (!Exists(row_folder)) return seeds;
  for (const std::string& name : ListDirectory(row_folder)) {
    if (!name.starts_with("seed-")) continue;
    int64_t seed = 0;
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + 5, end, seed);
    if (error == std::errc() && stop == end && seed >= 0) seeds.insert(seed);
  }
  return seeds;
}

double InPercent(const std::string& measure, double value) {
  return DisplayOf({.name = measure, .value = value}).is_share ? 100 * value : value;
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
  for (const TableMeasure& measure : measures) {
    if (!measure.curve_below) continue;
    if (const std::optional<double> step = StepBelow(record, *measure.curve_below))
      result->values[measure.name] = *step;
  }
  for (const auto& [measure, value] : record.values) result->values[measure] = InPercent(measure, value);
  result->curve_steps = record.curve_steps;
  result->curve = record.curve;
  result->step_seconds = record.step_seconds;
  result->model_parameters = record.parameters;
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

// The tasks that the scale finetunes on and that are no column of the paper's table.
std::vector<TableMeasure> MoreMeasures(const Scale& scale, const Table& table) {
  std::vector<TableMeasure> measures = table.measures;
  for (const ScaleFinetuning& finetuning : scale.models.at(table.model).finetunings) {
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
  Collector(const Scale& scale, const Table& table, const CellsOptions& options, TableResult* result)
      : scale_(scale), table_(table), options_(options), result_(*result) {}

  void Collect(RowResult* row, const TrainingConfig& config, int64_t seeds) {
    const std::string folder = options_.folder + "/" + table_.CellName(*row->row);
    std::vector<double> step_times;
    for (const int64_t seed : SeedsOf(folder, seeds)) {
      std::optional<CellResult> read = Read(MakeCell(scale_, table_, *row->row, config, seed, options_));
      if (!read) continue;
      row->model_parameters = read->model_parameters;
      if (read->step_seconds) step_times.push_back(*read->step_seconds);
      row->cells.push_back(std::move(*read));
    }
    row->step_time = MedianOfKnown(std::move(step_times));
  }

 private:
  void Miss(const Cell& cell, const std::string& reason) { result_.missing.push_back({cell.Title(), reason}); }

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
      for (const ScaleFinetuning& finetuning : cell.finetunings) {
        try {
          CollectFinetuning(cell, kept, finetuning, &result);
        } catch (const Error& error) {
          Miss(cell, StrCat(finetuning.tasks, ": cannot be read: ", error.what()));
        }
      }
    } catch (const Error& error) {
      Miss(cell, StrCat("cannot be read: ", error.what()));
      return std::nullopt;
    }
    return result;
  }

  void CollectFinetuning(const Cell& cell, const std::optional<CellRecord>& kept, const ScaleFinetuning& finetuning,
                         CellResult* result) {
    const bool is_kept = kept && kept->finetunings.count(finetuning.tasks) > 0;
    if (!is_kept && !IsFinished(cell.FinetuningFolder(finetuning), true)) {
      Miss(cell, StrCat(finetuning.tasks, ": ", WhyNotFinetuned(cell, finetuning)));
      return;
    }
    if (const std::string why = WhyAnother(cell, finetuning); !why.empty()) {
      Miss(cell, StrCat(finetuning.tasks, ": not counted: it is a run of another configuration: ", why));
      return;
    }
    const FinetuningRecord record = is_kept ? kept->finetunings.at(finetuning.tasks) : ReadFinetuning(cell, finetuning);
    if (IsOfTheSameText(record.data_fingerprint, &task_fingerprints_[finetuning.tasks])) {
      TakeScores(record, result_.measures, result);
    } else {
      Miss(cell, StrCat(finetuning.tasks, ": not counted: it learned from other files than the first"));
    }
  }

  static std::string WhyNotFinetuned(const Cell& cell, const ScaleFinetuning& finetuning) {
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

  // What computed the run, and on which text: runs on another than the table's first are not counted.
  bool NoteRun(const Cell& cell, const PretrainingRecord& record) {
    if (!IsOfTheSameText(record.data_fingerprint, &fingerprint_)) {
      Miss(cell, "not counted: it was trained on other text than the first");
      return false;
    }
    result_.data.insert(record.data);
    result_.simd_bits.insert(record.simd_bits);
    result_.versions.insert(record.versions.begin(), record.versions.end());
    result_.processors.insert(record.processors.begin(), record.processors.end());
    return true;
  }

  const Scale& scale_;
  const Table& table_;
  const CellsOptions& options_;
  TableResult& result_;
  std::string fingerprint_;                               // of the first pretraining
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

void KeepRecords(const Scale& scale, const Table& table, int64_t seeds, const CellsOptions& options) {
  const std::vector<TrainingConfig> configs = ConfigsOfRows(scale, table);
  for (size_t i = 0; i < configs.size(); ++i) {
    const std::string folder = options.folder + "/" + table.CellName(table.rows[i]);
    for (const int64_t seed : SeedsOf(folder, seeds)) {
      KeepRecord(MakeCell(scale, table, table.rows[i], configs[i], seed, options));
    }
  }
}

TableResult CollectTable(const Scale& scale, const Table& table, int64_t seeds, const CellsOptions& options) {
  TableResult result;
  result.table = &table;
  result.scale = scale.name;
  result.scale_about = scale.about;
  result.scale_fingerprint = scale.fingerprint;
  const std::vector<TrainingConfig> configs = ConfigsOfRows(scale, table);
  result.length = configs[0].objective.input_length;
  result.steps = configs[0].optimization.steps;
  result.measures = MoreMeasures(scale, table);
  Collector collector(scale, table, options, &result);
  for (size_t i = 0; i < configs.size(); ++i) {
    RowResult row;
    row.row = &table.rows[i];
    row.layer = LayerOfRow(configs[i]);
    row.cost = CostOf(row.layer, result.length, result.length);
    collector.Collect(&row, configs[i], seeds);
    result.rows.push_back(std::move(row));
  }
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
