// The results in the metrics of a finished run, for commands that set several runs side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The median; none of none.
std::optional<double> MedianOfKnown(std::vector<double> values);

// Seconds of a step, the median, from the lines of metrics.jsonl (ReadMetrics), so that a run that was trained before
// counts too. None if the lines of the steps are lost.
std::optional<double> MedianStepSeconds(const std::vector<Json>& metrics);

}  // namespace crosstalk
