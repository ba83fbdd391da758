#include "tools/page/sparkline.h"

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
  std::vector<double> means(columns, 0), counts(columns, 0);
  std::vector<bool> behind_gap(columns, false);
  for (const CurvePoint& point : curve.points) {
    const double place = span > 0 ? (point.x - first) / span * static_cast<double>(columns) : 0;
    const size_t column = std::min(static_cast<size_t>(place), columns - 1);
    if (counts[column] == 0) behind_gap[column] = point.begins;
    means[column] += (point.y - means[column]) / ++counts[column];
  }
  // The first column has the first point, and the last one the last.
  size_t before = 0;
  double low = means[0], high = means[0];
  for (size_t i = 1; i < columns; ++i) {
    if (counts[i] == 0) continue;
    low = std::min(low, means[i]);
    high = std::max(high, means[i]);
    for (size_t between = before + 1; between < i && !behind_gap[i]; ++between) {
      const double share = static_cast<double>(between - before) / static_cast<double>(i - before);
      means[between] = means[before] + share * (means[i] - means[before]);
      counts[between] = 1;
    }
    before = i;
  }
  std::string line;
  for (size_t i = 0; i < columns; ++i) {
    if (counts[i] == 0) {
      line += ' ';
      continue;
    }
    const double share = high > low ? (means[i] - low) / (high - low) : 0.5;
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
