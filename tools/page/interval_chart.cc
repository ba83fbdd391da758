#include <algorithm>
#include <cmath>

#include "crosstalk/runtime/check.h"
#include "tools/cli/format.h"
#include "tools/page/chart.h"
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

}  // namespace crosstalk
