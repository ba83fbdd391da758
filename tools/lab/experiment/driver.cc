#include "tools/lab/experiment/driver.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/training.h"
#include "tools/lab/experiment/results.h"

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
    PrintPlace(i, cells.size(), cell.Title());
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

namespace {

// A double in as many digits as tell it from every other.
std::string ExactText(double value) { return Json(value).Dump(); }

class Comparison {
 public:
  void Texts(const std::string& of, const std::string& there, const std::string& here) {
    if (there != here) Differ(of, there, here);
  }
  // The members that are one value and are not marked as of no effect; none is as any, as of an earlier version.
  template <Record T>
  void Members(const std::string& of, const T& record_there, const T& record_here) {
    for (const Field<T>& field : TableOf<T>()) {
      if (field.type == FieldType::kObject || field.list || field.options.affects_result == AffectsResult::kNo)
        continue;
      const Json there = field.get(record_there), here = field.get(record_here);
      if (there.is_null() || here.is_null() || there == here) continue;
      const auto text = [](const Json& value) { return value.is_string() ? value.AsString() : value.Dump(); };
      Differ(of + (field.options.help.empty() ? field.key : field.options.help), text(there), text(here));
    }
  }
  // Paths stand in no record; how often a run is measured and saved only changes what of it is there.
  void Configurations(const std::string& of, const TrainingConfig& config_there, const TrainingConfig& config_here) {
    const TrainingConfig a = *ResolvedConfig(config_there), b = *ResolvedConfig(config_here);
    for (const Field<TrainingConfig>& field : TrainingFields()) {
      if (field.options.affects_result == AffectsResult::kNo && !field.options.is_path) continue;
      const Json here = field.get(b), there = field.get(a);
      if (here != there) Differ(of + field.key, Excerpt(there.Dump()), Excerpt(here.Dump()));
    }
    Texts(of + "eval_batches", StrCat(a.run.eval_batches), StrCat(b.run.eval_batches));
  }
  void Values(const std::string& of, const std::map<std::string, double>& there,
              const std::map<std::string, double>& here) {
    for (const auto& [name, value] : there) {
      const auto other = here.find(name);
      Texts(of + name, ExactText(value), other == here.end() ? "nothing" : ExactText(other->second));
    }
    for (const auto& [name, value] : here) {
      if (there.count(name) == 0) Differ(of + name, "nothing", ExactText(value));
    }
  }
  void Curves(const PretrainingRecord& there, const PretrainingRecord& here) {
    if (there.curve_steps != here.curve_steps) {
      Differ("curve", StrCat(there.curve.size(), " values"), StrCat(here.curve.size(), " values of other steps"));
      return;
    }
    for (size_t i = 0; i < there.curve.size(); ++i) {
      if (there.curve[i] == here.curve[i]) continue;
      Differ(StrCat("ln_ppl at step ", there.curve_steps[i]), ExactText(there.curve[i]), ExactText(here.curve[i]));
      return;  // what follows differs with it
    }
  }

  std::vector<std::string> differences;

 private:
  void Differ(const std::string& of, const std::string& there, const std::string& here) {
    differences.push_back(StrCat(of, ": ", there, " there, ", here, " here"));
  }
};

}  // namespace

std::vector<std::string> RecordDifferences(const CellRecord& there, const CellRecord& here) {
  Comparison compare;
  const PretrainingRecord &a = there.pretraining, &b = here.pretraining;
  compare.Configurations("", a.config, b.config);
  compare.Members("", a, b);
  compare.Curves(a, b);
  compare.Values("", a.values, b.values);
  for (const auto& [tasks, finetuning] : there.finetunings) {
    const auto other = here.finetunings.find(tasks);
    if (other == here.finetunings.end()) {
      compare.Texts(tasks, "finetuned", "not finetuned");
      continue;
    }
    compare.Configurations(tasks + ", ", there.ConfigOf(finetuning), here.ConfigOf(other->second));
    compare.Members(tasks + ", ", finetuning, other->second);
    for (const auto& [task, scores] : finetuning.scores) {
      const auto own = other->second.scores.find(task);
      compare.Values(task + ", ", scores,
                     own == other->second.scores.end() ? std::map<std::string, double>() : own->second);
    }
  }
  return std::move(compare.differences);
}

namespace {

// Why a cell whose result is there, or could be, cannot be verified; empty where it can, or has none.
std::string WhyNotVerifiable(const Cell& cell, bool* has_result) {
  try {
    *has_result = KeptRecord(cell).has_value();
    // A finished run from which no result could be made: its reader says why.
    if (!*has_result && IsFinished(cell.PretrainingFolder(), false)) ReadPretraining(cell.PretrainingFolder());
    const std::string another = *has_result ? WhyAnother(cell) : "";
    return another.empty() ? "" : "it is a run of another configuration: " + another;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

DrawnCells CellsToVerify(const std::vector<Cell>& cells, int64_t count, uint64_t seed) {
  DrawnCells drawn;
  std::vector<const Cell*> there;
  for (const Cell& cell : cells) {
    bool has_result = false;
    const std::string why_not = WhyNotVerifiable(cell, &has_result);
    if (!why_not.empty()) {
      drawn.others.push_back({cell.Title(), why_not});
      PrintMessage("not verified: ", cell.Title(), ": ", why_not);
    } else if (has_result) {
      there.push_back(&cell);
    }
  }
  // Each cell's place in the draw is a random number of its own, so that one more cell displaces at most one.
  const auto place = [seed](const Cell& cell) {
    const RandomKey key{seed, StreamId("tools.reproduce.verify"), StreamId(cell.Title())};
    return key.Bits(0);
  };
  std::vector<size_t> order(there.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(*there[a]) < place(*there[b]); });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  std::sort(order.begin(), order.end());
  for (const size_t i : order) drawn.cells.push_back(*there[i]);
  return drawn;
}

bool Verify(const Cell& cell, const std::string& folder, const StopSignals& signals, Verification* verification) {
  namespace fs = std::filesystem;
  Cell repeated = cell;
  repeated.folder = SeedFolder(StrCat(folder, "/", cell.name), cell.pretraining.optimization.seed);
  CROSSTALK_CHECK(fs::weakly_canonical(repeated.folder) != fs::weakly_canonical(cell.folder), "--verify: ", cell.folder,
                  " is where the cell would be recomputed; choose another --out");
  if (Exists(repeated.folder)) RemoveAtomically(repeated.folder);
  *verification = {.cell = cell.Title(), .model_sha256 = {}, .differences = {}};
  const CellEnd end = RunCell(repeated, signals);
  if (end == CellEnd::kStopped) return false;
  const std::optional<CellRecord> there = KeptRecord(cell), here = KeptRecord(repeated);
  if (end != CellEnd::kFinished || !there || !here) {
    const std::string failure = FailureOf(repeated);
    verification->differences = {StrCat("cannot be recomputed", failure.empty() ? "" : ": ", failure)};
    return true;
  }
  verification->model_sha256 = here->pretraining.model_sha256.value_or("");
  verification->has_digest = there->pretraining.model_sha256.has_value();
  verification->differences = RecordDifferences(*there, *here);
  if (verification->differences.empty()) RemoveAtomically(repeated.folder);
  return true;
}

std::string VerdictText(const Verification& verification) {
  if (!verification.differences.empty()) return Join(verification.differences, "; ");
  return verification.has_digest ? "the same to the bit" : "the same values; its result has no digest of the model";
}

void PrintVerification(const std::vector<Verification>& verified, const std::vector<Unverifiable>& others,
                       bool as_json) {
  const Columns<Verification> columns = {
      {"cell", "cell", &Verification::cell},
      {"same", "recomputed",
       [](const Verification& one) -> TableValue {
         if (one.differences.empty()) return {true, "the same to the bit"};
         return {false, Join(one.differences, "; ")};
       }},
      {"model_sha256", "sha256 of the model", &Verification::model_sha256},
      {"differences", "", [](const Verification& one) { return ToJson(one.differences); }}};
  if (as_json) {
    return PrintResult(Json::MakeObject({{"verified", JsonOf(columns, verified)}, {"not_verified", ToJson(others)}}));
  }
  TextTable table = TextOf(columns, verified);
  for (const Unverifiable& one : others) table.rows.push_back({one.cell, "not verified: " + one.reason, ""});
  PrintResult(MarkdownTable(table));
}

}  // namespace crosstalk
