#include <algorithm>
#include <map>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/output.h"
#include "tools/cli/statistics.h"
#include "tools/lab/experiment/driver.h"
#include "tools/lab/experiment/plan.h"

namespace crosstalk {

namespace {

using State = CellStatus::State;

std::string FailureText(const Cell& cell) {
  try {
    return FailureOf(cell);
  } catch (const Error& error) {
    return error.what();
  }
}

CellStatus StatusOf(const Cell& cell) {
  CellStatus status = {.cell = cell.Title(),
                       .holder = {},
                       .reason = {},
                       .steps = cell.pretraining.optimization.steps,
                       .seconds_left = {}};
  try {
    KeptRecord(cell);  // a damaged one says why
    if (const std::string why = WhyAnother(cell); !why.empty()) {
      status.state = State::kAnother;
      status.reason = why;
      return status;
    }
    if (IsFinished(cell)) {
      status.state = State::kFinished;
      status.step = status.steps;
      return status;
    }
    if (const std::optional<std::string> holder = RunLock::HolderOf(cell.folder)) {
      status.state = State::kRunning;
      status.holder = *holder;
    } else if (const std::string failure = FailureText(cell); !failure.empty()) {
      status.state = State::kFailed;
      status.reason = failure;
    } else if (RunFolder(cell.PretrainingFolder()).HoldsRun()) {
      status.state = State::kBegun;
    }
    status.step = StepOf(cell);
  } catch (const Error& error) {
    status.state = State::kFailed;
    status.reason = error.what();
  }
  return status;
}

// Seconds that a multiplication of a model's step takes where its finished cells were computed.
class Rates {
 public:
  explicit Rates(const std::vector<Cell>& cells) {
    std::map<std::string, std::vector<double>> known;
    for (const Cell& cell : cells) {
      try {
        const std::optional<CellRecord> record = KeptRecord(cell);
        if (!record || !record->pretraining.step_seconds) continue;
        known[cell.pretraining.model.name].push_back(*record->pretraining.step_seconds / MultiplicationsOf(cell));
      } catch (const Error&) {
        continue;  // its status says why
      }
    }
    for (const auto& [model, rates] : known) {
      if (const std::optional<double> median = MedianOfKnown(rates)) seconds_[model] = *median;
    }
  }

  std::optional<double> SecondsLeft(const Cell& cell, const CellStatus& status) {
    if (status.state == State::kFinished) return 0;
    const auto rate = seconds_.find(cell.pretraining.model.name);
    if (rate == seconds_.end()) return std::nullopt;
    return static_cast<double>(status.steps - status.step) * (1 + EvaluationShare(cell.pretraining)) * rate->second *
           MultiplicationsOf(cell);
  }

 private:
  double MultiplicationsOf(const Cell& cell) {
    double& count = multiplications_[cell.name];
    if (count == 0) count = static_cast<double>(CostOfStep(cell.pretraining).step_multiplications);
    return count;
  }

  std::map<std::string, double> multiplications_;  // of a step, by the row
  std::map<std::string, double> seconds_;          // by model
};

}  // namespace

int64_t Status::CountOf(State state) const {
  return std::count_if(cells.begin(), cells.end(), [&](const CellStatus& one) { return one.state == state; });
}

std::optional<double> Status::SecondsLeft(int64_t more) const {
  double sum = 0;
  for (const CellStatus& cell : cells) {
    if (!cell.seconds_left) return std::nullopt;
    sum += *cell.seconds_left;
  }
  return sum / static_cast<double>(std::max<int64_t>(1, CountOf(State::kRunning) + more));
}

Status StatusOf(const std::vector<Cell>& cells) {
  Status status;
  Rates rates(cells);
  for (const Cell& cell : cells) {
    status.cells.push_back(StatusOf(cell));
    status.cells.back().seconds_left = rates.SecondsLeft(cell, status.cells.back());
  }
  return status;
}

std::string StatusSummary(const Status& status, int64_t more) {
  std::string text = StrCat(status.CountOf(State::kFinished), " of ", status.cells.size(),
                            status.cells.size() == 1 ? " cell finished" : " cells finished");
  for (const auto& one : EnumNames<State>::kTable) {
    const int64_t count = status.CountOf(one.value);
    if (one.value != State::kFinished && count > 0) text += StrCat(", ", count, " ", one.name);
  }
  const std::optional<double> seconds = status.SecondsLeft(more);
  if (seconds && *seconds > 0) text += StrCat("; about ", EstimateText(*seconds), " left");
  return text;
}

void PrintStatus(const std::vector<Cell>& cells, bool as_json) {
  using S = const CellStatus&;
  const Columns<CellStatus> columns = {
      {"cell", "cell", &CellStatus::cell},
      {"state", "state",
       [](S cell) {
         const std::string more = cell.holder + cell.reason;
         return TableValue(Name(cell.state), StrCat(Name(cell.state), more.empty() ? "" : ": ", more));
       }},
      {"holder", "", &CellStatus::holder},
      {"reason", "", &CellStatus::reason},
      {"step", "step", [](S cell) { return TableValue(cell.step, StrCat(cell.step, " of ", cell.steps)); }},
      {"steps", "", &CellStatus::steps},
      {"seconds_left", "left",
       Shown([](double seconds) { return seconds > 0 ? EstimateText(seconds) : ""; }, &CellStatus::seconds_left)}};
  const Status status = StatusOf(cells);
  if (as_json) {
    return PrintResult(Json::MakeObject({{"finished", status.CountOf(State::kFinished)},
                                         {"seconds_left", ToJson(status.SecondsLeft(0))},
                                         {"cells", JsonOf(columns, status.cells)}}));
  }
  PrintResult(StrCat(MarkdownTable(TextOf(columns, status.cells)), "\n", StatusSummary(status), "\n"));
}

}  // namespace crosstalk
