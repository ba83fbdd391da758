#include "tools/cli/statistics.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

struct Observation {
  size_t setting;
  uint64_t seed;
  double value;
};

std::vector<Observation> Observations(const std::vector<BySeed>& settings) {
  std::vector<Observation> observed;
  for (size_t i = 0; i < settings.size(); ++i) {
    for (const auto& [seed, value] : settings[i]) {
      if (std::isfinite(value)) observed.push_back({i, seed, value});
    }
  }
  return observed;
}

// Settings that share seeds, also through others, belong together; between two parts nothing can be compared.
int64_t ConnectedParts(const std::vector<Observation>& observed) {
  std::map<size_t, size_t> part_of;  // setting → the least setting of its part
  for (const Observation& one : observed) part_of[one.setting] = one.setting;
  for (bool changed = true; changed;) {
    changed = false;
    std::map<uint64_t, size_t> least;  // by seed
    for (const Observation& one : observed) {
      const size_t part = part_of[one.setting];
      size_t& known = least.emplace(one.seed, part).first->second;
      known = std::min(known, part);
    }
    for (const Observation& one : observed) {
      if (least[one.seed] >= part_of[one.setting]) continue;
      part_of[one.setting] = least[one.seed];
      changed = true;
    }
  }
  std::set<size_t> parts;
  for (const auto& [setting, part] : part_of) parts.insert(part);
  return static_cast<int64_t>(parts.size());
}

// The residual of each value without its setting's and its seed's part: each in turn is taken out as a mean until
// nothing changes, which is the least-squares fit. Where every setting has every seed it takes one round.
std::vector<double> AdditiveResiduals(const std::vector<Observation>& observed, double size) {
  constexpr int kMostRounds = 10'000;
  std::vector<double> residuals;
  for (const Observation& one : observed) residuals.push_back(one.value);
  const auto take_out = [&](auto key_of) {
    std::map<uint64_t, std::pair<double, double>> sums;  // sum and count
    for (size_t i = 0; i < observed.size(); ++i) {
      auto& [sum, count] = sums[key_of(observed[i])];
      sum += residuals[i];
      ++count;
    }
    double most = 0;
    for (size_t i = 0; i < observed.size(); ++i) {
      const auto& [sum, count] = sums[key_of(observed[i])];
      residuals[i] -= sum / count;
      most = std::max(most, std::abs(sum / count));
    }
    return most;
  };
  for (int round = 0; round < kMostRounds; ++round) {
    const double by_setting = take_out([](const Observation& one) { return static_cast<uint64_t>(one.setting); });
    const double by_seed = take_out([](const Observation& one) { return one.seed; });
    if (std::max(by_setting, by_seed) <= 1e-14 * size) break;
  }
  return residuals;
}

}  // namespace

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

Scatter ScatterOf(const std::vector<BySeed>& settings) {
  const std::vector<Observation> observed = Observations(settings);
  double size = 0;
  std::set<size_t> rows;
  std::set<uint64_t> seeds;
  for (const Observation& one : observed) {
    size = std::max(size, std::abs(one.value));
    rows.insert(one.setting);
    seeds.insert(one.seed);
  }
  Scatter scatter;
  scatter.degrees = static_cast<int64_t>(observed.size()) - static_cast<int64_t>(rows.size() + seeds.size()) +
                    ConnectedParts(observed);
  if (scatter.degrees < 1) return scatter;
  double squares = 0;
  for (const double residual : AdditiveResiduals(observed, size)) squares += residual * residual;
  scatter.variance = squares / static_cast<double>(scatter.degrees);
  if (std::sqrt(scatter.variance) <= 1e-9 * size) scatter.variance = 0;  // except for their rounding
  return scatter;
}

std::optional<Interval> IntervalOfDifferences(const BySeed& differences, const Scatter& scatter, double level) {
  if (differences.empty() || scatter.degrees < 1 || !(scatter.variance > 0)) return std::nullopt;
  const std::vector<double> values = ValuesOf(differences);
  const MeanAndDeviation summary = Summarise(values);
  const double variance = std::max(2 * scatter.variance, summary.deviation * summary.deviation);
  const double half =
      StudentCentralQuantile(level, scatter.degrees) * std::sqrt(variance / static_cast<double>(values.size()));
  return Interval{summary.mean - half, summary.mean + half};
}

std::vector<SettingPair> PairsOfSettings(const std::vector<BySeed>& settings, double level) {
  const Scatter scatter = ScatterOf(settings);
  std::vector<SettingPair> pairs;
  for (size_t i = 0; i < settings.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      BySeed differences = PairedDifferences(settings[i], settings[j]);
      std::erase_if(differences, [](const auto& one) { return !std::isfinite(one.second); });
      if (differences.empty()) continue;
      const std::optional<Interval> interval = IntervalOfDifferences(differences, scatter, level);
      pairs.push_back({i, j, std::move(differences), interval});
    }
  }
  return pairs;
}

void CheckMeasures(const Json& line, const std::string& source) {
  for (const auto& [key, value] : line.AsObject()) {
    if (value.is_object()) CheckMeasures(value, source);
    if (!value.is_number() || std::abs(value.AsDouble()) <= kMostMeasure) continue;
    Fail(ErrorKind::kData, source, ": ", Excerpt(key), ": is not between ", -kMostMeasure, " and ", kMostMeasure);
  }
}

std::optional<double> MedianOfKnown(std::vector<double> values) {
  return values.empty() ? std::nullopt : std::optional<double>(Median(std::move(values)));
}

std::optional<double> MedianStepSeconds(const std::vector<Json>& metrics) {
  std::vector<double> seconds;
  for (const Json& line : metrics) {
    const Json* value = line.At("event").AsString() == "train" ? line.Find("seconds") : nullptr;
    if (value != nullptr && value->is_number()) seconds.push_back(value->AsDouble());
  }
  return MedianOfKnown(std::move(seconds));
}

}  // namespace crosstalk
