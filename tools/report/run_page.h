// The page of one run, or of several on each other: `crosstalk report`, and report.html in a run's folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/stop_request.h"
#include "tools/report/run_record.h"
#include "tools/report/samples.h"

namespace crosstalk {

// What a run's model writes, or why there is nothing to show.
struct RunSamples {
  std::vector<Sample> samples;
  std::string problem;  // a sentence; empty where there is none
};
// By the run's newest good checkpoint. `held_out`: the run's held-out text where it is open already; else it is opened.
RunSamples SamplesOfRun(const RunRecord& run, std::shared_ptr<const TextSource> held_out, int64_t count,
                        const StopRequest& stop = {});

// The head projections of the run's newest good checkpoint beside those that it began with, as HTML; empty of a model
// without, a sentence where they cannot be had. `held_out` as above.
std::string ProjectionsOfRun(const RunRecord& run, std::shared_ptr<const TextSource> held_out);

// The HTML; the same bytes for the same files. samples: of each run; projections: of one.
std::string RunPage(const std::vector<RunRecord>& runs, const std::vector<RunSamples>& samples,
                    const std::string& projections = "");

// Writes report.html into the folder of a run that has ended, or of several such, and returns its path. A run is
// finished and saved whatever becomes of its report: what goes wrong is a message, and the result is empty; so it is
// where a signal came. `held_out` as of SamplesOfRun.
std::string WriteReportAtEnd(const std::string& folder, std::shared_ptr<const TextSource> held_out);

inline constexpr int64_t kReportSamples = 3;
// More curves on each other tell nobody anything.
inline constexpr size_t kMostRuns = 40;
inline constexpr char kReportName[] = "report.html";

}  // namespace crosstalk
