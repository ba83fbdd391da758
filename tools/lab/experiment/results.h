// A table's results from the cells present: a pure function of their files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/cli/output.h"
#include "tools/cli/statistics.h"
#include "tools/lab/experiment/cell_record.h"
#include "tools/lab/experiment/experiment.h"
#include "tools/lab/experiment/scale.h"

namespace crosstalk {

// Claims of the paper, tested on runs that were paired by their seeds: the same seed gives two configurations the same
// text in the same order.

// The level of a pair's interval.
inline constexpr double kClaimLevel = 0.95;

enum class Verdict {
  kHolds,        // every pair's interval lies on the claimed side
  kDoesNotHold,  // that of some pair lies on the other side, at the level 1 - 0.05/(number of pairs)
  kUndecided,    // neither, at this number of seeds
  kNotMeasured,  // a pair has no seed in common
};

struct PairResult {
  std::string better, worse;        // rows, as claimed
  BySeed gains;                     // by how much the first is better: as claimed if above 0
  double mean = 0;                  // of them
  std::optional<Interval> at_95;    // of the mean, as IntervalOfDifferences has it
  std::optional<Interval> at_most;  // at the level 1 - 0.05/(number of pairs)
};

struct ClaimResult {
  const TableClaim* claim = nullptr;
  TableMeasure measure;
  std::vector<PairResult> pairs;
  Verdict verdict = Verdict::kNotMeasured;
  int64_t seeds = 0;  // the fewest that a pair has

  std::string VerdictText() const;  // "holds", "undecided at 3 seeds"
};

// values(row): of the measure, by seed. scatter(row): that of the measure over all rows of the row's group.
ClaimResult TestClaim(const TableClaim& claim, const TableMeasure& measure,
                      const std::function<Scatter(const std::string& row)>& scatter,
                      const std::function<BySeed(const std::string& row)>& values);

struct CellResult {
  uint64_t seed = 0;
  std::map<std::string, double> values;  // by measure, with those of its finetunings; shares in per cent
  PretrainingRecord run;
};

struct RowResult {
  const TableRow* row = nullptr;
  AttentionConfig layer;
  double over = 0;                // where the figure's curves have it: its value of the table's field
  AttentionCost cost;             // on one example, n = m = length
  int64_t length = 0, steps = 0;  // of its pretraining
  std::vector<CellResult> cells;  // whose pretraining is finished, by seed
  std::optional<int64_t> model_parameters;
  std::optional<double> step_time;  // seconds: the median over the cells

  // Values of one measure, by seed; mean_of where all of its parts are measured.
  BySeed ValuesOf(const TableMeasure& measure) const;
};

// A cell of which something is not measured, and why.
struct MissingCell {
  std::string title, reason;
  bool unreadable = false;  // its files are there

  static FieldTable<MissingCell> Fields() { return {{"cell", &MissingCell::title}, {"reason", &MissingCell::reason}}; }
};

struct TableResult {
  const Experiment* experiment = nullptr;
  const Table* table = nullptr;        // the experiment's
  std::vector<TableMeasure> measures;  // the table's, then those of other tasks that the cells are finetuned on
  std::vector<RowResult> rows;
  std::vector<ClaimResult> claims;
  std::vector<MissingCell> missing;
  // What the runs that count saw and what computed them, each value once, in order.
  std::set<std::string> data, versions, processors;

  bool IsMeasured(const TableMeasure& measure) const;
  Scatter ScatterOf(const TableMeasure& measure, const std::string& group) const;  // over its rows of the group
  int64_t MostSeeds() const;
  // Common to all rows; none where they differ.
  std::optional<int64_t> Length() const, Steps() const;
};

// Writes result.json of the experiment's finished cells that have none, those of other seeds too.
void KeepRecords(const Experiment& experiment);

// Refers to the experiment.
TableResult CollectTable(const Experiment& experiment);

// A table's results as text: markdown for people, CSV and JSON for programs. The same cells give the same bytes.

// Ours beside the paper's; columns of which neither has anything are left out.
TextTable MeasuresTable(const TableResult& result);
TextTable CostsTable(const TableResult& result);
// A row for each pair of each claim that has a seed in common; the claims that have none stand in `not_measured`.
TextTable ClaimsTable(const TableResult& result, std::vector<std::string>* not_measured);

// A row for each measure and each two rows that have a seed in common, of a table without claims.
TextTable DifferencesTable(const TableResult& result);

// The runs of the table: sentences.
std::vector<std::string> RunNotes(const TableResult& result);
// How the claims were tested: a sentence.
std::string ClaimsNote();

std::string Markdown(const TableResult& result);
std::string Csv(const TableResult& result);
// Each point of the curves that the page draws: row, seed, step, held-out ln(PPL).
std::string CurvesCsv(const TableResult& result);
Json ToJson(const TableResult& result);

// A table's results as a page and as a figure, of the components of tools/page.

// report.html: the same bytes for the same results.
std::string ResultsPage(const TableResult& result);
// figure.svg: each row's first measure beside the paper's, as differences from the first row. Empty where nothing is
// measured.
std::string ResultsFigure(const TableResult& result);

}  // namespace crosstalk
