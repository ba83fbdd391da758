#include "tools/page/figure.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/png.h"
#include "crosstalk/runtime/text.h"
#include "tools/page/page.h"

namespace crosstalk {

int Letters(std::string_view text) { return static_cast<int>(CountUtf8(text)); }

std::string PlaceText(double place) { return FixedText(100 * place, 2) + "%"; }

std::string SvgText(const std::string& text, const std::string& x, const std::string& y, int dx, int dy,
                    const char* anchor, const char* classes) {
  return StrCat("<text class=\"", classes, "\" x=\"", x, "\" y=\"", y, "\" dx=\"", dx, "\" dy=\"", dy,
                "\" text-anchor=\"", anchor, "\">", EscapeHtml(text), "</text>\n");
}

Json RecordedNumber(double value) {
  const std::string text = ShortNumber(value);
  if (!std::isfinite(value)) return text;
  if (text.find_first_of(".e") == std::string::npos && text.size() < 16) return int64_t{std::stoll(text)};
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

namespace {

// Names beside a map are a line of text apart at least.
constexpr double kLabelPixels = 15;
constexpr double kMapPixels = 320, kLeastCell = 2, kMostCell = 22;
constexpr int kMostLetters = 18;
constexpr int kOpacities = 254;

using Palette = std::array<PaletteColour, kOpacities + 1>;

// Levels 0 to 254 of one sign, or -127 to 127 as 0 to 254.
Palette MakePalette(bool diverging) {
  Palette palette;
  for (int i = 0; i <= kOpacities; ++i) {
    const double size = diverging ? std::abs(i - 127) / 127.0 : static_cast<double>(i) / kOpacities;
    const auto alpha = static_cast<uint8_t>(std::lround(255 * size));
    palette[static_cast<size_t>(i)] =
        diverging && i < 127 ? PaletteColour{200, 76, 12, alpha} : PaletteColour{26, 95, 180, alpha};
  }
  return palette;
}

uint8_t LevelOf(double value, double most, bool diverging) {
  const double share = most > 0 && std::isfinite(value) ? std::clamp(value / most, diverging ? -1.0 : 0.0, 1.0) : 0;
  return static_cast<uint8_t>(std::lround(diverging ? 127 + 127 * share : kOpacities * share));
}

// How the rows or columns of a map are called: all names, and those written beside it.
struct MapNames {
  std::vector<std::string> all, written;
  double count;
  int letters = 0;  // of the longest that is written

  MapNames(const std::vector<std::string>& labels, const std::string& name, int64_t size, double cell)
      : count(static_cast<double>(size)) {
    const auto every = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(kLabelPixels / cell)));
    for (int64_t i = 0; i < size; ++i) {
      const bool given = i < std::ssize(labels);
      all.push_back(given ? labels[static_cast<size_t>(i)] : StrCat(name, " ", i + 1));
      written.push_back(i % every != 0 ? "" : given ? Shortened(all.back()) : StrCat(i + 1));
      letters = std::max(letters, Letters(written.back()));
    }
  }
  static std::string Shortened(std::string text) {
    if (Letters(text) <= kMostLetters) return text;
    while (Letters(text) >= kMostLetters) {
      while (IsUtf8Continuation(text.back())) text.pop_back();
      text.pop_back();
    }
    return text + "…";
  }
  Json Recorded() const {
    Json list = Json::MakeArray();
    for (const std::string& one : all) list.Append(one);
    return list;
  }
  template <typename Write>
  std::string Labels(Write write) const {
    std::string svg;
    for (size_t i = 0; i < written.size(); ++i) {
      if (!written[i].empty()) svg += write(written[i], PlaceText((static_cast<double>(i) + 0.5) / count));
    }
    return svg;
  }
};

}  // namespace

Figure::Figure(const HeatMap& map) : kind("heat"), title(map.title) {
  const int64_t n = map.rows, m = map.columns;
  CROSSTALK_CHECK(n > 0 && m > 0 && n * m == std::ssize(map.values), "heat map: ", map.values.size(),
                  " values are not ", n, " by ", m);
  Range range;
  for (const float value : map.values) range.Take(value);
  const int64_t not_finite =
      std::count_if(map.values.begin(), map.values.end(), [](float v) { return !std::isfinite(v); });
  const double largest = range.empty() ? 0 : std::max(std::abs(range.low), std::abs(range.high));
  const double most = map.most > 0 ? map.most : largest;
  std::vector<uint8_t> pixels;
  for (const float value : map.values) pixels.push_back(LevelOf(value, most, map.diverging));
  const double cell = map.cell_pixels > 0
                          ? map.cell_pixels
                          : std::clamp(kMapPixels / static_cast<double>(std::max(n, m)), kLeastCell, kMostCell);
  const MapNames rows(map.row_labels, map.row_name, n, cell), columns(map.column_labels, map.column_name, m, cell);
  const bool upright = !map.column_labels.empty() || m > 99;
  left = kLabelGap + kLetterPixels * rows.letters;
  bottom = kLabelGap + (upright ? kLetterPixels * columns.letters : 12);
  width = static_cast<int>(std::lround(cell * static_cast<double>(m)));
  height = static_cast<int>(std::lround(cell * static_cast<double>(n)));
  style = StrCat("--w:", width, "px;--ratio:", m, "/", n, ";");
  readout = StrCat(ShortNumber(range.empty() ? std::nan("") : range.low), " to ",
                   ShortNumber(range.empty() ? std::nan("") : range.high),
                   not_finite > 0 ? StrCat(", ", not_finite, " not finite") : "");
  spoken = StrCat("Heat map of ", map.title, ", ", n, " by ", m, ", from ", readout);
  plot =
      StrCat("<image width=\"100%\" height=\"100%\" preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
             EncodeBase64(EncodePng(m, n, pixels, MakePalette(map.diverging))), "\"/>\n",
             rows.Labels([](const std::string& text, const std::string& place) {
               return SvgText(text, "0", place, -6, 4, "end", "row");
             }),
             columns.Labels([&](const std::string& text, const std::string& place) {
               if (!upright) return SvgText(text, place, "100%", 0, 15, "middle");
               return StrCat("<svg x=\"", place, "\" y=\"100%\" overflow=\"visible\"><text transform=\"rotate(90)\" ",
                             "x=\"6\" dy=\"4\">", EscapeHtml(text), "</text></svg>\n");
             }));
  record =
      Json::MakeObject({{"rows", rows.Recorded()}, {"columns", columns.Recorded()}, {"most", RecordedNumber(most)}});
  if (n * m > map.most_exact) return;
  Json values = Json::MakeArray();
  table.header = {""};
  table.header.insert(table.header.end(), columns.all.begin(), columns.all.end());
  for (size_t i = 0; i < map.values.size(); ++i) {
    if (i % columns.all.size() == 0) table.rows.push_back({rows.all[i / columns.all.size()]});
    values.Append(RecordedNumber(map.values[i]));
    table.rows.back().push_back(FixedText(map.values[i], 3));
  }
  record.Set("values", std::move(values));
}

std::string Figure::Html() const {
  if (empty()) return "";
  std::string html =
      StrCat("<figure class=\"", kind, "\" style=\"--left:", left, "px;--right:", right, "px;--bottom:", bottom, "px;",
             style, "\">\n<figcaption>", EscapeHtml(title),
             detail.empty() ? "" : StrCat(" <small>", EscapeHtml(detail), "</small>"), "</figcaption>\n");
  if (!readout.empty()) html += StrCat("<p class=\"readout\">", EscapeHtml(readout), "</p>\n");
  if (!legend.empty()) {
    html += StrCat("<div class=\"legend\">", record.is_null() ? "" : "<span class=\"at\">last value</span>", "<ul>\n");
    for (const Entry& entry : legend) {
      html += StrCat("<li><svg aria-hidden=\"true\">", entry.key, "</svg><span class=\"name\">", EscapeHtml(entry.name),
                     "</span><span class=\"value\">", EscapeHtml(entry.value), "</span></li>\n");
    }
    html += "</ul></div>\n";
  }
  html += StrCat("<svg class=\"plot\" role=\"img\" aria-label=\"", EscapeHtml(spoken), "\">\n", plot, "</svg>\n");
  if (!record.is_null()) html += RecordScript(record);
  if (!table.rows.empty()) html += Details("Values as a table", HtmlTable(table, title));
  return html + "</figure>\n";
}

namespace {

enum class Ground { kLight, kDark };

// The part of the style sheet that drawings need, with colours as they are, for programs that know no variables.
std::string DrawingStyle(Ground ground) {
  const std::string_view sheet = kPageStyle;
  const size_t begin = sheet.find("/* What is drawn"), end = sheet.find("/* So far in files too. */");
  std::string style;
  for (size_t at = begin; at < end;) {
    const size_t var = std::min(end, sheet.find("var(", at));
    style += sheet.substr(at, var - at);
    if (var == end) break;
    at = sheet.find(')', var) + 1;
    // "--ink: light-dark(#1b1e23, #e7e7e3);"
    const std::string definition = StrCat(sheet.substr(var + 4, at - var - 5), ": light-dark(");
    style += sheet.substr(sheet.find(definition) + definition.size() + (ground == Ground::kDark ? 9 : 0), 7);
  }
  return style;
}

}  // namespace

std::string StandaloneSvg(const std::vector<Figure>& figures, const std::vector<std::string>& notes) {
  constexpr int kWidth = 760, kMargin = 16, kLine = 20;
  std::string svg, titles;
  int y = kLabelGap;
  const auto line = [&](const std::string& text, int x, const char* classes) {
    y += kLine;
    svg += SvgText(text, StrCat(x), StrCat(y), 0, 0, "start", classes);
  };
  for (const std::string& note : notes) line(note, kMargin, "label");
  if (!notes.empty()) y += kLine / 2;
  for (const Figure& figure : figures) {
    if (figure.empty()) continue;
    titles += (titles.empty() ? "" : " ") + figure.spoken;
    line(figure.title, kMargin, "title");
    if (!figure.detail.empty()) line(figure.detail, kMargin, "");
    for (const Figure::Entry& entry : figure.legend) {
      line(entry.name, kMargin + 36, "label");
      svg += StrCat("<svg x=\"", kMargin, "\" y=\"", y - 8, "\" overflow=\"visible\">", entry.key, "</svg>\n");
    }
    y += kLine;
    const int left = kMargin + figure.left;
    svg += StrCat("<svg x=\"", left, "\" y=\"", y, "\" width=\"",
                  figure.width > 0 ? figure.width : kWidth - left - kMargin - figure.right, "\" height=\"",
                  figure.height, "\" overflow=\"visible\">\n", figure.plot, "</svg>\n");
    y += figure.height + figure.bottom + kLabelGap;
  }
  if (titles.empty()) return "";
  return StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", y, "\" width=\"", kWidth,
                "\" height=\"", y, "\" role=\"img\">\n<title>", EscapeHtml(titles), "</title>\n<style>\n",
                DrawingStyle(Ground::kLight), "@media (prefers-color-scheme: dark) {\n", DrawingStyle(Ground::kDark),
                "}\n</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n", svg, "</svg>\n");
}

}  // namespace crosstalk
