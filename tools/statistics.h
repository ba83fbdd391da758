// Statistics of a few values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

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
// The two-sided interval of the mean of normally distributed values at that level, by Student's t. At least two values.
Interval IntervalOfMean(const std::vector<double>& values, double level);

// What was measured of runs that differ in their seed alone.
using BySeed = std::map<uint64_t, double>;
std::vector<double> ValuesOf(const BySeed& by_seed);
// a - b for each seed that both have: the same seed gives two settings the same text in the same order.
BySeed PairedDifferences(const BySeed& a, const BySeed& b);
// Of the mean of such differences, two-sided. None of fewer than two seeds, nor of differences that are all the same:
// those are of a measure with few steps, such as an accuracy of few rows, and say nothing of the spread.
std::optional<Interval> IntervalOfDifferences(const BySeed& differences, double level);

}  // namespace crosstalk
