#include "tools/page/drawing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "tools/cli/output.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

constexpr size_t kColours = 8, kDashes = 4;
// Up to so many points of a curve are marked each.
constexpr size_t kMarkedPoints = 60;
constexpr size_t kFewestColumns = 40, kMostColumns = 240;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
};

// From the colours' file: "--ink: #1b1e23;" gives the value of "--ink".
std::string_view ColourOf(std::string_view colours, std::string_view name) {
  const size_t at = colours.find(StrCat(name, ": "));
  if (at == std::string_view::npos) return "currentColor";
  const size_t begin = at + name.size() + 2;
  return colours.substr(begin, colours.find(';', begin) - begin);
}

std::string WithColours(std::string_view style, std::string_view colours) {
  std::string out;
  for (size_t at = 0; at < style.size();) {
    const size_t var = style.find("var(", at);
    out += style.substr(at, var - at);
    if (var == std::string_view::npos) break;
    const size_t end = style.find(')', var);
    out += ColourOf(colours, style.substr(var + 4, end - var - 4));
    at = end + 1;
  }
  return out;
}

constexpr char kFileText[] =
    ".ground { fill: var(--ground); }\n"
    "text { font: 13px system-ui, -apple-system, \"Segoe UI\", Roboto, \"Noto Sans\", sans-serif; fill: var(--soft); "
    "}\n"
    ".title { font-size: 16px; font-weight: 650; fill: var(--ink); }\n"
    ".label { fill: var(--ink); }\n"
    ".base { stroke: var(--soft); stroke-width: 1; }\n";

// A path's pieces of one curve.
struct Paths {
  std::string line, dots, band;
};

Paths PathsOf(const Curve& curve, const Axis& x, const Axis& y) {
  Paths paths;
  const bool marked = curve.points.size() <= kMarkedPoints;
  const auto visible = [&](double value) { return !y.is_log() || value > 0; };
  std::string upper, lower;  // of the stretch without a gap that is being drawn; lower from its end
  const auto close_band = [&] {
    if (!upper.empty() && curve.has_band) paths.band += StrCat("M", upper.substr(1), lower, "Z");
    upper.clear();
    lower.clear();
  };
  bool pen = false;
  for (const CurvePoint& point : curve.points) {
    if (point.begins) close_band();
    if (!visible(point.y)) {
      pen = false;
      continue;
    }
    const std::string px = Across(x.Place(point.x)), py = Down(y.Place(point.y));
    paths.line += StrCat(pen && !point.begins ? "L" : "M", px, " ", py);
    pen = true;
    if (marked) paths.dots += StrCat("M", px, " ", py, "h0");
    if (curve.has_band) {
      const double low = visible(point.low) ? point.low : y.low();
      upper += StrCat("L", px, " ", Down(y.Place(point.high)));
      lower = StrCat("L", px, " ", Down(y.Place(low)), lower);
    }
  }
  close_band();
  return paths;
}

}  // namespace

std::string Across(double place) {
  std::string text = FixedText(kBox * place, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}
std::string Down(double place) { return Across(1 - place); }

std::string SeriesClass(size_t index, size_t count) {
  // The ninth series has the first one's colour, and another dash: 32 of them differ.
  const size_t dash = (index + index / kColours) % kDashes;
  return StrCat("s", index % kColours, count > 1 ? StrCat(" d", dash) : "");
}

ChartDrawing DrawChart(const LineChartOptions& options, const std::vector<Series>& series) {
  ChartDrawing drawing;
  const size_t columns =
      std::clamp(options.most_points / std::max<size_t>(1, series.size()), kFewestColumns, kMostColumns);
  Range x, y;
  for (const Series& one : series) {
    Series scaled = one;
    for (std::vector<double>* values : {&scaled.y, &scaled.low, &scaled.high}) {
      for (double& value : *values) value *= options.factor;
    }
    drawing.curves.push_back(Thinned(scaled, columns));
    drawing.names.push_back(one.name);
    for (const CurvePoint& point : drawing.curves.back().points) {
      x.Take(point.x);
      y.Take(point.low);
      y.Take(point.high);
    }
  }
  if (x.empty() || y.empty()) return drawing;
  drawing.empty = false;
  for (const ReferenceLine& line : options.references) y.Take(options.factor * line.y);
  if (options.y_from_zero) y.Take(0);
  const bool log = y.low > 0 && (options.y_scale == AxisScale::kLog ||
                                 (options.y_scale == AxisScale::kLogIfWide && y.high / y.low > 100));
  if (log) {
    const double margin = std::pow(y.high / y.low, 0.04);
    drawing.y = Axis(y.low / margin, y.high * margin, AxisScale::kLog, 5);
  } else {
    const double margin = 0.04 * (y.high - y.low);
    const bool at_zero = options.y_from_zero && y.low == 0;
    drawing.y = Axis(at_zero ? 0 : y.low - margin, y.high + margin, AxisScale::kLinear, 5);
  }
  drawing.x = Axis(x.low, x.high, options.x_scale, 5);

  std::string svg;
  for (const Tick& tick : drawing.y.ticks()) {
    svg += StrCat("<path class=\"grid\" d=\"M0 ", Down(tick.place), "H1000\"/>");
  }
  for (const ChartMark& mark : options.marks) {
    svg += StrCat("<path class=\"mark\" d=\"M", Across(drawing.x.Place(mark.x)), " 0V1000\"/>");
  }
  for (const ReferenceLine& line : options.references) {
    svg += StrCat("<path class=\"reference\" d=\"M0 ", Down(drawing.y.Place(options.factor * line.y)), "H1000\"/>");
  }
  std::string bands, lines;
  for (size_t i = 0; i < drawing.curves.size(); ++i) {
    const std::string classes = SeriesClass(i, series.size());
    const Paths paths = PathsOf(drawing.curves[i], drawing.x, drawing.y);
    if (!paths.band.empty()) bands += StrCat("<path class=\"band ", classes, "\" d=\"", paths.band, "\"/>\n");
    lines += StrCat("<path class=\"line ", classes, "\" d=\"", paths.line, "\"/>\n");
    if (!paths.dots.empty()) lines += StrCat("<path class=\"dots ", classes, "\" d=\"", paths.dots, "\"/>\n");
  }
  drawing.svg = svg + "\n" + bands + lines;
  return drawing;
}

const char* EndClass(const Tick& tick) { return tick.place < 0.04 ? " first" : tick.place > 0.96 ? " last" : ""; }

Axis IntervalAxis(const IntervalChartOptions& options, const std::vector<IntervalRow>& rows) {
  Range range;
  for (const IntervalRow& row : rows) {
    for (const double value : {row.value, row.low, row.high}) range.Take(value);
    if (row.reference) range.Take(*row.reference);
  }
  for (const ReferenceLine& line : options.references) range.Take(line.y);
  if (range.empty()) return Axis(0, 1, AxisScale::kLinear, 4);
  const double margin = 0.04 * (range.high - range.low);
  return Axis(range.low - margin, range.high + margin, AxisScale::kLinear, 4);
}

std::string DrawInterval(const Axis& axis, const IntervalRow& row, size_t middle) {
  std::string svg;
  if (std::isfinite(row.low) && std::isfinite(row.high) && row.high > row.low) {
    svg += StrCat("<path class=\"interval s0\" d=\"M", Across(axis.Place(row.low)), " ", middle, "H",
                  Across(axis.Place(row.high)), "\"/>");
  }
  const auto dot = [&](const char* classes, double value, const char* style) {
    return StrCat("<path class=\"", classes, "\"", style, " d=\"M", Across(axis.Place(value)), " ", middle, "h0\"/>");
  };
  if (row.reference && std::isfinite(*row.reference)) {
    svg += dot("dots s1", *row.reference, " style=\"stroke-width:11\"") + dot("hole", *row.reference, "");
  }
  if (std::isfinite(row.value)) svg += dot("dots s0", row.value, " style=\"stroke-width:9\"");
  return svg;
}

std::string FileStyle() {
  const std::string style = std::string(kChartStyle) + kFileText;
  return StrCat("<style>\n", WithColours(style, kLightStyle), "@media (prefers-color-scheme: dark) {\n",
                WithColours(style, kDarkStyle), "}\n</style>\n");
}

}  // namespace crosstalk
