#include "tools/page/chart.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/output.h"
#include "tools/page/drawing.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

std::string Number(double value, int digits) { return std::isfinite(value) ? FixedText(value, digits) : "–"; }

std::string SpreadText(const IntervalRow& row, int digits) {
  if (!std::isfinite(row.low) || !std::isfinite(row.high)) return "–";
  return StrCat(FixedText(row.low, digits), " to ", FixedText(row.high, digits));
}

bool HasReference(const std::vector<IntervalRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const IntervalRow& row) { return row.reference.has_value(); });
}
bool HasSpread(const std::vector<IntervalRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const IntervalRow& row) { return std::isfinite(row.low); });
}

std::string References(const IntervalChartOptions& options, const Axis& axis) {
  std::string svg;
  for (const ReferenceLine& line : options.references) {
    svg += StrCat("<path class=\"reference\" d=\"M", Across(axis.Place(line.y)), " 0V100\"/>");
  }
  return svg;
}
std::string Grid(const Axis& axis) {
  std::string svg;
  for (const Tick& tick : axis.ticks()) svg += StrCat("<path class=\"grid\" d=\"M", Across(tick.place), " 0V100\"/>");
  return svg;
}

}  // namespace

std::string IntervalChart(const IntervalChartOptions& options, const std::vector<IntervalRow>& rows) {
  if (rows.empty()) return "";
  const Axis axis = IntervalAxis(options, rows);
  const bool references = HasReference(rows), spread = HasSpread(rows);
  const auto head = [](const std::string& text, const char* classes) {
    return StrCat("<th scope=\"col\" class=\"", classes, "\">", EscapeHtml(text), "</th>");
  };
  std::string html = StrCat(
      "<figure class=\"interval-chart\">\n<figcaption>", EscapeHtml(options.title),
      "</figcaption>\n<div class=\"legend\">",
      "<ul><li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"interval s0\" d=\"M2 4H22\"/>",
      "<path class=\"dots s0\" style=\"stroke-width:9\" d=\"M12 4h0\"/></svg><span class=\"name\">",
      EscapeHtml(options.value_label), spread ? StrCat(", ", EscapeHtml(options.spread_label)) : "", "</span></li>");
  if (references) {
    html += StrCat("<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"dots s1\" ",
                   "style=\"stroke-width:11\" d=\"M12 4h0\"/><path class=\"hole\" d=\"M12 4h0\"/></svg>",
                   "<span class=\"name\">", EscapeHtml(options.reference_label), "</span></li>");
  }
  for (const ReferenceLine& line : options.references) {
    html += StrCat("<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"reference\" d=\"M2 4H22\"/></svg>",
                   "<span class=\"name\">", EscapeHtml(line.label), "</span></li>");
  }
  html += StrCat("</ul></div>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"",
                 EscapeHtml(options.title), "\"><table class=\"intervals\">\n<thead><tr><td></td>",
                 "<td class=\"lane\" aria-hidden=\"true\"></td>", head(options.value_label, "number"),
                 spread ? head(options.spread_label, "number") : "",
                 references ? head(options.reference_label, "number") : "", "</tr></thead>\n<tbody>\n");
  const auto number = [](const std::string& name, const std::string& text) {
    return StrCat("<td class=\"number\" data-name=\"", EscapeHtml(name), "\">", text, "</td>");
  };
  const std::string ground = Grid(axis) + References(options, axis);
  for (const IntervalRow& row : rows) {
    html += StrCat("<tr><th scope=\"row\">", EscapeHtml(row.label),
                   "</th><td class=\"lane\" aria-hidden=\"true\"><svg viewBox=\"0 0 1000 100\" ",
                   "preserveAspectRatio=\"none\" focusable=\"false\">", ground, DrawInterval(axis, row, 50),
                   "</svg></td>", number(options.value_label, Number(row.value, options.digits)));
    if (spread) html += number(options.spread_label, SpreadText(row, options.digits));
    if (references) {
      html += number(options.reference_label, row.reference ? Number(*row.reference, options.digits) : "–");
    }
    html += "</tr>\n";
  }
  html += "<tr aria-hidden=\"true\"><td></td><td class=\"lane\"><div class=\"ticks\">";
  for (const Tick& tick : axis.ticks()) {
    html += StrCat("<span class=\"tick", EndClass(tick), "\" style=\"left:", FixedText(100 * tick.place, 2), "%\">",
                   EscapeHtml(tick.label), "</span>");
  }
  return html + "</div></td></tr>\n</tbody></table></div>\n</figure>\n";
}

std::string StandaloneSvg(const IntervalChartOptions& options, const std::vector<IntervalRow>& rows) {
  if (rows.empty()) return "";
  constexpr int kWidth = 760, kRow = 26, kRight = 110;
  const Axis axis = IntervalAxis(options, rows);
  size_t longest = 0;
  for (const IntervalRow& row : rows) longest = std::max(longest, row.label.size());
  const int left = std::min(320, 24 + 7 * static_cast<int>(longest));
  const int width = kWidth - left - kRight;
  const bool references = HasReference(rows);
  const int top = 64 + 20 * static_cast<int>(options.references.size());
  const int plot = kRow * static_cast<int>(rows.size());
  const int height = top + plot + 52;
  std::string svg =
      StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height, "\" width=\"", kWidth,
             "\" height=\"", height, "\" role=\"img\">\n<title>", EscapeHtml(options.title), "</title>\n", FileStyle(),
             "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", "<text class=\"title\" x=\"16\" y=\"26\">",
             EscapeHtml(options.title), "</text>\n");
  svg += StrCat("<path class=\"interval s0\" d=\"M16 42h24\"/><path class=\"dots s0\" style=\"stroke-width:9\" ",
                "d=\"M28 42h0\"/><text class=\"label\" x=\"48\" y=\"46\">", EscapeHtml(options.value_label),
                HasSpread(rows) ? ", " + EscapeHtml(options.spread_label) : "", "</text>\n");
  if (references) {
    svg += StrCat("<path class=\"dots s1\" style=\"stroke-width:11\" d=\"M", left + width / 2, " 42h0\"/>",
                  "<path class=\"hole\" d=\"M", left + width / 2, " 42h0\"/><text class=\"label\" x=\"",
                  left + width / 2 + 14, "\" y=\"46\">", EscapeHtml(options.reference_label), "</text>\n");
  }
  for (size_t i = 0; i < options.references.size(); ++i) {
    const int y = 66 + 20 * static_cast<int>(i);
    svg += StrCat("<path class=\"reference\" d=\"M16 ", y - 4, "h24\"/><text class=\"label\" x=\"48\" y=\"", y, "\">",
                  EscapeHtml(options.references[i].label), "</text>\n");
  }
  svg += StrCat("<svg x=\"", left, "\" y=\"", top, "\" width=\"", width, "\" height=\"", plot,
                "\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">", Grid(axis), References(options, axis),
                "</svg>\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const int y = top + kRow * static_cast<int>(i);
    svg +=
        StrCat("<text class=\"label\" x=\"", left - 12, "\" y=\"", y + kRow / 2 + 5, "\" text-anchor=\"end\">",
               EscapeHtml(rows[i].label), "</text>\n<svg x=\"", left, "\" y=\"", y, "\" width=\"", width,
               "\" height=\"", kRow, "\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" overflow=\"visible\">",
               DrawInterval(axis, rows[i], 50), "</svg>\n<text x=\"", kWidth - 16, "\" y=\"", y + kRow / 2 + 5,
               "\" text-anchor=\"end\">", Number(rows[i].value, options.digits), "</text>\n");
  }
  for (const Tick& tick : axis.ticks()) {
    svg += StrCat("<text x=\"", FixedText(left + tick.place * width, 1), "\" y=\"", top + plot + 20,
                  "\" text-anchor=\"middle\">", EscapeHtml(tick.label), "</text>\n");
  }
  return svg + "</svg>\n";
}

namespace {

// Of a chart's table, each a step at which the curve with the fewest points has one.
constexpr size_t kTableRows = 40;
// With more than so many their labels would lie on each other.
constexpr size_t kLabelledMarks = 3;

std::string AxisNumber(double x) {
  return x == std::floor(x) && std::abs(x) < 1e15 ? CountText(static_cast<int64_t>(x)) : ShortNumber(x);
}

// "4.193", "17,148"; page.js writes a point's value alike.
std::string ValueText(double value) {
  const std::string text = ShortNumber(value);
  const bool whole = std::abs(value) < 1e15 && text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? CountText(std::stoll(text)) : text;
}

// "4.193": a point's value, and of several their range, "4.193 (3.98 to 4.52)".
std::string PointText(const CurvePoint& point, const std::string& unit) {
  const std::string value = ValueText(point.y) + unit;
  if (point.low == point.high) return value;
  return StrCat(value, " (", ValueText(point.low), " to ", ValueText(point.high), ")");
}

// One sentence a curve: what is read aloud.
std::string Summary(const LineChartOptions& options, const ChartDrawing& drawing) {
  std::string text = StrCat("Line chart of ", options.title, " over ", options.x_label, ".");
  for (size_t i = 0; i < drawing.curves.size(); ++i) {
    const std::vector<CurvePoint>& points = drawing.curves[i].points;
    if (points.empty()) continue;
    const auto by_value = [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; };
    const CurvePoint& least = *std::min_element(points.begin(), points.end(), by_value);
    const CurvePoint& most = *std::max_element(points.begin(), points.end(), by_value);
    text +=
        StrCat(" ", drawing.names[i], ": from ", ShortNumber(points.front().y), options.unit, " at ",
               AxisNumber(points.front().x), " to ", ShortNumber(points.back().y), options.unit, " at ",
               AxisNumber(points.back().x), "; least ", ShortNumber(least.y), options.unit, " at ", AxisNumber(least.x),
               ", largest ", ShortNumber(most.y), options.unit, " at ", AxisNumber(most.x), ".");
  }
  return text;
}

template <typename Value>
std::string List(const std::vector<CurvePoint>& points, Value value) {
  std::string text;
  for (const CurvePoint& point : points) text += (text.empty() ? "" : " ") + value(point);
  return text;
}

std::string Legend(const LineChartOptions& options, const ChartDrawing& drawing) {
  std::string html = "<div class=\"legend\"><span class=\"at\">last value</span><ul>\n";
  for (size_t i = 0; i < drawing.curves.size(); ++i) {
    const Curve& curve = drawing.curves[i];
    if (curve.points.empty()) continue;
    const auto number = [](double value) { return ShortNumber(value); };
    html += StrCat("<li data-colour=\"", i % 8, "\" data-x=\"",
                   List(curve.points, [&](const CurvePoint& point) { return number(point.x); }), "\" data-y=\"",
                   List(curve.points, [&](const CurvePoint& point) { return number(point.y); }), "\"");
    if (curve.has_band) {
      html += StrCat(" data-low=\"", List(curve.points, [&](const CurvePoint& point) { return number(point.low); }),
                     "\" data-high=\"", List(curve.points, [&](const CurvePoint& point) { return number(point.high); }),
                     "\"");
    }
    const std::string classes = SeriesClass(i, drawing.curves.size());
    html += StrCat("><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"line ", classes,
                   "\" d=\"M1 4H23\"/></svg><span class=\"name\">", EscapeHtml(drawing.names[i]),
                   "</span><span class=\"value\">", EscapeHtml(ValueText(curve.points.back().y) + options.unit),
                   "</span></li>\n");
  }
  return html + "</ul></div>\n";
}

std::string PercentOf(double place) { return FixedText(100 * place, 2) + "%"; }

std::string Frame(const LineChartOptions& options, const ChartDrawing& drawing) {
  std::string html = "<div class=\"frame\">\n<div class=\"y-axis\" aria-hidden=\"true\">";
  std::string widest;
  for (const Tick& tick : drawing.y.ticks()) {
    if (tick.label.size() > widest.size()) widest = tick.label;
    html +=
        StrCat("<span style=\"bottom:", PercentOf(tick.place), "\">", EscapeHtml(tick.label + options.unit), "</span>");
  }
  html += StrCat("<span class=\"wide-tick\">", EscapeHtml(widest + options.unit), "</span></div>\n");
  html += StrCat("<div class=\"plot\" tabindex=\"0\" role=\"img\" aria-label=\"", EscapeHtml(Summary(options, drawing)),
                 "\" data-x-label=\"", EscapeHtml(options.x_label), "\" data-x-low=\"", drawing.x.low(),
                 "\" data-x-high=\"", drawing.x.high(), "\" data-x-log=\"", drawing.x.is_log() ? "1" : "",
                 "\" data-y-low=\"", drawing.y.low(), "\" data-y-high=\"", drawing.y.high(), "\" data-y-log=\"",
                 drawing.y.is_log() ? "1" : "", "\" data-unit=\"", EscapeHtml(options.unit),
                 "\">\n<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" ",
                 "aria-hidden=\"true\" focusable=\"false\">\n", drawing.svg, "</svg>");
  for (const ReferenceLine& line : options.references) {
    html +=
        StrCat("<span class=\"tag reference-tag\" style=\"bottom:", PercentOf(drawing.y.Place(options.factor * line.y)),
               "\">", EscapeHtml(line.label), "</span>");
  }
  for (const ChartMark& mark : options.marks) {
    if (options.marks.size() > kLabelledMarks) break;
    const double place = drawing.x.Place(mark.x);
    html += StrCat("<span class=\"tag mark-tag", place > 0.5 ? " left" : "", "\" style=\"left:", PercentOf(place),
                   "\">", EscapeHtml(mark.label), "</span>");
  }
  html += "</div>\n<div class=\"x-axis\" aria-hidden=\"true\">";
  const std::vector<Tick>& ticks = drawing.x.ticks();
  for (size_t i = 0; i < ticks.size(); ++i) {
    std::string classes = EndClass(ticks[i]);
    // A narrow screen has room for every second one, the last among them.
    if (ticks.size() > 4 && (ticks.size() - i) % 2 == 0) classes += " spare";
    html += StrCat("<span class=\"tick", classes, "\" style=\"left:", PercentOf(ticks[i].place), "\">",
                   EscapeHtml(ticks[i].label), "</span>");
  }
  return html +
         StrCat("</div>\n<p class=\"x-label\" aria-hidden=\"true\">", EscapeHtml(options.x_label), "</p>\n</div>\n");
}

std::string ValueTable(const LineChartOptions& options, const ChartDrawing& drawing) {
  const Curve* fewest = nullptr;
  for (const Curve& curve : drawing.curves) {
    const bool fewer = fewest == nullptr || curve.points.size() < fewest->points.size();
    if (curve.points.size() > 1 && fewer) fewest = &curve;
  }
  if (fewest == nullptr) fewest = &drawing.curves[0];
  std::vector<std::string> header = {options.x_label};
  header.insert(header.end(), drawing.names.begin(), drawing.names.end());
  std::vector<std::vector<TableCell>> rows;
  const size_t points = fewest->points.size(), every = (points + kTableRows - 1) / kTableRows;
  for (size_t i = 0; i < points; ++i) {
    // Counted from the end, so that the last one is there.
    if ((points - 1 - i) % every != 0) continue;
    const double x = fewest->points[i].x;
    std::vector<TableCell> row = {AxisNumber(x)};
    for (const Curve& curve : drawing.curves) {
      const auto nearer = [x](const CurvePoint& a, const CurvePoint& b) {
        return std::abs(a.x - x) < std::abs(b.x - x);
      };
      const auto nearest = std::min_element(curve.points.begin(), curve.points.end(), nearer);
      const bool near =
          nearest != curve.points.end() && std::abs(nearest->x - x) <= 0.005 * (drawing.x.high() - drawing.x.low());
      row.push_back(near ? PointText(*nearest, options.unit) : "");
    }
    rows.push_back(std::move(row));
  }
  return StrCat("<details><summary>Values as a table</summary>\n", HtmlTable(header, rows, {.caption = options.title}),
                "</details>\n");
}

std::string AxesText(const LineChartOptions& options, const ChartDrawing& drawing) {
  std::vector<std::string> parts;
  if (!options.y_label.empty()) parts.push_back(options.y_label);
  if (drawing.y.is_log()) parts.push_back("logarithmic");
  for (const Curve& curve : drawing.curves) {
    if (!curve.has_band) continue;
    parts.push_back("line: mean, band: range");
    break;
  }
  return Join(parts, ", ");
}

// Marks where the curves are.
LineChartOptions WithinRange(const LineChartOptions& options, const std::vector<Series>& series) {
  LineChartOptions within = options;
  double low = 0, high = -1;
  for (const Series& one : series) {
    for (const double x : one.x) {
      if (!std::isfinite(x)) continue;
      if (low > high) low = high = x;
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  std::erase_if(within.marks, [&](const ChartMark& mark) { return !(mark.x >= low && mark.x <= high); });
  std::erase_if(within.references, [](const ReferenceLine& line) { return !std::isfinite(line.y); });
  return within;
}

}  // namespace

std::string LineChart(const LineChartOptions& given, const std::vector<Series>& series) {
  const LineChartOptions options = WithinRange(given, series);
  const ChartDrawing drawing = DrawChart(options, series);
  if (drawing.empty) return "";
  const std::string axes = AxesText(options, drawing);
  return StrCat("<figure class=\"chart", options.width == ChartWidth::kWide ? " wide" : "", "\">\n<figcaption>",
                EscapeHtml(options.title), axes.empty() ? "" : StrCat(" <small>", EscapeHtml(axes), "</small>"),
                "</figcaption>\n", Legend(options, drawing), Frame(options, drawing), ValueTable(options, drawing),
                "</figure>\n");
}

std::string StandaloneSvg(const LineChartOptions& given, const std::vector<Series>& series) {
  constexpr int kWidth = 760, kPlotHeight = 340, kRight = 16;
  const LineChartOptions options = WithinRange(given, series);
  const ChartDrawing drawing = DrawChart(options, series);
  if (drawing.empty) return "";
  size_t widest = 0;
  for (const Tick& tick : drawing.y.ticks()) widest = std::max(widest, (tick.label + options.unit).size());
  const int left = 24 + 8 * static_cast<int>(widest);
  const int width = kWidth - left - kRight;
  // Title, a legend's line a series, plot, ticks, label.
  const int top = 44 + 20 * static_cast<int>(drawing.curves.size());
  const int height = top + kPlotHeight + 52;
  const auto x_of = [&](double place) { return FixedText(left + place * width, 1); };
  const auto y_of = [&](double place) { return FixedText(top + (1 - place) * kPlotHeight, 1); };
  const std::string axes = AxesText(options, drawing);
  std::string svg =
      StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", height, "\" width=\"", kWidth,
             "\" height=\"", height, "\" role=\"img\">\n<title>", EscapeHtml(Summary(options, drawing)), "</title>\n",
             FileStyle(), "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n<text class=\"title\" x=\"", left,
             "\" y=\"26\">", EscapeHtml(options.title), "</text>\n");
  for (size_t i = 0; i < drawing.curves.size(); ++i) {
    const int y = 46 + 20 * static_cast<int>(i);
    svg += StrCat("<path class=\"line ", SeriesClass(i, drawing.curves.size()), "\" d=\"M", left, " ", y - 4,
                  "h28\"/><text class=\"label\" x=\"", left + 36, "\" y=\"", y, "\">", EscapeHtml(drawing.names[i]),
                  "</text>\n");
  }
  svg += StrCat("<svg x=\"", left, "\" y=\"", top, "\" width=\"", width, "\" height=\"", kPlotHeight,
                "\" viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\">\n", drawing.svg, "</svg>\n",
                "<path class=\"base\" d=\"M", left, " ", top + kPlotHeight, "h", width, "\"/>\n");
  for (const Tick& tick : drawing.y.ticks()) {
    svg += StrCat("<text x=\"", left - 8, "\" y=\"", y_of(tick.place), "\" dy=\"4\" text-anchor=\"end\">",
                  EscapeHtml(tick.label + options.unit), "</text>\n");
  }
  for (const Tick& tick : drawing.x.ticks()) {
    svg += StrCat("<text x=\"", x_of(tick.place), "\" y=\"", top + kPlotHeight + 18, "\" text-anchor=\"middle\">",
                  EscapeHtml(tick.label), "</text>\n");
  }
  for (const ReferenceLine& line : options.references) {
    svg += StrCat("<text x=\"", left + width, "\" y=\"", y_of(drawing.y.Place(options.factor * line.y)),
                  "\" dy=\"-4\" text-anchor=\"end\">", EscapeHtml(line.label), "</text>\n");
  }
  return svg + StrCat("<text x=\"", left + width, "\" y=\"", height - 12, "\" text-anchor=\"end\">",
                      EscapeHtml(options.x_label + (axes.empty() ? "" : "; " + axes)), "</text>\n</svg>\n");
}

}  // namespace crosstalk
