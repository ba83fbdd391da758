// Charts of a page: curves, and intervals beside a reference. Each is whole without a script; with the page's, the
// pointer and the arrow keys read values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/page/axis.h"

namespace crosstalk {

// Across the chart: what a curve is compared with ("entropy bound"), and where something happened ("resumed").
struct ReferenceLine {
  std::string label;
  double y = 0;
};
struct ChartMark {
  std::string label;
  double x = 0;
};

enum class ChartWidth { kColumn, kWide };

struct LineChartOptions {
  std::string title;
  std::string x_label = "step";
  std::string y_label;  // "nats a token"; may be empty
  AxisScale x_scale = AxisScale::kWhole;
  bool y_from_zero = false;
  AxisScale y_scale = AxisScale::kLinear;
  double factor = 1;  // values are shown times this: 100 for shares in per cent
  std::string unit;   // after a value: " %"
  std::vector<ReferenceLine> references;
  std::vector<ChartMark> marks;
  // Of all curves together; a curve of more is drawn as the mean and the range of each of its columns.
  size_t most_points = 1800;
  ChartWidth width = ChartWidth::kColumn;
};

// <figure> with a legend, an <svg> and a table of values. Empty where no series has a value.
std::string LineChart(const LineChartOptions& options, const std::vector<Series>& series);
// The same drawing as a file: figure.svg with its own style, in both colour schemes.
std::string StandaloneSvg(const LineChartOptions& options, const std::vector<Series>& series);

// A value with its spread; NaN in low and high: none is known. `reference`: what others have measured of it.
struct IntervalRow {
  std::string label;
  double value = 0, low = 0, high = 0;
  std::optional<double> reference = {};
};
struct IntervalChartOptions {
  std::string title;
  std::string value_label = "value";          // of the axis, and of the column of values
  std::string spread_label = "interval";      // of the column of low and high
  std::string reference_label = "reference";  // of the hollow points
  int digits = 4;                             // after the point
  std::vector<ReferenceLine> references;      // across all rows: a 0 that differences are compared with
};

// <figure> with a table, a row each, whose lanes are drawn on one axis.
std::string IntervalChart(const IntervalChartOptions& options, const std::vector<IntervalRow>& rows);
std::string StandaloneSvg(const IntervalChartOptions& options, const std::vector<IntervalRow>& rows);

}  // namespace crosstalk
