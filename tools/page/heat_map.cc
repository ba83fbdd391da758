#include "tools/page/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/png.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/format.h"
#include "tools/page/axis.h"
#include "tools/page/page.h"
#include "tools/page/table.h"

namespace crosstalk {
namespace {

// Names beside a map are a line of text apart at least.
constexpr double kLabelPixels = 15;
constexpr double kMapPixels = 320, kLeastCell = 2, kMostCell = 22;

std::vector<std::string> Names(const std::vector<std::string>& given, const std::string& of, int64_t count) {
  std::vector<std::string> names = given;
  for (auto i = static_cast<int64_t>(names.size()); i < count; ++i) names.push_back(StrCat(of, " ", i + 1));
  return names;
}

using Palette = std::array<PaletteColour, 256>;

// Colours 0 to 254 of one sign, or -127 to 127 as 0 to 254.
Palette MakePalette(bool diverging) {
  constexpr PaletteColour kPositive = {26, 95, 180, 0}, kNegative = {200, 76, 12, 0};
  Palette palette{};
  for (int i = 0; i < 256; ++i) {
    const int level = std::min(i, 254);
    const bool negative = diverging && level < 127;
    PaletteColour colour = negative ? kNegative : kPositive;
    const double size = diverging ? std::abs(level - 127) / 127.0 : level / 254.0;
    colour.alpha = static_cast<uint8_t>(std::lround(255 * size));
    palette[static_cast<size_t>(i)] = colour;
  }
  return palette;
}

uint8_t LevelOf(double value, double most, bool diverging) {
  const double share = most > 0 && std::isfinite(value) ? std::clamp(value / most, diverging ? -1.0 : 0.0, 1.0) : 0;
  return static_cast<uint8_t>(std::lround(diverging ? 127 + 127 * share : 254 * share));
}

std::string PrecisePercent(double share) { return FixedText(100 * share, 3) + "%"; }

// Every so many-th label, so that each has room.
int64_t Every(double cell) { return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(kLabelPixels / cell))); }

std::string Labels(const std::vector<std::string>& names, const std::vector<std::string>& given, double cell,
                   bool rows) {
  const auto count = static_cast<int64_t>(names.size());
  const auto shown = [&](int64_t i) { return given.empty() ? StrCat(i + 1) : names[static_cast<size_t>(i)]; };
  std::string html, longest;
  for (int64_t i = 0; i < count; i += Every(cell)) {
    const std::string text = shown(i);
    if (text.size() > longest.size()) longest = text;
    html += StrCat("<span style=\"",
                   rows ? "top:" : "left:", PrecisePercent((static_cast<double>(i) + 0.5) / static_cast<double>(count)),
                   "\">", EscapeHtml(text), "</span>");
  }
  return html + StrCat("<span class=\"", rows ? "wide-tick" : "high-tick", "\">", EscapeHtml(longest), "</span>");
}

std::string JsonList(const std::vector<std::string>& names) {
  Json list = Json::MakeArray();
  for (const std::string& name : names) list.Append(name);
  return list.Dump();
}

std::string ExactTable(const HeatMapOptions& options, const std::vector<std::string>& rows,
                       const std::vector<std::string>& columns, std::span<const float> values) {
  std::vector<std::string> header = {""};
  header.insert(header.end(), columns.begin(), columns.end());
  std::vector<std::vector<TableCell>> cells;
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<TableCell> line = {rows[row]};
    for (size_t column = 0; column < columns.size(); ++column) {
      line.push_back(FixedText(static_cast<double>(values[row * columns.size() + column]), 3));
    }
    cells.push_back(std::move(line));
  }
  return StrCat("<details><summary>Values as a table</summary>\n",
                HtmlTable(header, cells, {.caption = options.title, .changed = {}}), "</details>\n");
}

}  // namespace

std::string HeatMap(const HeatMapOptions& options, int64_t rows, int64_t columns, std::span<const float> values) {
  CROSSTALK_CHECK(rows > 0 && columns > 0 && static_cast<size_t>(rows * columns) == values.size(),
                  "heat map: ", values.size(), " values are not ", rows, " by ", columns);
  double most = options.most;
  int64_t not_finite = 0;
  float least = values[0], largest = values[0];
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    if (options.most == 0) most = std::max(most, std::abs(static_cast<double>(value)));
    least = std::isfinite(least) ? std::min(least, value) : value;
    largest = std::isfinite(largest) ? std::max(largest, value) : value;
  }
  std::string pixels;
  for (const float value : values) {
    pixels += static_cast<char>(LevelOf(static_cast<double>(value), most, options.diverging));
  }
  const std::string image = EncodePng(columns, rows, {reinterpret_cast<const uint8_t*>(pixels.data()), pixels.size()},
                                      MakePalette(options.diverging));
  const std::vector<std::string> row_names = Names(options.row_labels, options.row_name, rows);
  const std::vector<std::string> column_names = Names(options.column_labels, options.column_name, columns);
  const double cell = options.cell_pixels > 0 ? options.cell_pixels
                                              : std::clamp(kMapPixels / static_cast<double>(std::max(rows, columns)),
                                                           kLeastCell, kMostCell);
  const bool exact = rows * columns <= options.most_exact;
  std::string list;
  if (exact) {
    for (const float value : values) list += (list.empty() ? "" : " ") + ShortNumber(static_cast<double>(value));
  }
  const std::string range =
      StrCat(ShortNumber(static_cast<double>(least)), " to ", ShortNumber(static_cast<double>(largest)),
             not_finite > 0 ? StrCat(", ", not_finite, " not finite") : "");
  const bool upright = !options.column_labels.empty() || columns > 99;
  return StrCat(
      "<figure class=\"heat\">\n<figcaption>", EscapeHtml(options.title), "</figcaption>\n<p class=\"readout\">",
      EscapeHtml(range), "</p>\n<div class=\"frame\">\n<div class=\"rows\" aria-hidden=\"true\">",
      Labels(row_names, options.row_labels, cell, true),
      "</div>\n<div class=\"cells\" tabindex=\"0\" role=\"group\" style=\"--w:",
      FixedText(cell * static_cast<double>(columns), 1), "px;--ratio:", columns, "/", rows, "\" data-rows=\"", rows,
      "\" data-columns=\"", columns, "\" data-most=\"", ShortNumber(most), "\" data-row-names=\"",
      EscapeHtml(JsonList(row_names)), "\" data-column-names=\"", EscapeHtml(JsonList(column_names)), "\"",
      exact ? StrCat(" data-values=\"", list, "\"") : "", " aria-label=\"", EscapeHtml(options.title), "\"><img alt=\"",
      EscapeHtml(StrCat("Heat map of ", options.title, ", ", rows, " by ", columns, ", from ", range)),
      "\" src=\"data:image/png;base64,", EncodeBase64(image), "\"></div>\n<div class=\"columns",
      upright ? " upright" : "", "\" aria-hidden=\"true\">", Labels(column_names, options.column_labels, cell, false),
      "</div>\n</div>\n", exact ? ExactTable(options, row_names, column_names, values) : "", "</figure>\n");
}

}  // namespace crosstalk
