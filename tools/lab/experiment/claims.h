// Claims of the paper, tested on runs that were paired by their seeds: the same seed gives two configurations the same
// text in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/statistics.h"
#include "tools/lab/experiment/tables.h"

namespace crosstalk {

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

}  // namespace crosstalk
