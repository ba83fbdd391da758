// A solution of exercise 2.3: checking a gradient.
#include "examples/course/checker/exercise.h"

using namespace course;

// → the gradient of f at x, one element for each of x
static std::vector<double> Differences(Function f, const std::vector<double>& x, double step) {
  std::vector<double> gradient, moved = x;
  for (size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + step;
    const double above = f(moved);
    moved[i] = x[i] - step;
    gradient.push_back((above - f(moved)) / (2 * step));
    moved[i] = x[i];
  }
  return gradient;
}

EXERCISE(2_3, Differences);
