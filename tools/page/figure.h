// Figure: numbers drawn as curves, as intervals below each other, or as the cells of a matrix. Each is drawn once, as
// SVG that fits any width, for a page and for a file of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/json.h"
#include "tools/cli/output.h"
#include "tools/page/axis.h"

namespace crosstalk {

// Across the figure: what it is compared with ("entropy bound"), and where something happened ("resumed").
struct ReferenceLine {
  std::string label;
  double y = 0;
};
struct ChartMark {
  std::string label;
  double x = 0;
};

struct LineChart {
  std::string title;
  std::string x_label = "step";
  std::string y_label = {};  // "nats a token"; may be empty
  AxisScale x_scale = AxisScale::kWhole;
  bool y_from_zero = false;
  AxisScale y_scale = AxisScale::kLinear;
  double factor = 1;      // values are shown times this: 100 for shares in per cent
  std::string unit = {};  // after a value: " %"
  std::vector<ReferenceLine> references = {};
  std::vector<ChartMark> marks = {};
  // All curves together have so many; a curve with more is drawn as the mean and the range of each of its columns.
  size_t most_points = 1800;
  bool wide = false;
  std::vector<Series> series = {};
};

// A value with its spread; NaN in low and high: none is known. `reference`: what others have measured of it.
struct IntervalRow {
  std::string label;
  double value = 0, low = 0, high = 0;
  std::optional<double> reference = {};
};
struct IntervalChart {
  std::string title;
  std::string value_label = "value";          // heads the column of values
  std::string spread_label = "interval";      // heads the column of low and high
  std::string reference_label = "reference";  // names the hollow points
  int digits = 4;                             // after the point
  std::vector<ReferenceLine> references = {};
  std::vector<IntervalRow> rows = {};
};

// A matrix as an image whose cells are the more opaque the larger they are. Values that are not finite are shown as 0
// and counted in the caption. A map takes about a byte a cell and 1.6 kB, and with exact values some 30 bytes a cell.
struct HeatMap {
  std::string title;
  // Empty: numbers from 1. Only some are written beside a large map; the pointer reads all.
  std::vector<std::string> row_labels = {}, column_labels = {};
  std::string row_name = "row", column_name = "column";  // what is numbered: "head of keys"
  // Values from -most to most in two colours; else from 0 to most in one, and what is below 0 is nothing.
  bool diverging = false;
  double most = 0;         // 0: the largest |value|
  double cell_pixels = 0;  // 0: by the number of cells
  // With more cells the page knows the values to two digits, and has no table of them.
  int64_t most_exact = 1024;
  int64_t rows = 0, columns = 0;
  std::vector<float> values = {};  // values[rows, columns]
};

// What all of these become; empty where no value is finite.
struct Figure {
  Figure(const LineChart& chart);
  Figure(const IntervalChart& chart);
  Figure(const HeatMap& map);

  bool empty() const { return plot.empty(); }
  // <figure> of a page: caption, legend, drawing, the record that the page's script reads, and a table.
  std::string Html() const;

  struct Entry {      // a line of the legend
    std::string key;  // SVG of 28 by 8
    std::string name, value;
  };

  std::string kind;     // the element's classes
  std::string title;    // plain text, as the next three
  std::string detail;   // beside the title: "nats, logarithmic"
  std::string spoken;   // what is read aloud
  std::string readout;  // a line above the drawing, in which values appear
  std::vector<Entry> legend;
  std::string plot;  // SVG, in per cent of the plot's width and height
  // Pixels of the labels around the plot, and of the plot in a file; width 0: all that there is.
  int left = 0, right = 0, bottom = 0, width = 0, height = 0;
  std::string style;  // variables that the style sheet reads
  Json record;
  TextTable table;
};

// Drawings below each other as a file: figure.svg with its own style, in both colour schemes. Lines of text come first.
std::string StandaloneSvg(const std::vector<Figure>& figures, const std::vector<std::string>& notes = {});

// Parts of a plot, for those who draw one.

// Finite values.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Take(double value) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
};

inline constexpr int kLetterPixels = 7, kLabelGap = 8;
// Characters of UTF-8.
int Letters(std::string_view text);
// "12.5%": a place from 0 to 1.
std::string PlaceText(double place);
// <text> at a place of the plot, moved by pixels.
std::string SvgText(const std::string& text, const std::string& x, const std::string& y, int dx, int dy,
                    const char* anchor = "start", const char* classes = "");
// A number of the record, to the digits of ShortNumber.
Json RecordedNumber(double value);

}  // namespace crosstalk
