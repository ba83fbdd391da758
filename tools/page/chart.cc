#include <algorithm>
#include <cmath>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"
#include "tools/page/figure.h"
#include "tools/page/page.h"

namespace crosstalk {
namespace {

constexpr size_t kColours = 8, kDashes = 4;
// A curve with so many points at most has a dot at each.
constexpr size_t kMarkedPoints = 60;
constexpr size_t kFewestColumns = 40, kMostColumns = 240;
constexpr size_t kTableRows = 40;
// The labels of more marks would lie on each other.
constexpr size_t kLabelledMarks = 3;

// "123.4": the same in a box of 1000 by 1000 that is stretched to the plot.
std::string Across(double place) {
  std::string text = FixedText(1000 * place, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}
std::string Down(double place) { return Across(1 - place); }

std::string Stretched(const std::string& paths) {
  return StrCat("<svg viewBox=\"0 0 1000 1000\" width=\"100%\" height=\"100%\" preserveAspectRatio=\"none\" ",
                "overflow=\"visible\">\n", paths, "</svg>\n");
}

std::string Path(const std::string& classes, const std::string& d) {
  return d.empty() ? "" : StrCat("<path class=\"", classes, "\" d=\"", d, "\"/>\n");
}

// What stands below the plot.
std::string XTicks(const Axis& axis) {
  std::string svg = "<line class=\"base\" x1=\"0\" y1=\"100%\" x2=\"100%\" y2=\"100%\"/>\n";
  const std::vector<Tick>& ticks = axis.ticks();
  for (size_t i = 0; i < ticks.size(); ++i) {
    const double place = ticks[i].place;
    // A narrow screen has room for every second one, the last among them.
    const bool spare = ticks.size() > 4 && (ticks.size() - i) % 2 == 0;
    svg += SvgText(ticks[i].label, PlaceText(place), "100%", 0, 18,
                   place < 0.04   ? "start"
                   : place > 0.96 ? "end"
                                  : "middle",
                   spare ? "spare" : "");
  }
  return svg;
}

std::string SeriesClass(size_t index, size_t count) {
  // The ninth series has the first one's colour, and another dash: 32 of them differ.
  const size_t dash = (index + index / kColours) % kDashes;
  return StrCat("s", index % kColours, count > 1 ? StrCat(" d", dash) : "");
}

std::string AxisNumber(double x) {
  return x == std::floor(x) && std::abs(x) < 1e15 ? CountText(static_cast<int64_t>(x)) : ShortNumber(x);
}

// "4.193", "17,148"; page.js writes a point's value alike.
std::string ValueText(double value) {
  const std::string text = ShortNumber(value);
  const bool whole = std::abs(value) < 1e15 && text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? CountText(std::stoll(text)) : text;
}

// "4.193": a point's value, or the mean of several and their range, "4.193 (3.98 to 4.52)".
std::string PointText(const CurvePoint& point, const std::string& unit) {
  const std::string value = ValueText(point.y) + unit;
  if (point.low == point.high) return value;
  return StrCat(value, " (", ValueText(point.low), " to ", ValueText(point.high), ")");
}

template <typename Number>
Json Recorded(const std::vector<CurvePoint>& points, Number CurvePoint::*number) {
  Json list = Json::MakeArray();
  for (const CurvePoint& point : points) list.Append(RecordedNumber(point.*number));
  return list;
}

Json Recorded(const Axis& axis) { return Json::MakeArray({axis.low(), axis.high(), axis.is_log()}); }

struct Paths {
  std::string line, dots, band;
};
Paths PathsOf(const Curve& curve, const Axis& x, const Axis& y) {
  Paths paths;
  const bool marked = curve.points.size() <= kMarkedPoints;
  const auto visible = [&](double value) { return !y.is_log() || value > 0; };
  std::string upper, lower;  // the band since the last gap; lower from its end
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

Axis YAxis(const LineChart& chart, Range range) {
  for (const ReferenceLine& line : chart.references) range.Take(chart.factor * line.y);
  if (chart.y_from_zero) range.Take(0);
  const bool log = range.low > 0 && (chart.y_scale == AxisScale::kLog ||
                                     (chart.y_scale == AxisScale::kLogIfWide && range.high / range.low > 100));
  if (log) {
    const double margin = std::pow(range.high / range.low, 0.04);
    return Axis(range.low / margin, range.high * margin, AxisScale::kLog, 5);
  }
  const double margin = 0.04 * (range.high - range.low);
  const bool at_zero = chart.y_from_zero && range.low == 0;
  return Axis(at_zero ? 0 : range.low - margin, range.high + margin, AxisScale::kLinear, 5);
}

// A row for each point, thinned, of the curve that has the fewest, with the others' values near it.
TextTable TableOf(const LineChart& chart, const std::vector<Curve>& curves, double near) {
  const Curve* fewest = &curves[0];
  for (const Curve& curve : curves) {
    const bool fewer = fewest->points.size() < 2 || curve.points.size() < fewest->points.size();
    if (curve.points.size() > 1 && fewer) fewest = &curve;
  }
  TextTable table{{chart.x_label}, {}};
  for (const Series& one : chart.series) table.header.push_back(one.name);
  const size_t points = fewest->points.size(), every = (points + kTableRows - 1) / kTableRows;
  for (size_t i = 0; i < points; ++i) {
    if ((points - 1 - i) % every != 0) continue;  // counted from the end, so that the last one is there
    const double x = fewest->points[i].x;
    std::vector<std::string>& row = table.rows.emplace_back(1, AxisNumber(x));
    for (const Curve& curve : curves) {
      const auto nearest = std::min_element(
          curve.points.begin(), curve.points.end(),
          [x](const CurvePoint& a, const CurvePoint& b) { return std::abs(a.x - x) < std::abs(b.x - x); });
      const bool found = nearest != curve.points.end() && std::abs(nearest->x - x) <= near;
      row.push_back(found ? PointText(*nearest, chart.unit) : "");
    }
  }
  return table;
}

// "training: from 5.5 at 1 to 2.4 at 120; least …": a sentence for a curve.
std::string Spoken(const std::string& name, const std::vector<CurvePoint>& points, const std::string& unit) {
  const auto by_value = [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; };
  const auto text = [&](const CurvePoint& point) {
    return StrCat(ShortNumber(point.y), unit, " at ", AxisNumber(point.x));
  };
  const auto [least, most] = std::minmax_element(points.begin(), points.end(), by_value);
  return StrCat(" ", name, ": from ", text(points.front()), " to ", text(points.back()), "; least ", text(*least),
                ", largest ", text(*most), ".");
}

}  // namespace

Figure::Figure(const LineChart& chart)
    : kind(chart.wide ? "chart wide" : "chart"),
      title(chart.title),
      spoken(StrCat("Line chart of ", chart.title, " over ", chart.x_label, ".")),
      bottom(44),
      height(340) {
  const size_t count = chart.series.size();
  const size_t columns = std::clamp(chart.most_points / std::max<size_t>(1, count), kFewestColumns, kMostColumns);
  std::vector<Curve> curves;
  Range x_range, y_range;
  bool has_band = false;
  for (Series one : chart.series) {
    for (std::vector<double>* values : {&one.y, &one.low, &one.high}) {
      for (double& value : *values) value *= chart.factor;
    }
    const Curve& curve = curves.emplace_back(Thinned(one, columns));
    has_band = has_band || curve.has_band;
    for (const CurvePoint& point : curve.points) {
      x_range.Take(point.x);
      y_range.Take(point.low);
      y_range.Take(point.high);
    }
  }
  if (x_range.empty() || y_range.empty()) return;
  const Axis x(x_range.low, x_range.high, chart.x_scale, 5), y = YAxis(chart, y_range);

  std::string paths, bands, lines, labels = XTicks(x);
  int widest = 0;
  for (const Tick& tick : y.ticks()) {
    const std::string text = tick.label + chart.unit;
    widest = std::max(widest, Letters(text));
    paths += Path("grid", StrCat("M0 ", Down(tick.place), "H1000"));
    labels += SvgText(text, "0", PlaceText(1 - tick.place), -kLabelGap, 4, "end");
  }
  left = 2 * kLabelGap + kLetterPixels * widest;
  const auto outside = [&](const ChartMark& mark) { return !(mark.x >= x_range.low && mark.x <= x_range.high); };
  std::vector<ChartMark> marks = chart.marks;
  std::erase_if(marks, outside);
  for (const ChartMark& mark : marks) {
    const double place = x.Place(mark.x);
    paths += Path("mark", StrCat("M", Across(place), " 0V1000"));
    if (marks.size() > kLabelledMarks) continue;
    labels +=
        SvgText(mark.label, PlaceText(place), "0", place > 0.5 ? -4 : 4, 11, place > 0.5 ? "end" : "start", "tag");
  }
  for (const ReferenceLine& line : chart.references) {
    if (!std::isfinite(line.y)) continue;
    const double place = y.Place(chart.factor * line.y);
    paths += Path("reference", StrCat("M0 ", Down(place), "H1000"));
    labels += SvgText(line.label, "100%", PlaceText(1 - place), 0, -5, "end", "tag");
  }
  labels += SvgText(chart.x_label, "100%", "100%", 0, 36, "end");

  Json recorded = Json::MakeArray();
  for (size_t i = 0; i < count; ++i) {
    const std::vector<CurvePoint>& points = curves[i].points;
    if (points.empty()) continue;
    const std::string classes = SeriesClass(i, count), &name = chart.series[i].name;
    const Paths drawn = PathsOf(curves[i], x, y);
    bands += Path("band " + classes, drawn.band);
    lines += Path("line " + classes, drawn.line) + Path("dots " + classes, drawn.dots);
    legend.push_back({Path("line " + classes, "M1 4h26"), name, ValueText(points.back().y) + chart.unit});
    spoken += Spoken(name, points, chart.unit);
    Json series = Json::MakeObject(
        {{"class", classes}, {"x", Recorded(points, &CurvePoint::x)}, {"y", Recorded(points, &CurvePoint::y)}});
    if (curves[i].has_band) {
      series.Set("low", Recorded(points, &CurvePoint::low)).Set("high", Recorded(points, &CurvePoint::high));
    }
    recorded.Append(std::move(series));
  }
  plot = Stretched(paths + bands + lines) + labels;
  record = Json::MakeObject({{"label", chart.x_label},
                             {"unit", chart.unit},
                             {"x", Recorded(x)},
                             {"y", Recorded(y)},
                             {"series", std::move(recorded)}});
  table = TableOf(chart, curves, 0.005 * (x.high() - x.low()));
  std::vector<std::string> details;
  if (!chart.y_label.empty()) details.push_back(chart.y_label);
  if (y.is_log()) details.push_back("logarithmic");
  if (has_band) details.push_back("line: mean, band: range");
  detail = Join(details, ", ");
}

Figure::Figure(const IntervalChart& chart)
    : kind("intervals"), title(chart.title), spoken("Intervals of " + chart.title + "."), bottom(28) {
  Range range;
  bool spreads = false, references = false;
  const auto text = [&](double value) { return std::isfinite(value) ? FixedText(value, chart.digits) : "–"; };
  const auto has_spread = [](const IntervalRow& row) { return std::isfinite(row.low) && std::isfinite(row.high); };
  const auto spread_text = [&](const IntervalRow& row) {
    return has_spread(row) ? StrCat(text(row.low), " to ", text(row.high)) : "–";
  };
  int longest = 0, value_letters = 0, spread_letters = 0;
  for (const IntervalRow& row : chart.rows) {
    for (const double value : {row.value, row.low, row.high, row.reference.value_or(row.value)}) range.Take(value);
    spreads = spreads || has_spread(row);
    references = references || row.reference;
    longest = std::max(longest, Letters(row.label));
    value_letters = std::max(value_letters, Letters(text(row.value)));
    spread_letters = std::max(spread_letters, Letters(spread_text(row)));
  }
  for (const ReferenceLine& line : chart.references) range.Take(line.y);
  if (chart.rows.empty() || range.empty()) return;
  const double margin = 0.04 * (range.high - range.low);
  const Axis axis(range.low - margin, range.high + margin, AxisScale::kLinear, 4);
  left = std::min(320, 2 * kLabelGap + kLetterPixels * longest);
  const int value_right = 2 * kLabelGap + kLetterPixels * value_letters;
  right = value_right + (spreads ? 2 * kLabelGap + kLetterPixels * spread_letters : 0);
  height = 26 * static_cast<int>(chart.rows.size());
  style = StrCat("--rows:", chart.rows.size(), ";--value:", value_right, "px;");

  const auto dot = [](const std::string& place, double size, const char* series) {
    return StrCat("<path class=\"dots ", series, "\" style=\"stroke-width:", size, "\" d=\"M", place, "h0\"/>\n");
  };
  const auto ring = [&](const std::string& place) { return dot(place, 11, "s1") + Path("hole", "M" + place + "h0"); };
  legend.push_back({Path("interval s0", "M2 4h24") + dot("14 4", 9, "s0"),
                    chart.value_label + (spreads ? ", " + chart.spread_label : ""), ""});
  if (references) legend.push_back({ring("14 4"), chart.reference_label, ""});
  std::string paths, labels = XTicks(axis);
  for (const Tick& tick : axis.ticks()) paths += Path("grid", StrCat("M", Across(tick.place), " 0V1000"));
  for (const ReferenceLine& line : chart.references) {
    paths += Path("reference", StrCat("M", Across(axis.Place(line.y)), " 0V1000"));
    legend.push_back({Path("reference", "M2 4h24"), line.label, ""});
  }
  table.header = {"", chart.value_label};
  if (spreads) table.header.push_back(chart.spread_label);
  if (references) table.header.push_back(chart.reference_label);
  for (size_t i = 0; i < chart.rows.size(); ++i) {
    const IntervalRow& row = chart.rows[i];
    const double down = (static_cast<double>(i) + 0.5) / static_cast<double>(chart.rows.size());
    const auto place = [&](double value) { return StrCat(Across(axis.Place(value)), " ", Across(down)); };
    if (has_spread(row) && row.high > row.low) {
      paths += Path("interval s0", StrCat("M", place(row.low), "H", Across(axis.Place(row.high))));
    }
    if (row.reference && std::isfinite(*row.reference)) paths += ring(place(*row.reference));
    if (std::isfinite(row.value)) paths += dot(place(row.value), 9, "s0");
    const std::string y = PlaceText(down), value = text(row.value), spread = spread_text(row);
    labels += SvgText(row.label, "0", y, -12, 4, "end", "label tag row");
    labels += SvgText(value, "100%", y, value_right, 4, "end", "label tag value");
    table.rows.push_back({row.label, value});
    if (spreads) {
      labels += SvgText(spread, "100%", y, right, 4, "end", "tag spread");
      table.rows.back().push_back(spread);
    }
    if (references) table.rows.back().push_back(row.reference ? text(*row.reference) : "–");
    spoken += StrCat(" ", row.label, ": ", value, has_spread(row) ? ", " + spread : "", ".");
  }
  plot = Stretched(paths) + labels;
}

}  // namespace crosstalk
