#include "tools/lab/experiment/table.h"

#include "crosstalk/models/metrics.h"

namespace crosstalk {

namespace {

bool IsMetric(const TableMeasure& measure) { return measure.task.empty() && measure.mean_of.empty(); }
MetricDisplay DisplayOf(const TableMeasure& measure) { return crosstalk::DisplayOf({.name = measure.name}); }

}  // namespace

TableMeasure MeasureOfMetric(const std::string& name) {
  return {.name = name, .label = crosstalk::DisplayOf({.name = name}).label};
}

bool LowerIsBetter(const TableMeasure& measure) {
  return measure.curve_below || (IsMetric(measure) && DisplayOf(measure).lower_is_better);
}

int ShownDigits(const TableMeasure& measure) {
  if (measure.curve_below) return 0;
  return IsMetric(measure) && !DisplayOf(measure).is_share ? 4 : 2;
}

std::optional<double> TableRow::Printed(const std::string& key) const {
  const Json* value = paper.Find(key);
  return value != nullptr && value->is_number() ? std::optional<double>(value->AsDouble()) : std::nullopt;
}

}  // namespace crosstalk
