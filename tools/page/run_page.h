// The page of one run, or of several on each other: `crosstalk report`, and report.html in a run's folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/op_context.h"
#include "tools/page/run_record.h"
#include "tools/page/samples.h"

namespace crosstalk {

// What the newest good checkpoint of a run shows.
struct RunInside {
  std::vector<Sample> samples;  // what the model writes
  std::string problem;          // with the samples, or why there are none: a sentence; empty where there is none
  std::string crossing;         // how much the heads talk, in plain sentences; empty where there is nothing to say
  std::string mixing;           // the same with maps of a sentence, as HTML
  // As HTML, beside those that the run began with; empty of a model without, a sentence where they cannot be had.
  std::string projections;
  Precision precision = Precision::kFloat32;  // that of the run, in which all this is computed
};
enum class WithProjections { kNo, kYes };
// A page has room for those of one run: the only one, or the only one whose heads are mixed.
WithProjections ProjectionsOf(const std::vector<RunRecord>& runs, const RunRecord& run);
// `held_out`: the run's held-out text where it is open already; else it is opened.
RunInside LookInside(const RunRecord& run, std::shared_ptr<const TextSource> held_out, int64_t samples,
                     WithProjections with_projections, const StopRequest& stop = {});

// The HTML; the same bytes for the same files. insides: of each run.
std::string RunPage(const std::vector<RunRecord>& runs, const std::vector<RunInside>& insides);

struct WrittenReport {
  std::string path;      // empty: none was written
  std::string crossing;  // RunInside::crossing of the run whose head projections are on the page
};
// Writes report.html into the folder of a run that has ended, or of several such. A run is finished and saved whatever
// becomes of its report: what goes wrong is a message, and the result is empty; so it is where a signal came.
// `held_out` as of LookInside.
WrittenReport WriteReportAtEnd(const std::string& folder, std::shared_ptr<const TextSource> held_out);

inline constexpr int64_t kReportSamples = 3;
// More curves on each other tell nobody anything.
inline constexpr size_t kMostRuns = 40;
inline constexpr char kReportName[] = "report.html";

}  // namespace crosstalk
