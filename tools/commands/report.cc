// `crosstalk report`: what runs did, as one HTML file.
#include <algorithm>
#include <string>
#include <vector>

#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"
#include "tools/cli/progress.h"
#include "tools/page/page.h"
#include "tools/page/run_page.h"

namespace crosstalk {
namespace {

constexpr uint64_t kMostPageBytes = 50'000'000;

struct ReportSettings {
  std::vector<std::string> runs;
  std::string out;
  int64_t samples = kReportSamples;
};

FieldTable<ReportSettings> ReportFields() {
  using S = ReportSettings;
  return {MakeOption("RUN", &S::runs, "RUN", "A run's folder, a folder of runs, or a table.",
                     {.is_path = true, .required = true}),
          MakeOption("--out", &S::out, "FILE", "The page; RUN/report.html by default, and report.html of several.",
                     {.is_path = true}),
          MakeOption("--samples", &S::samples, "N", "Text samples of each run's model; 0: none.", {.range = {0, 20}})};
}

// The folder of a reproduction's table: that of its table.json, which has its page beside it. Empty for anything else.
std::string TableFolder(const std::string& path) {
  if (KindOf(path) == PathKind::kDirectory && KindOf(path + "/table.json") == PathKind::kFile) return path;
  if (KindOf(path) != PathKind::kFile || !path.ends_with("table.json")) return "";
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// A table's page is made with the table, of all that its cells say.
int ReportTable(const std::string& folder, const std::string& out) {
  const std::string page = StrCat(folder, "/", kReportName);
  if (KindOf(page) != PathKind::kFile) {
    Fail(ErrorKind::kData, page, ": is missing; crosstalk reproduce --assemble makes it of the cells that are there");
  }
  if (!out.empty()) {
    CheckOutput("--out", out, kPageBegin);
    WriteFileAtomically(out, ReadFile(page, kMostPageBytes));
  }
  PrintMessage("written: ", out.empty() ? page : out);
  return 0;
}

int Report(const ReportSettings& settings) {
  for (const std::string& path : settings.runs) {
    const std::string table = TableFolder(path);
    if (table.empty()) continue;
    CROSSTALK_CHECK(settings.runs.size() == 1, path, ": a table has a page of its own; give it alone");
    return ReportTable(table, settings.out);
  }
  const std::vector<RunRecord> runs = ReadRuns(settings.runs);
  CROSSTALK_CHECK(runs.size() <= kMostRuns, runs.size(), " runs are more than the ", kMostRuns,
                  " that a report can show on each other");
  const std::string beside = settings.runs.size() == 1 ? StrCat(settings.runs[0], "/", kReportName) : kReportName;
  const std::string& out = settings.out.empty() ? beside : settings.out;
  CheckOutput("--out", out, kPageBegin);
  Progress progress;
  std::vector<RunInside> insides;
  for (const RunRecord& run : runs) {
    progress.Update(StrCat("looking inside ", run.name, ", ", insides.size() + 1, " of ", runs.size()));
    insides.push_back(LookInside(run, nullptr, settings.samples, ProjectionsOf(runs, run)));
  }
  const std::string html = RunPage(runs, insides);
  WriteFileAtomically(out, html);
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& one : runs[i].missing) PrintMessage(runs[i].name, ": ", one);
    if (!insides[i].problem.empty()) PrintMessage(runs[i].name, ": ", insides[i].problem);
  }
  PrintMessage("written: ", out, " (", BytesText(std::ssize(html)), ")");
  return 0;
}

}  // namespace

Command ReportCommand() {
  return {"report", "what runs did, as one HTML file",
          "Writes a page with the curves, the configuration, the model's parameters and multiplications, where the run "
          "was resumed, and samples of what it writes. Of several runs the curves lie on each other, and what differs "
          "between their configurations comes first; those that differ in their seed alone are one setting, with mean, "
          "standard deviation and the paired differences between settings; a folder of runs means all of them. Of a "
          "table of `crosstalk "
          "reproduce`, its folder or table.json, it is the page that was made with it. The file needs no network and "
          "no other file. `crosstalk train` and `crosstalk finetune` write RUN/report.html at their end.",
          OptionsOf(ReportFields, Report, Computes::kYes)};
}

}  // namespace crosstalk
