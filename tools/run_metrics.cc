#include "tools/run_metrics.h"

#include <utility>

#include "tools/statistics.h"

namespace crosstalk {

std::optional<double> MedianOfKnown(std::vector<double> values) {
  return values.empty() ? std::nullopt : std::optional<double>(Median(std::move(values)));
}

std::optional<double> MedianStepSeconds(const std::vector<Json>& metrics) {
  std::vector<double> seconds;
  for (const Json& line : metrics) {
    const Json* value = line.At("event").AsString() == "train" ? line.Find("seconds") : nullptr;
    if (value != nullptr && value->is_number()) seconds.push_back(value->AsDouble());
  }
  return MedianOfKnown(std::move(seconds));
}

}  // namespace crosstalk
