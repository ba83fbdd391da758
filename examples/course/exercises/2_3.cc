// Exercise 2.3 (2 points): checking a gradient.
//
//   ∂f/∂x[i] ≈ (f(…, x[i] + step, …) - f(…, x[i] - step, …)) / (2 · step)
//
// Central differences are how every gradient in this project is tested: they are off by step²·f'''/6, where a
// difference to one side is off by step·f''/2.
#include "examples/course/checker/exercise.h"

using namespace course;

// → the gradient of f at x, one element for each of x
static std::vector<double> Differences(Function f, const std::vector<double>& x, double step) { throw Unsolved("2.3"); }

EXERCISE(2_3, Differences);
