// Runs that differ in their seed alone: those of a command, FOLDER/seed-1, seed-2, …, with the summary of their scores;
// and settings that were each trained with several seeds, with the differences between them, paired by seed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/runtime/json.h"
#include "tools/cli/output.h"
#include "tools/cli/statistics.h"

namespace crosstalk {

// The runs of a command that differ in their seed alone, FOLDER/seed-1, seed-2, …, and the summary of their scores.

// The inputs that decide a run's bits besides its configuration, as its run.json has it: the text or rows, and the
// weights that it began with.
std::string InputsOf(const Json& run_file);

// Error where the folder holds anything but runs of seeds and their summary (kUsage), or a run whose configuration is
// another than `config`, the seed aside (kData, as of any run).
void CheckFolderOfSeeds(const std::string& folder, const TrainingConfig& config);

// A finished run.
struct SeedRun {
  uint64_t seed;
  std::string folder;
  Json scores;  // its scores.json, checked
};
SeedRun FinishedRun(uint64_t seed, const std::string& folder);
// `done` and the other finished runs of the folder that saw the same rows and began with the same weights, by seed.
// Says which are left out.
std::vector<SeedRun> WithEarlierSeeds(const std::string& folder, std::vector<SeedRun> done);

// {"score": {"mean", "deviation", "seeds"}, "tasks": {NAME: {MEASURE: {"mean", …}, …, "constant_guess"}}, "runs": […]};
// "seeds" is how many have the measure; null where none has.
Json SeedsJson(const std::vector<SeedRun>& runs);
// The same as a table.
std::string SeedsText(const Json& summary);

// Settings that were each trained with several seeds: the mean of each, and the differences between them, paired by
// seed.

// Runs that differ in their seed alone.
struct SeedGroup {
  std::string name;                                      // what tells it from the others
  std::vector<std::pair<std::string, BySeed>> measures;  // by a metric's name, "ln_ppl"

  void Add(const std::string& measure, uint64_t seed, double value);
  BySeed ValuesOf(const std::string& measure) const;  // empty where it was not measured
};

// The names of all measures, in the order of the first group that has each.
std::vector<std::string> MeasuresOf(const std::vector<SeedGroup>& groups);

// "2.0410 ± 0.0433": the standard deviation if there are several seeds. Empty for none.
std::string MeanText(const std::string& measure, const BySeed& values);

// Two settings that have a seed in common, on a measure.
struct SettingDifference {
  std::string measure = {}, label = {};          // its name, and what people call it
  std::function<std::string(double)> text = {};  // of its values
  std::string of = {}, less = {};                // the settings
  SettingPair pair = {};
};
// Adds each two of the settings, which are named, with their values of the measure.
void AddDifferences(const SettingDifference& measure, const std::vector<std::pair<std::string, BySeed>>& settings,
                    std::vector<SettingDifference>* differences);
// The mean of the differences and its two-sided 95 % interval.
Columns<SettingDifference> DifferenceColumns(const std::string& measure_heading);
// All measures of the groups.
TextTable DifferencesTable(const std::vector<SeedGroup>& groups);
// {"1": 2.041, …}, and [low, high].
Json BySeedJson(const BySeed& values);
TableValue IntervalValue(const std::optional<Interval>& interval, const std::function<std::string(double)>& text);
// The legend of the table's numbers: sentences.
std::string DifferencesNote();

}  // namespace crosstalk
