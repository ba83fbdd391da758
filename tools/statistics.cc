#include "tools/statistics.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/runtime/check.h"

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

// With θ = atan(t/√ν), Abramowitz and Stegun 26.7.3 and 26.7.4: for odd ν
// 2/π·(θ + sin θ·(cos θ + 2/3·cos³θ + … + 2·4⋯(ν-3)/(3·5⋯(ν-2))·cos^(ν-2) θ)), for even ν
// sin θ·(1 + 1/2·cos²θ + … + 1·3⋯(ν-3)/(2·4⋯(ν-2))·cos^(ν-2) θ).
double StudentCentralProbability(double t, int64_t degrees) {
  CROSSTALK_DCHECK(degrees >= 1 && t >= 0);
  const double theta = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(theta), squared = cosine * cosine;
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = 0;
  for (int64_t power = odd ? 1 : 0; power <= degrees - 2; power += 2) {
    sum += term;
    term *= squared * static_cast<double>(power + 1) / static_cast<double>(power + 2);
  }
  return odd ? (theta + std::sin(theta) * sum) * 2 / std::acos(-1.0) : std::sin(theta) * sum;
}

double StudentCentralQuantile(double level, int64_t degrees) {
  CROSSTALK_DCHECK(level >= 0 && level < 1);
  double low = 0, high = 1;
  while (StudentCentralProbability(high, degrees) < level && high < 1e300) low = high, high *= 2;
  // Halved until there is no number between the two.
  for (double middle = low + (high - low) / 2; middle > low && middle < high; middle = low + (high - low) / 2) {
    (StudentCentralProbability(middle, degrees) < level ? low : high) = middle;
  }
  return high;
}

Interval IntervalOfMean(const std::vector<double>& values, double level) {
  CROSSTALK_DCHECK(values.size() >= 2);
  const MeanAndDeviation summary = Summarise(values);
  const double n = static_cast<double>(values.size());
  const double half =
      StudentCentralQuantile(level, static_cast<int64_t>(values.size()) - 1) * summary.deviation / std::sqrt(n);
  return {summary.mean - half, summary.mean + half};
}

std::vector<double> ValuesOf(const BySeed& by_seed) {
  std::vector<double> values;
  for (const auto& [seed, value] : by_seed) values.push_back(value);
  return values;
}

BySeed PairedDifferences(const BySeed& a, const BySeed& b) {
  BySeed differences;
  for (const auto& [seed, value] : a) {
    if (const auto other = b.find(seed); other != b.end()) differences[seed] = value - other->second;
  }
  return differences;
}

std::optional<Interval> IntervalOfDifferences(const BySeed& differences, double level) {
  const std::vector<double> values = ValuesOf(differences);
  const MeanAndDeviation summary = Summarise(values);
  // The same but for their rounding.
  if (values.size() < 2 || summary.deviation <= 1e-9 * std::abs(summary.mean)) return std::nullopt;
  return IntervalOfMean(values, level);
}

}  // namespace crosstalk
