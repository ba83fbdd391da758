// A solution of exercise 4.1: a softmax that does not overflow.
#include "examples/course/checker/exercise.h"

using namespace course;

static std::vector<double> StableSoftmax(const std::vector<double>& x) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double value : x) largest = std::max(largest, value);
  std::vector<double> y(x.size());
  if (std::isinf(largest)) return y;
  for (size_t i = 0; i < x.size(); ++i) sum += y[i] = std::exp(x[i] - largest);
  for (double& value : y) value /= sum;
  return y;
}

EXERCISE(4_1, StableSoftmax);
