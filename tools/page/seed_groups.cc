#include "tools/page/seed_groups.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "crosstalk/models/metrics.h"
#include "crosstalk/runtime/check.h"
#include "tools/cli/training_observer.h"
#include "tools/page/run_record.h"

namespace crosstalk {
namespace {

constexpr double kDifferencesLevel = 0.95;
constexpr int kMeasureDigits = 4;

std::string MeasureText(const std::string& measure, double value) {
  return MetricText({measure, value}, value, kMeasureDigits);
}

}  // namespace

void SeedGroup::Add(const std::string& measure, uint64_t seed, double value) {
  const auto named = [&measure](const auto& one) { return one.first == measure; };
  auto place = std::find_if(measures.begin(), measures.end(), named);
  if (place == measures.end()) place = measures.insert(place, {measure, {}});
  place->second.emplace(seed, value);
}

BySeed SeedGroup::ValuesOf(const std::string& measure) const {
  for (const auto& [name, values] : measures) {
    if (name == measure) return values;
  }
  return {};
}

std::vector<std::string> MeasuresOf(const std::vector<SeedGroup>& groups) {
  std::vector<std::string> names;
  for (const SeedGroup& group : groups) {
    for (const auto& [name, values] : group.measures) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string MeanText(const std::string& measure, const BySeed& values) {
  if (values.empty()) return "";
  const MeanAndDeviation summary = Summarise(ValuesOf(values));
  return StrCat(MeasureText(measure, summary.mean),
                values.size() > 1 ? " ± " + MeasureText(measure, summary.deviation) : "");
}

TextTable DifferencesTable(const std::vector<SeedGroup>& groups) {
  TextTable table = {{"held-out", "of", "less that of", "difference (mean)", "95 % interval", "seeds"}, {}};
  for (const std::string& measure : MeasuresOf(groups)) {
    std::vector<BySeed> values;
    for (const SeedGroup& group : groups) values.push_back(group.ValuesOf(measure));
    for (const SettingPair& pair : PairsOfSettings(values, kDifferencesLevel)) {
      const std::optional<Interval>& interval = pair.interval;
      table.rows.push_back(
          {MeasureLabel(measure), groups[pair.of].name, groups[pair.less].name,
           MeasureText(measure, Summarise(ValuesOf(pair.differences)).mean),
           interval ? StrCat(MeasureText(measure, interval->low), " … ", MeasureText(measure, interval->high)) : "",
           StrCat(pair.differences.size())});
    }
  }
  return table;
}

std::string DifferencesNote() {
  return "Each difference is between runs of the same seed: their mean, and its two-sided 95 % interval by Student's "
         "t, "
         "which takes two seeds or more. How far runs scatter is taken from all settings together. Each interval "
         "stands "
         "alone: of twenty pairs without a difference one is expected to miss 0.";
}

}  // namespace crosstalk
