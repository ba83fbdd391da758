#include "tools/statistics.h"

#include <algorithm>
#include <cmath>

namespace crosstalk {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

MeanAndDeviation Summarise(const std::vector<double>& values) {
  MeanAndDeviation summary;
  const double n = static_cast<double>(values.size());
  for (double value : values) summary.mean += value / n;
  double squares = 0;
  for (double value : values) squares += (value - summary.mean) * (value - summary.mean);
  if (values.size() > 1) summary.deviation = std::sqrt(squares / (n - 1));
  return summary;
}

}  // namespace crosstalk
