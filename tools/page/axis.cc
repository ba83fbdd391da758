#include "tools/page/axis.h"

#include <langinfo.h>
#include <locale.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <vector>

#include "tools/cli/output.h"
#include "tools/cli/statistics.h"

namespace crosstalk {
namespace {

// The least of 1, 2, 5 times a power of ten that is not below `step`.
double RoundStep(double step) {
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// So many digits, with an exponent where the number has more before its point, or many zeros after it.
std::string GeneralText(double value, int digits) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, digits).ptr);
}

std::string TickLabel(double value, int digits) {
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e9)) {
    return GeneralText(value, 3);
  }
  if (digits == 0) return CountText(std::llround(value));
  return FixedText(value == 0 ? 0 : value, digits);
}

}  // namespace

std::string ShortNumber(double value) {
  if (std::isnan(value)) return "undefined";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  const double size = std::abs(value);
  return size >= 99999.5 && size < 1e15 ? FixedText(value, 0) : GeneralText(value, 5);
}

Axis::Axis(double low, double high, AxisScale scale, int ticks) : low_(low), high_(high) {
  const bool doubling = scale == AxisScale::kDoubling;
  log_ = low > 0 && (doubling || scale == AxisScale::kLog || (scale == AxisScale::kLogIfWide && high / low > 100));
  const double size = std::max(std::abs(low_), std::abs(high_));
  if (!(high_ - low_ > 1e-9 * size)) {
    const double margin = scale == AxisScale::kWhole ? std::max(1.0, 1e-9 * size) : low_ == 0 ? 1 : 0.05 * size;
    low_ -= margin;
    high_ += margin;
  }
  if (log_ && doubling) {
    // From one power of two to another, so that there are two ticks at least.
    const double first = std::floor(std::log2(low_) + 1e-9),
                 last = std::max(first + 1, std::ceil(std::log2(high_) - 1e-9));
    low_ = std::exp2(first);
    high_ = std::exp2(last);
    const double every = std::max(1.0, std::ceil((last - first) / (2 * std::max(1, ticks))));
    for (double power = first; power <= last; power += every) {
      const double value = std::exp2(power);
      ticks_.push_back({Place(value), TickLabel(value, static_cast<int>(std::max(0.0, -power)))});
    }
    return;
  }
  if (log_) {
    const int first = static_cast<int>(std::ceil(std::log10(low_) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log10(high_) + 1e-9));
    const int every = std::max(1, (last - first + ticks) / ticks);
    for (int power = first; power <= last; power += every) {
      const double value = std::pow(10, power);
      ticks_.push_back({Place(value), TickLabel(value, std::max(0, -power))});
    }
    if (ticks_.size() >= 2) return;
    ticks_.clear();
    for (int power = first - 1; power <= last + 1; ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10, power);
        if (value < low_ || value > high_) continue;
        ticks_.push_back({Place(value), TickLabel(value, std::max(0, -power))});
      }
    }
    if (ticks_.size() >= 2) return;
    ticks_.clear();  // the range is so narrow that even steps are as good
  }
  double step = RoundStep((high_ - low_) / std::max(1, ticks));
  if (scale == AxisScale::kWhole) step = std::max(1.0, step);
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  // Counted in steps, so that rounding does not add up.
  for (double count = std::ceil(low_ / step - 1e-9); count * step <= high_ + 1e-9 * step; ++count) {
    ticks_.push_back({Place(count * step), TickLabel(count * step, std::min(digits, 12))});
  }
}

double Axis::Place(double value) const {
  if (log_) return value > 0 ? std::log(value / low_) / std::log(high_ / low_) : -1;
  return (value - low_) / (high_ - low_);
}

Curve Thinned(const Series& series, size_t most) {
  std::vector<size_t> order(std::min(series.x.size(), series.y.size()));
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return !std::isfinite(series.x[i]); });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return series.x[a] < series.x[b]; });
  Curve curve;
  if (order.empty()) return curve;
  const bool thinned = order.size() > 2 * most;
  const bool ranges = series.low.size() == series.y.size() && series.high.size() == series.y.size();
  curve.has_band = thinned || (ranges && series.low != series.high);
  const double first = series.x[order.front()], width = series.x[order.back()] - first;
  const auto column_of = [&](double x) {
    const double place = width > 0 ? (x - first) / width * static_cast<double>(most) : 0;
    return std::min(place, static_cast<double>(most) - 1);
  };
  bool gap = true;
  double column = -1, count = 0;
  for (const size_t i : order) {
    const double x = series.x[i], y = series.y[i];
    if (!std::isfinite(y)) {
      gap = true;
      continue;
    }
    const double here = std::floor(column_of(x));
    const double low = ranges ? series.low[i] : y, high = ranges ? series.high[i] : y;
    if (!thinned || gap || here != column) {
      curve.points.push_back({x, y, low, high, gap});
      count = 1;
    } else {
      CurvePoint& point = curve.points.back();
      point.x = x;
      ++count;
      point.y += (y - point.y) / count;
      point.low = std::min(point.low, low);
      point.high = std::max(point.high, high);
    }
    gap = false;
    column = here;
  }
  return curve;
}

void AddMeanAndRange(double x, const std::vector<double>& values, Series* series) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  series->x.push_back(x);
  series->y.push_back(Summarise(values).mean);
  series->low.push_back(*low);
  series->high.push_back(*high);
}

Series MeanAndRange(const std::string& name, const std::vector<Series>& runs) {
  std::map<double, std::vector<double>> by_x;
  for (const Series& run : runs) {
    for (size_t i = 0; i < run.x.size(); ++i) {
      if (std::isfinite(run.y[i])) by_x[run.x[i]].push_back(run.y[i]);
    }
  }
  Series series = {.name = name, .x = {}, .y = {}};
  for (const auto& [x, values] : by_x) {
    if (values.size() == runs.size()) AddMeanAndRange(x, values, &series);
  }
  return series;
}

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
