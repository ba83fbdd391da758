#include "tools/page/curve.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tools/cli/statistics.h"

namespace crosstalk {

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

}  // namespace crosstalk
