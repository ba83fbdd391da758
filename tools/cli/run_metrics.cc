#include "tools/cli/run_metrics.h"

#include <cmath>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/statistics.h"

namespace crosstalk {

void CheckMeasures(const Json& line, const std::string& source) {
  for (const auto& [key, value] : line.AsObject()) {
    if (value.is_object()) CheckMeasures(value, source);
    if (!value.is_number() || std::abs(value.AsDouble()) <= kMostMeasure) continue;
    Fail(ErrorKind::kData, source, ": ", Excerpt(key), ": is not between ", -kMostMeasure, " and ", kMostMeasure);
  }
}

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
