// The results in the metrics of a finished run, for commands that set several runs side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The largest loss, score, time or energy that is read of a file: no run comes near it, and the squares of sums of such
// numbers are finite.
inline constexpr double kMostMeasure = 1e100;
// Error(kData) with `source` and the key where a number of a line of metrics.jsonl is larger, or as far below 0.
void CheckMeasures(const Json& line, const std::string& source);

// The median; none of none.
std::optional<double> MedianOfKnown(std::vector<double> values);

// Seconds of a step, the median, from the lines of metrics.jsonl (ReadMetrics), so that a run that was trained before
// counts too. None if the lines of the steps are lost.
std::optional<double> MedianStepSeconds(const std::vector<Json>& metrics);

}  // namespace crosstalk
