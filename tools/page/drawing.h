// What a page's charts and those in files have in common.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/page/axis.h"
#include "tools/page/chart.h"

namespace crosstalk {

// A drawing's box is 1000 by 1000, stretched to its place.
inline constexpr double kBox = 1000;

// "123.4": a coordinate in the box of a place from 0 to 1.
std::string Across(double place);
std::string Down(double place);

// The classes of a series' colour and dash.
std::string SeriesClass(size_t index, size_t count);

struct ChartDrawing {
  std::vector<Curve> curves;
  std::vector<std::string> names;
  Axis x{0, 1, AxisScale::kLinear, 5};
  Axis y{0, 1, AxisScale::kLinear, 5};
  std::string svg;  // what stands in <svg viewBox="0 0 1000 1000">
  bool empty = true;
};
ChartDrawing DrawChart(const LineChartOptions& options, const std::vector<Series>& series);

// " first" or " last" of a tick so near an end that a label in its middle would be cut off, else "".
const char* EndClass(const Tick& tick);

// The axis on which a table's intervals lie.
Axis IntervalAxis(const IntervalChartOptions& options, const std::vector<IntervalRow>& rows);
// A row's interval, value and reference in <svg viewBox="0 0 1000 100">, at the height of its middle.
std::string DrawInterval(const Axis& axis, const IntervalRow& row, size_t middle);

// <style> of a drawing in a file of its own: colours as they are, for programs that know no variables.
std::string FileStyle();

}  // namespace crosstalk
