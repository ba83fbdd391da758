#include "tools/report/sparkline.h"

#include <langinfo.h>
#include <locale.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace crosstalk {
namespace {

constexpr std::string_view kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::string_view kAscii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
constexpr size_t kLevels = 8;

}  // namespace

std::string Sparkline(const Series& series, size_t width, SparklineStyle style) {
  const Curve curve = Thinned(series, series.x.size());
  if (curve.points.empty() || width == 0) return "";
  const double first = curve.points.front().x, span = curve.points.back().x - first;
  const size_t columns = std::min(width, curve.points.size());
  std::vector<double> sums(columns, 0), counts(columns, 0);
  for (const CurvePoint& point : curve.points) {
    const double place = span > 0 ? (point.x - first) / span * static_cast<double>(columns) : 0;
    const size_t column = std::min(static_cast<size_t>(place), columns - 1);
    sums[column] += point.y;
    ++counts[column];
  }
  double low = curve.points[0].y, high = low;
  for (size_t i = 0; i < columns; ++i) {
    if (counts[i] == 0) continue;
    sums[i] /= counts[i];
    if (i == 0) low = high = sums[i];
    low = std::min(low, sums[i]);
    high = std::max(high, sums[i]);
  }
  std::string line;
  for (size_t i = 0; i < columns; ++i) {
    if (counts[i] == 0) {
      line += ' ';
      continue;
    }
    const double share = high > low ? (sums[i] - low) / (high - low) : 0.5;
    const size_t level = std::min(kLevels - 1, static_cast<size_t>(share * kLevels));
    line += style == SparklineStyle::kBlocks ? kBlocks[level] : kAscii[level];
  }
  return line;
}

SparklineStyle SparklineStyleOfLocale() {
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", locale_t{});
  if (locale == locale_t{}) return SparklineStyle::kAscii;  // one that the system does not have
  const std::string_view characters = nl_langinfo_l(CODESET, locale);
  const bool utf8 = characters == "UTF-8" || characters == "utf8";
  freelocale(locale);
  return utf8 ? SparklineStyle::kBlocks : SparklineStyle::kAscii;
}

}  // namespace crosstalk
