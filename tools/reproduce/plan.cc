#include "tools/reproduce/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "crosstalk/models/training/checkpoint.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/text.h"
#include "tools/format.h"
#include "tools/reproduce/step_time.h"

namespace crosstalk {

namespace {

int64_t StepsDone(const Cell& cell) {
  if (IsFinished(cell) || IsFinished(cell.PretrainingFolder(), false)) return cell.pretraining.steps;
  const std::vector<int64_t> steps = CheckpointStore(RunFolder(cell.PretrainingFolder()).CheckpointDirectory()).Steps();
  return steps.empty() ? 0 : std::min(steps.back(), cell.pretraining.steps);
}

// Calls check(), but for what a damaged file of the cell says: that is the cell's own failure, and stops no other.
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
    for (const ScaleFinetuning& one : cell.finetunings) {
      UnlessDamaged([&] { check(cell.FinetuningFolder(one), WhyAnother(cell, one)); });
    }
  }
}

// The text of the cells that are there must be that of the cells to come, for seeds are compared.
void CheckData(const std::vector<Cell>& cells) {
  std::map<std::string, std::string> fingerprints;  // by model
  for (const Cell& cell : cells) {
    if (fingerprints.count(cell.pretraining.model) == 0) {
      fingerprints[cell.pretraining.model] = CheckTrainingData(*ResolvedConfig(cell.pretraining)).fingerprint;
    }
    UnlessDamaged([&] {
      const std::optional<std::string> there = DataFingerprintOf(cell);
      CROSSTALK_CHECK(!there || *there == fingerprints[cell.pretraining.model], cell.PretrainingFolder(),
                      ": was trained on other text; choose another --out, or the same --data");
    });
  }
}

// The time of a model's finetunings, measured on one of its rows.
struct FinetuningPlan {
  double seconds = 0, per_step_second = 0;  // the second: of a second that a pretraining step takes
  int64_t memory_bytes = 0, disk_bytes = 0;
};

class Planner {
 public:
  Planner(const StopSignals& signals, Plan* plan) : signals_(signals), plan_(*plan) {}

  void Add(const std::vector<const Cell*>& cells) {
    const Cell& first = *cells[0];
    RowPlan row = {.name = first.name, .cells = static_cast<int64_t>(cells.size()), .batch = first.pretraining.batch};
    row.layers = first.pretraining.layers;
    int64_t to_finetune = 0;
    for (const Cell* cell : cells) {
      const int64_t done = StepsDone(*cell);
      row.finished += IsFinished(*cell) ? 1 : 0;
      row.begun += !IsFinished(*cell) && done > 0 ? 1 : 0;
      row.steps_left += cell->pretraining.steps - done;
      to_finetune += IsFinished(*cell) ? 0 : 1;
    }
    const ResolvedConfig config(first.pretraining);
    const StepCost cost = CostOfStep(first.pretraining);
    row.parameters = cost.parameters;
    row.step_multiplications = cost.step_multiplications;
    row.memory_bytes = cost.total_bytes;
    row.disk_bytes = row.cells * DiskOfRun(*config, cost);
    if (row.finished < row.cells) {
      if (const std::optional<StepTime> time =
              UnlessItDiverges(first.name, [&] { return MeasureStep(first.pretraining, cost, signals_); })) {
        row.step_seconds = time->seconds;
        row.measured_examples = time->examples;
        row.measured_layers = time->layers;
        const FinetuningPlan& finetuning = FinetuningOf(first, time->seconds);
        // A held-out batch is the forward third of a step.
        const double evaluations =
            static_cast<double>(EvaluationsOf(*config) * config->eval_batches) / 3 / static_cast<double>(config->steps);
        row.seconds = time->seconds * (static_cast<double>(row.steps_left) * (1 + evaluations) +
                                       finetuning.per_step_second * static_cast<double>(to_finetune));
        row.memory_bytes = std::max(row.memory_bytes, finetuning.memory_bytes);
        row.disk_bytes += row.cells * finetuning.disk_bytes;
      }
    }
    plan_.rows.push_back(std::move(row));
  }

 private:
  // Steps that are not finite here may be so in the cell too, which fails then and stops no other.
  template <typename Measure>
  auto UnlessItDiverges(const std::string& what, Measure measure) -> decltype(measure()) {
    try {
      return measure();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNumerical) throw;
      plan_.diverging.push_back(StrCat(what, ": ", error.what()));
      return std::nullopt;
    }
  }

  const FinetuningPlan& FinetuningOf(const Cell& cell, double step_seconds) {
    const std::string& model = cell.pretraining.model;
    if (const auto known = finetunings_.find(model); known != finetunings_.end()) return known->second;
    FinetuningPlan& plan = finetunings_[model];
    for (const ScaleFinetuning& finetuning : cell.finetunings) {
      if (!TaskFolderOf(cell, finetuning)) {
        plan_.not_finetuned.push_back(finetuning.tasks);
        continue;
      }
      const std::optional<FinetuningTime> time = UnlessItDiverges(
          StrCat(cell.name, " on ", finetuning.tasks), [&] { return MeasureFinetuning(cell, finetuning, signals_); });
      if (!time) continue;
      plan.seconds += time->seconds;
      plan.memory_bytes = std::max(plan.memory_bytes, time->cost.total_bytes);
      TrainingConfig config = cell.pretraining;
      config.steps = time->steps;
      plan.disk_bytes += DiskOfRun(config, time->cost);
    }
    plan.per_step_second = plan.seconds / step_seconds;
    return plan;
  }

  const StopSignals& signals_;
  Plan& plan_;
  std::map<std::string, FinetuningPlan> finetunings_;
};

// "8.3 ms", "2,133 s".
std::string StepText(double seconds) {
  return seconds < 10 ? FixedText(1000 * seconds, 1) + " ms" : CountText(std::llround(seconds)) + " s";
}

// ", from 1 of 256 examples in 1 of 12 layers" of what was measured in part.
std::string PartText(const RowPlan& row) {
  std::string text;
  if (row.measured_examples < row.batch)
    text = StrCat(", from ", row.measured_examples, " of ", row.batch, " examples");
  if (row.measured_layers < row.layers) text += StrCat(" in ", row.measured_layers, " of ", row.layers, " layers");
  return text;
}

// The published sizes take years here.
std::string LongDurationText(double seconds) {
  constexpr double kDay = 86400, kYear = 365 * kDay;
  if (seconds < 3 * kDay) return DurationText(seconds);
  return seconds < kYear ? StrCat(std::llround(seconds / kDay), " days") : FixedText(seconds / kYear, 1) + " years";
}

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
  return plan;
}

std::string PlanSummary(const Plan& plan) {
  const int64_t finished = plan.finished(), cells = plan.cells();
  std::string text =
      StrCat(cells, cells == 1 ? " cell, " : " cells, ", finished, " finished, ", cells - finished, " to run");
  if (finished == cells) return text;
  const std::optional<double> seconds = plan.seconds();
  text += StrCat(": about ", seconds ? LongDurationText(*seconds) : "an unknown time", " here on ", NumThreads(),
                 NumThreads() == 1 ? " thread" : " threads", ", one after the other; ", BytesText(plan.disk_bytes()),
                 " on disk, ", BytesText(plan.memory_bytes()), " of memory at most");
  if (!plan.not_finetuned.empty()) {
    text += StrCat("\nnot finetuned on ", Join(plan.not_finetuned, ", "),
                   ": no files of them; --task-data FOLDER says where they are");
  }
  for (const std::string& one : plan.diverging) text += "\nnot measured: " + one;
  return text;
}

std::string PlanText(const Plan& plan) {
  std::string text =
      "| row | cells | finished | begun | a step here | time | memory | disk | parameters | multiplications a step |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  bool scaled = false;
  for (const RowPlan& row : plan.rows) {
    const bool done = row.finished == row.cells, part = row.step_seconds && !PartText(row).empty();
    scaled = scaled || part;
    text += StrCat("| ", row.name, " | ", row.cells, " | ", row.finished, " | ", row.begun, " | ",
                   row.step_seconds ? StepText(*row.step_seconds)
                   : done           ? ""
                                    : "unknown",
                   part ? PartText(row) : "", " | ",
                   done               ? ""
                   : row.step_seconds ? LongDurationText(row.seconds)
                                      : "unknown",
                   " | ", BytesText(row.memory_bytes), " | ", BytesText(row.disk_bytes), " | ",
                   CountText(row.parameters), " | ", CountText(row.step_multiplications), " |\n");
  }
  if (scaled) {
    text +=
        "\nWhere a part of a step was measured, its time is scaled up by the multiplications, the optimizer's too: "
        "rather "
        "too long.\n";
  }
  return StrCat(text, "\n", PlanSummary(plan), "\n");
}

Json ToJson(const Plan& plan) {
  Json rows = Json::MakeArray();
  for (const RowPlan& row : plan.rows) {
    rows.Append(Json::MakeObject({{"row", row.name},
                                  {"cells", row.cells},
                                  {"finished", row.finished},
                                  {"begun", row.begun},
                                  {"step_seconds", row.step_seconds ? Json(*row.step_seconds) : Json()},
                                  {"measured_examples", row.measured_examples},
                                  {"batch", row.batch},
                                  {"measured_layers", row.measured_layers},
                                  {"layers", row.layers},
                                  {"seconds", row.step_seconds ? Json(row.seconds) : Json()},
                                  {"memory_bytes", row.memory_bytes},
                                  {"disk_bytes", row.disk_bytes},
                                  {"parameters", row.parameters},
                                  {"step_multiplications", row.step_multiplications}}));
  }
  const std::optional<double> seconds = plan.seconds();
  return Json::MakeObject({{"cells", plan.cells()},
                           {"finished", plan.finished()},
                           {"seconds", seconds ? Json(*seconds) : Json()},
                           {"disk_bytes", plan.disk_bytes()},
                           {"memory_bytes", plan.memory_bytes()},
                           {"threads", NumThreads()},
                           {"rows", rows}});
}

}  // namespace crosstalk
