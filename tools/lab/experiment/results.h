// A table's results from the cells present: a pure function of their files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/statistics.h"
#include "tools/lab/experiment/claims.h"
#include "tools/lab/experiment/experiment.h"

namespace crosstalk {

// The final measures of a cell's run.
struct CellResult {
  uint64_t seed = 0;
  std::map<std::string, double> values;  // by measure; shares in per cent
  std::optional<double> step_seconds;    // median
  std::optional<double> joules;          // of its pretraining
  std::vector<double> curve_steps, curve;
  int64_t model_parameters = 0;
};

struct RowResult {
  const TableRow* row = nullptr;
  AttentionConfig layer;
  double over = 0;                  // where the figure's curves have it: its value of the table's field
  AttentionCost cost;               // on one example, n = m = length
  int64_t length = 0, steps = 0;    // of its pretraining
  std::vector<CellResult> cells;    // whose pretraining is finished, by seed
  int64_t model_parameters = 0;     // 0: not known
  std::optional<double> step_time;  // seconds: the median over the cells

  // Values of one measure, by seed; mean_of where all of its parts are measured.
  BySeed ValuesOf(const TableMeasure& measure) const;
};

// A cell of which something is not measured, and why.
struct MissingCell {
  std::string title, reason;
  bool unreadable = false;  // its files are there
};

struct TableResult {
  const Experiment* experiment = nullptr;
  const Table* table = nullptr;        // the experiment's
  std::vector<TableMeasure> measures;  // the table's, then those of other tasks that the cells are finetuned on
  std::vector<RowResult> rows;
  std::vector<ClaimResult> claims;
  std::vector<MissingCell> missing;
  // Of the runs that count: what they saw and what computed them, each value once, in order.
  std::set<std::string> data, versions, simd_bits, processors;

  bool IsMeasured(const TableMeasure& measure) const;
  Scatter ScatterOf(const TableMeasure& measure, const std::string& group) const;  // over its rows of the group
  // Of rows that have a seed in common.
  std::vector<SettingPair> PairsOf(const TableMeasure& measure) const;
  int64_t MostSeeds() const;
  // Common to all rows; none where they differ.
  std::optional<int64_t> Length() const, Steps() const;
};

// Writes result.json of the experiment's finished cells that have none, those of other seeds too.
void KeepRecords(const Experiment& experiment);

// Refers to the experiment.
TableResult CollectTable(const Experiment& experiment);

}  // namespace crosstalk
