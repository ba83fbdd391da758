#include "tools/lab/experiment/driver.h"

#include <set>
#include <string>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/format.h"
#include "tools/cli/output.h"
#include "tools/lab/experiment/results.h"
#include "tools/lab/experiment/results_page.h"
#include "tools/lab/experiment/results_text.h"
#include "tools/lab/experiment/status.h"

namespace crosstalk {

int64_t WriteTables(const std::vector<Experiment>& experiments, bool json) {
  Json all = Json::MakeArray();
  std::string text;
  std::set<std::string> unreadable;  // which several tables may share
  for (const Experiment& experiment : experiments) {
    KeepRecords(experiment);
    const TableResult result = CollectTable(experiment);
    for (const MissingCell& cell : result.missing) {
      if (cell.unreadable) unreadable.insert(cell.title);
    }
    const std::string& folder = experiment.out;
    CreateOutFolder(folder);
    const Json of_table = ToJson(result);
    const std::string markdown = Markdown(result);
    WriteFileAtomically(folder + "/table.md", markdown);
    WriteFileAtomically(folder + "/table.csv", Csv(result));
    WriteFileAtomically(folder + "/curves.csv", CurvesCsv(result));
    WriteFileAtomically(folder + "/table.json", of_table.DumpPretty());
    WriteFileAtomically(folder + "/report.html", ResultsPage(result));
    const std::string figure = ResultsFigure(result);
    const std::string figure_file = folder + "/figure.svg";
    if (!figure.empty()) {
      WriteFileAtomically(figure_file, figure);
    } else if (KindOf(figure_file) == PathKind::kFile) {
      RemoveAtomically(figure_file);  // of cells that are gone
    }
    text += (text.empty() ? "" : "\n") + markdown;
    all.Append(of_table);
    PrintMessage(experiment.table.Label(), ": ", folder, "/table.md, table.csv, curves.csv, table.json, report.html",
                 figure.empty() ? "" : ", figure.svg");
  }
  if (json) {
    PrintResult(all.AsArray().size() == 1 ? all.AsArray()[0] : Json::MakeObject({{"tables", all}}));
  } else {
    PrintResult(text);
  }
  const size_t count = unreadable.size();
  if (count > 0) {
    PrintMessage(count, count == 1 ? " cell cannot be read: " : " cells cannot be read: ",
                 Join({unreadable.begin(), unreadable.end()}, "; "), "; the table says why under Missing");
  }
  return static_cast<int64_t>(count);
}

int RunCells(const std::vector<Experiment>& experiments, const std::vector<Cell>& cells, bool json,
             const StopSignals& signals, RankGroup* ranks) {
  for (const Experiment& experiment : experiments) CreateOutFolder(experiment.out);  // before what takes long
  std::vector<std::string> failed, locked;
  bool stopped = false;
  for (size_t i = 0; i < cells.size() && !stopped; ++i) {
    const Cell& cell = cells[i];
    if (IsFinished(cell)) continue;
    PrintMessage(Bold(StrCat("[", i + 1, "/", cells.size(), "] ", cell.Title())));
    switch (RunCell(cell, signals, ranks)) {
      case CellEnd::kFinished:
        break;
      case CellEnd::kStopped:
        stopped = true;
        break;
      case CellEnd::kFailed:
        failed.push_back(cell.Title());
        break;
      case CellEnd::kLocked:
        locked.push_back(cell.Title());
    }
    if (!stopped && cells.size() > 1) PrintMessage(StatusSummary(StatusOf(cells), 1));
  }
  WriteTables(experiments, json);
  if (stopped) {
    PrintMessage("interrupted; the same command resumes");
    return 128 + signals.Received();
  }
  if (!locked.empty()) PrintMessage("computed by other processes, and not waited for: ", Join(locked, "; "));
  if (!failed.empty()) {
    PrintMessage("failed: ", Join(failed, "; "), "; the same command tries them again");
    return static_cast<int>(ErrorKind::kFailure);
  }
  return 0;
}

void PrintStatus(const std::vector<Cell>& cells, bool json) {
  const Status status = StatusOf(cells);
  if (json) {
    PrintResult(ToJson(status));
  } else {
    PrintResult(StatusText(status));
  }
}

void PrintPlan(const Plan& plan, bool json) {
  if (json) {
    PrintResult(ToJson(plan));
  } else {
    PrintResult(PlanText(plan));
  }
}

}  // namespace crosstalk
