// `crosstalk reproduce`: the paper's tables at a scale that the machine can bear.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/run_folder.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/cli/ranks.h"
#include "tools/cli/training.h"
#include "tools/lab/experiment/driver.h"
#include "tools/lab/experiment/results.h"
#include "tools/lab/experiment/scale.h"

namespace crosstalk {

namespace {

std::string Scope(const TableResult& result) {
  const Table& table = *result.table;
  std::string text = StrCat(
      table.IsOfPaper() ? StrCat("Table ", table.name, " of *Talking-Heads Attention* (2020), section ", table.section)
                        : StrCat("Table ", table.name, " of Crosstalk"),
      ": ", table.title, ". The claims:\n\n");
  for (const TableClaim& claim : table.claims) text += StrCat("- ", claim.text, " (", claim.source, ")\n");
  return text;
}

// The seconds of the pretrainings that count, evaluation left out.
double SecondsOfSteps(const TableResult& result) {
  double seconds = 0;
  for (const RowResult& row : result.rows) {
    for (const CellResult& cell : row.cells) {
      seconds += cell.run.step_seconds.value_or(0) * static_cast<double>(row.steps);
    }
  }
  return seconds;
}

std::string Methodology(const TableResult& result) {
  int64_t runs = 0;
  for (const RowResult& row : result.rows) runs += static_cast<int64_t>(row.cells.size());
  std::string text;
  for (const std::string& note : RunNotes(result)) text += StrCat("- ", EscapeMarkdown(note), "\n");
  text += StrCat("- ", runs, runs == 1 ? " run" : " runs", " of ", result.rows.size(), " rows");
  if (const double seconds = SecondsOfSteps(result); seconds > 0) {
    text +=
        StrCat("; their steps took about ", EstimateText(seconds), " on the processors named, one run after the other");
  }
  return StrCat(text, ".\n- ", ClaimsNote(),
                "\n- Each run can be checked: its seed, configuration, text and digest stand in its result.json, and "
                "`crosstalk reproduce --verify N` recomputes N of them and compares to the bit.\n");
}

std::string WithoutStop(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

// The table, a verdict for each measured claim, and its pairs.
std::string Results(const TableResult& result) {
  std::string text = MarkdownTable(MeasuresTable(result)) + "\n";
  for (const ClaimResult& claim : result.claims) {
    if (claim.verdict == Verdict::kNotMeasured) continue;
    text +=
        StrCat("- ", WithoutStop(claim.claim->text), " (", claim.measure.label, "): **", claim.VerdictText(), "**.\n");
  }
  std::vector<std::string> not_measured;
  const TextTable pairs = ClaimsTable(result, &not_measured);
  if (!pairs.rows.empty()) text += "\n" + MarkdownTable(pairs);
  for (size_t i = 0; i < not_measured.size(); ++i) {
    text += StrCat(i == 0 ? "\nNot measured:\n\n" : "", "- ", not_measured[i], "\n");
  }
  return text;
}

std::string Easy(const TableResult& result) {
  return StrCat(
      "One command computes the table, on any number of machines, and what is interrupted goes on to the same "
      "bits. ",
      result.MostSeeds() == 0 ? "Nothing has been computed yet." : "All runs have the same bits on every processor.",
      "\n");
}

std::string Hard(const TableResult& result) {
  std::string text;
  std::set<std::string> undecided;
  for (const ClaimResult& claim : result.claims) {
    if (claim.verdict == Verdict::kUndecided || claim.verdict == Verdict::kNotMeasured)
      undecided.insert(StrCat(claim.claim->text, " (", claim.measure.label, ")"));
  }
  for (const std::string& claim : undecided) text += StrCat("- Not decided: ", claim, "\n");
  for (const MissingCell& cell : result.missing)
    text += StrCat("- Missing: ", EscapeMarkdown(StrCat(cell.title, ": ", cell.reason)), "\n");
  if (result.processors.size() > 1) text += "- Step times come from several kinds of machine and say little.\n";
  return text.empty() ? "Nothing is missing, and every claim that was measured is decided.\n" : text;
}

// What was claimed, how it was tested and what was found, in Markdown, under the headings that reproducibility venues
// ask for.
std::string ReproducibilitySummary(const TableResult& result) {
  return StrCat("# Reproducibility summary\n\n## Scope of reproducibility\n\n", Scope(result), "\n## Methodology\n\n",
                Methodology(result), "\n## Results\n\n", Results(result), "\n## What was easy\n\n", Easy(result),
                "\n## What was difficult\n\n", Hard(result));
}

struct ReproduceSettings {
  std::string table;
  std::optional<std::string> scale;
  std::optional<int64_t> seeds;
  std::string out;
  std::string cells;
  std::string data;
  std::string task_data;
  std::optional<int64_t> cell;
  bool list = false;
  bool dry_run = false;
  bool status = false;
  bool assemble = false;
  bool summary = false;
  std::optional<int64_t> verify;
  int64_t verify_seed = 0;
  bool json = false;
  std::string print_scale;
};

FieldTable<ReproduceSettings> ReproduceFields() {
  using S = ReproduceSettings;
  return Joined(
      Grouped<S>("What",
                 {MakeOption("--table", &S::table, "NAME",
                             StrCat("One of ", Join(TableNames(), ", "), ", or all: each of the paper's.")),
                  MakeOption("--scale", &S::scale, "NAME",
                             StrCat("One of ", Join(ScaleNames(), ", "),
                                    ", or a file like theirs; by default smoke, and small for our own tables."),
                             {.is_path = true, .not_paths = ScaleNames()}),
                  MakeOption("--seeds", &S::seeds, "N", "Seeds 1 to N; the scale's number by default.",
                             {.range = {1, 10'000}}),
                  MakeOption("--data", &S::data, "PATH",
                             "Text to train on; the scale's or the built-in corpus by default.", {.is_path = true}),
                  MakeOption("--task-data", &S::task_data, "FOLDER",
                             "Folder with the tasks' files, as finetune takes it. A task without files is left out.",
                             {.is_path = true})}),
      Grouped<S>(
          "Where",
          {MakeOption("--out", &S::out, "FOLDER",
                      "Folder of the table; of several, each in table-N. runs/reproduce-SCALE/table-N by default.",
                      {.is_path = true}),
           MakeOption("--cells", &S::cells, "FOLDER",
                      "Folder of the runs, which tables share; --out/cells, or runs/reproduce-SCALE/cells by default.",
                      {.is_path = true})}),
      Grouped<S>(
          "How",
          {MakeOption("--dry-run", &S::dry_run, "", "Only print time, disk and memory."),
           MakeOption("--status", &S::status, "", "Print each cell's progress, and where it runs."),
           MakeOption("--list", &S::list, "", "Print a command for each cell, one a line."),
           MakeOption("--cell", &S::cell, "K", "Only the cell of that line."),
           MakeOption(
               "--assemble", &S::assemble, "",
               "Train nothing: make the table of the existing cells. Exit code 3 where one of them cannot be read."),
           MakeOption("--summary", &S::summary, "",
                      "Train nothing: print claims, methods and results under the headings of reproducibility venues."),
           MakeOption("--verify", &S::verify, "N",
                      "Recompute N of the finished cells in --out/verification, and compare them to the bit. Exit "
                      "code 1 where one differs, 3 where one cannot be verified.",
                      {.range = {1, 1'000'000}}),
           MakeOption("--verify-seed", &S::verify_seed, "SEED", "Which cells --verify draws.",
                      {.range = {0, 1'000'000'000}}),
           MakeOption("--print-scale", &S::print_scale, "NAME", "Print a scale's file, for copying."),
           MakeOption("--json", &S::json, "", "The table, or its cost, as one JSON object.")}));
}

// A call: what its options mean together.
struct Call {
  TableScale scale;
  int64_t seeds = 1;
  std::string out;
  std::string cells_folder, data, task_data;
  std::vector<Experiment> experiments;  // one for each table
  std::vector<Cell> cells;
};

std::vector<const Table*> TablesOf(const std::string& name) {
  std::vector<const Table*> tables;
  for (const Table& table : Tables()) {
    if (name == table.name || (name == "all" && table.IsOfPaper())) tables.push_back(&table);
  }
  CROSSTALK_CHECK(!tables.empty(), "--table: ", name.empty() ? "is missing" : Quoted(name) + " is none of them",
                  "; there are ", Join(TableNames(), ", "), ", and all of the paper's as all");
  return tables;
}

Call MakeCall(const ReproduceSettings& settings) {
  Call call;
  const std::vector<const Table*> tables = TablesOf(settings.table);
  call.scale = LoadScale(settings.scale.value_or(tables[0]->scale));
  for (const Table* table : tables) call.seeds = std::max(call.seeds, call.scale.SeedsOf(*table));
  if (settings.seeds) call.seeds = *settings.seeds;
  // A mistyped one would leave out every task, and be found out when all is trained.
  CROSSTALK_CHECK(settings.task_data.empty() || KindOf(settings.task_data) == PathKind::kDirectory,
                  "--task-data: ", Quoted(settings.task_data), " is not a folder");
  // Where no folder is named, tables of a scale share what they have in common.
  const std::string shared = "runs/reproduce-" + call.scale.name;
  const bool one = tables.size() == 1;
  call.out = !settings.out.empty() ? AbsolutePath("out", settings.out)
             : one                 ? StrCat(shared, "/table-", tables[0]->name)
                                   : shared;
  call.cells_folder = AbsolutePath("cells", settings.cells);
  if (settings.cells.empty()) call.cells_folder = (settings.out.empty() ? shared : call.out) + "/cells";
  call.data = AbsolutePath("data", settings.data);
  call.task_data = AbsolutePath("task_data", settings.task_data);
  for (const Table* table : tables) {
    Experiment experiment = ExperimentOf(call.scale, *table, call.seeds, call.data);
    experiment.out = one ? call.out : StrCat(call.out, "/table-", table->name);
    experiment.cells = call.cells_folder;
    experiment.task_data = call.task_data;
    call.experiments.push_back(std::move(experiment));
  }
  call.cells = CellsOf(call.experiments);
  return call;
}

std::string ThisProgram() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? path.substr(0, static_cast<size_t>(size)) : "crosstalk";
}

// The command of each cell, a line each, with absolute paths: it can be run from anywhere.
std::string CommandLines(const OptionTable& options, const ReproduceSettings& settings, const Call& call) {
  const std::vector<std::string> names = ScaleNames();
  const std::string scale = settings.scale.value_or(call.experiments[0].table.scale);
  const bool named = std::find(names.begin(), names.end(), scale) != names.end();
  std::vector<std::string> words = {ThisProgram(), "reproduce",
                                    "--table",     settings.table,
                                    "--scale",     named ? scale : AbsolutePath("scale", scale),
                                    "--seeds",     StrCat(call.seeds),
                                    "--out",       AbsolutePath("out", call.out),
                                    "--cells",     AbsolutePath("cells", call.cells_folder)};
  if (!call.data.empty()) words.insert(words.end(), {"--data", call.data});
  if (!call.task_data.empty()) words.insert(words.end(), {"--task-data", call.task_data});
  for (const char* name : {"--threads", "--simd"}) {
    if (const std::string* const text = options.Given(name)) words.insert(words.end(), {name, *text});
  }
  std::string line;
  for (const std::string& word : words) line += ShellQuoted(word) + " ";
  std::string lines;
  for (size_t i = 0; i < call.cells.size(); ++i) lines += StrCat(line, "--cell ", i + 1, "\n");
  return lines;
}

// 1 where a recomputed cell differs, else 3 where one could not be verified.
int VerifyCells(const ReproduceSettings& settings, const Call& call, const StopSignals& signals) {
  for (const Experiment& experiment : call.experiments) KeepRecords(experiment);
  const DrawnCells drawn = CellsToVerify(call.cells, *settings.verify, static_cast<uint64_t>(settings.verify_seed));
  const size_t chosen = drawn.cells.size(), others = drawn.others.size();
  CROSSTALK_CHECK(chosen + others > 0, "--verify: ", call.cells_folder, " holds no finished cell of this scale");
  if (static_cast<int64_t>(chosen) < *settings.verify) {
    PrintMessage("only ", chosen, chosen == 1 ? " cell is" : " cells are", " finished: all of them");
  }
  const std::string folder = AbsolutePath("out", call.out) + "/verification";
  const RunLock lock(folder);
  std::vector<Verification> verified;
  size_t same = 0;
  for (const Cell& cell : drawn.cells) {
    PrintPlace(verified.size(), chosen, cell.Title());
    Verification& one = verified.emplace_back();
    if (!Verify(cell, folder, signals, &one)) {
      PrintMessage("interrupted");
      return 128 + signals.Received();
    }
    same += one.differences.empty() ? 1 : 0;
    PrintMessage(cell.Title(), ": ", VerdictText(one));
  }
  PrintVerification(verified, drawn.others, settings.json);
  PrintMessage(same, " of ", chosen, chosen == 1 ? " cell was" : " cells were", " the same when recomputed",
               others == 0 ? "" : StrCat("; ", others, " could not be verified"));
  if (same < chosen) return static_cast<int>(ErrorKind::kFailure);
  return others == 0 ? 0 : static_cast<int>(ErrorKind::kData);
}

int Reproduce(const OptionTable& options, const ReproduceSettings& settings, RankGroup* ranks) {
  if (!settings.print_scale.empty()) {
    PrintResult(ScaleText(settings.print_scale));
    return 0;
  }
  const Call call = MakeCall(settings);
  const int64_t cells = static_cast<int64_t>(call.cells.size());
  const int asked = static_cast<int>(settings.list) + settings.dry_run + settings.status + settings.assemble +
                    settings.summary + settings.verify.has_value() + settings.cell.has_value();
  CROSSTALK_CHECK(
      asked <= 1 || (asked == 2 && settings.dry_run && settings.cell),
      "--list, --dry-run, --status, --assemble, --summary, --verify and --cell each say what to do; give one");
  CROSSTALK_CHECK(!settings.json || !(settings.list || settings.summary),
                  "--json: --list prints commands and --summary a text; neither is JSON");
  CROSSTALK_CHECK(settings.verify || !options.Given("--verify-seed"), "--verify-seed: chooses cells of --verify");
  CROSSTALK_CHECK(!settings.cell || (*settings.cell >= 1 && *settings.cell <= cells),
                  "--cell: ", settings.cell.value_or(0), " is not between 1 and ", cells,
                  ", the cells that --list lists");
  if (settings.list) {
    PrintResult(CommandLines(options, settings, call));
    return 0;
  }
  if (settings.status) {
    PrintStatus(call.cells, settings.json);
    return 0;
  }
  if (settings.assemble) {
    return WriteTables(call.experiments, settings.json) == 0 ? 0 : static_cast<int>(ErrorKind::kData);
  }
  if (settings.summary) {
    for (const Experiment& one : call.experiments) PrintResult(ReproducibilitySummary(CollectTable(one)));
    return 0;
  }
  std::vector<Cell> chosen = call.cells;
  if (settings.cell) chosen = {call.cells[static_cast<size_t>(*settings.cell - 1)]};
  const StopSignals signals;
  if (settings.verify) return VerifyCells(settings, call, signals);
  const Plan plan = MakePlan(chosen, signals);
  if (settings.dry_run) {
    PrintPlan(plan, settings.json);
    return 0;
  }
  PrintMessage("scale ", call.scale.name, ", ",
               settings.table == "all" ? "all of the paper's tables" : "table " + settings.table, ", ", call.seeds,
               call.seeds == 1 ? " seed" : " seeds", ", in ", call.cells_folder, "\n", PlanSummary(plan));
  return RunCells(call.experiments, chosen, settings.json, signals, ranks);
}

}  // namespace

Command ReproduceCommand() {
  return {
      "reproduce", "compute the paper's tables, or this project's, at a scale of your choice",
      "Trains every row of a table with every seed, finetunes each on the scale's tasks, and sets the result beside "
      "the paper's numbers where the table is one of its ten: --out gets table.md, table.csv, curves.csv, table.json, "
      "report.html and figure.svg, with the claims tested over the seeds.\n"
      "Before it starts it prints the number of runs, time and disk, from a few measured steps. The same command "
      "resumes, to the same bits; a cell (a row with one seed) that fails is reported at the end, exit code 1, and "
      "retried by the next call. --list prints a command for each cell, for schedulers that spread them over machines "
      "with a common folder; a cell that another process computes is "
      "skipped.",
      [](OptionTable& options) -> std::function<int()> {
        options.AddFields(ReproduceFields());
        AddRankOptions(options);
        options.AddThreads();
        return [&options] {
          return WithRanks(
              options, [&](RankGroup* ranks) { return Reproduce(options, options.Over(ReproduceFields()), ranks); });
        };
      }};
}

}  // namespace crosstalk
