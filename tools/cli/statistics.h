// Statistics of a few values, and the measures that a run has kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/runtime/json.h"

namespace crosstalk {

// The middle one, or the mean of the two in the middle. 0 of none.
double Median(std::vector<double> values);

struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;  // standard deviation of the sample, over n - 1; 0 of one value
};
MeanAndDeviation Summarise(const std::vector<double>& values);

// P(|T| ≤ t) of Student's t with so many degrees of freedom, t ≥ 0, from the finite sums that there are for whole
// numbers of them.
double StudentCentralProbability(double t, int64_t degrees);
// Its inverse: the t with P(|T| ≤ t) = level, 0 ≤ level < 1.
double StudentCentralQuantile(double level, int64_t degrees);

struct Interval {
  double low = 0, high = 0;
};

// The measures of runs that differ only in their seed.
using BySeed = std::map<uint64_t, double>;
std::vector<double> ValuesOf(const BySeed& by_seed);
// a - b for each seed that both have: the same seed gives two settings the same text in the same order.
BySeed PairedDifferences(const BySeed& a, const BySeed& b);

// How far runs scatter when what their setting does and what their seed does to all settings is taken out.
struct Scatter {
  double variance = 0;
  int64_t degrees = 0;  // of freedom
};
// The residuals of value(setting, seed) = a(setting) + b(seed), fitted by least squares to the finite values that are
// there: (settings - 1)·(seeds - 1) degrees where all are. Of two settings it is half the variance of the paired
// differences. Every setting is taken to scatter alike.
Scatter ScatterOf(const std::vector<BySeed>& settings);
// Two-sided, of the mean of differences between two of these settings, by Student's t with the scatter's degrees.
// Differences that scatter more than that count with their own variance. None without a difference or a degree, nor
// where nothing scatters: then the measure has few steps, such as an accuracy of few rows, and says nothing of the
// spread.
std::optional<Interval> IntervalOfDifferences(const BySeed& differences, const Scatter& scatter, double level);

// Two settings that have a seed in common.
struct SettingPair {
  size_t of = 0, less = 0;  // their places
  BySeed differences;       // finite
  std::optional<Interval> interval;
};
// Each with each that stands before it, with the scatter of all.
std::vector<SettingPair> PairsOfSettings(const std::vector<BySeed>& settings, double level);

// The results in the metrics of a finished run, for commands that set several runs side by side.

// The largest loss, score, time or energy that is read of a file: no run comes near it, and the squares of sums of such
// numbers are finite.
inline constexpr double kMostMeasure = 1e100;
// Error(kData) with `source` and the key where a number of a line of metrics.jsonl is larger, or as far below 0.
void CheckMeasures(const Json& line, const std::string& source);

// The median; none of none.
std::optional<double> MedianOfKnown(std::vector<double> values);

// Seconds of a step, the median, from the lines of metrics.jsonl (ReadMetrics), so that a run that was trained before
// counts too. None if the lines of the steps are lost.
std::optional<double> MedianStepSeconds(const std::vector<Json>& metrics);

}  // namespace crosstalk
