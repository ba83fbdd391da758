// Settings that were each trained with several seeds: the mean of each, and the differences between them, paired by
// seed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/cli/statistics.h"
#include "tools/cli/text_table.h"

namespace crosstalk {

// Runs that differ in their seed alone.
struct SeedGroup {
  std::string name;                                      // what tells it from the others
  std::vector<std::pair<std::string, BySeed>> measures;  // by a metric's name, "ln_ppl"

  void Add(const std::string& measure, uint64_t seed, double value);
  BySeed ValuesOf(const std::string& measure) const;  // empty where it was not measured
};

// The names of all measures, in the order of the first group that has each.
std::vector<std::string> MeasuresOf(const std::vector<SeedGroup>& groups);

// "2.0410 ± 0.0433": the standard deviation where there are several seeds. Empty of none.
std::string MeanText(const std::string& measure, const BySeed& values);

// A row for each measure and each pair of groups that have a seed in common: the mean of the differences and its
// two-sided 95 % interval.
TextTable DifferencesTable(const std::vector<SeedGroup>& groups);
// The legend of the table's numbers: sentences.
std::string DifferencesNote();

}  // namespace crosstalk
