// Statistics of a few values.
#pragma once

#include <vector>

namespace crosstalk {

// The middle one, or the mean of the two in the middle. 0 of none.
double Median(std::vector<double> values);

struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;  // standard deviation of the sample, over n - 1; 0 of one value
};
MeanAndDeviation Summarise(const std::vector<double>& values);

}  // namespace crosstalk
