// The page of one run, or of several on each other: `crosstalk report`, and report.html in a run's folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/runtime/op_context.h"
#include "tools/page/run_record.h"
#include "tools/page/samples.h"

namespace crosstalk {

// What the newest good checkpoint of a run shows.
struct RunInside {
  std::vector<Sample> samples;  // what the model writes
  std::string problem;          // with the samples, or why there are none: a sentence; empty if there is none
  std::string crossing;         // how much the heads talk, in plain sentences; empty if there is nothing to say
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

// The sections of the page, as HTML; empty if they have nothing to show.

// ln(PPL) and every other held-out measure, with the training's where it has it; loss, learning rate, gradient norm and
// tokens per second: one run, or several on each other.
std::string RunCharts(const std::vector<RunRecord>& runs);

// Runs that differ in their seed alone are one setting: its last held-out scores as mean and standard deviation, and
// the differences between settings over the seeds that both have. Only runs that took all of their steps count. Empty
// unless some setting has two of them.
std::string SettingsSection(const std::vector<RunRecord>& runs);

// The configuration by the rows of TrainingFields(): of one run what differs from its defaults, then all; of several
// those in which they differ, or a sentence, and those in which they do not.
std::string ConfigurationTable(const RunRecord& run);
std::string ConfigurationDifferences(const std::vector<RunRecord>& runs);
std::string SharedConfiguration(const std::vector<RunRecord>& runs);

// What the model of a run is and costs, from its run.json alone: it is built and applied to one example on shapes.
std::string ModelSection(const RunRecord& run);

}  // namespace crosstalk
