// Exercise 4.1 (1 point): a softmax that does not overflow.
//
//   y[i] = e^x[i] / Σ_j e^x[j]
//
// of any x: 1000 too, and -∞, which masks a position. Where all are -∞ there is
// nothing to attend to, and y is 0 throughout.
#include "examples/course/checker/exercise.h"

using namespace course;

static std::vector<double> StableSoftmax(const std::vector<double>& x) { throw Unsolved("4.1"); }

EXERCISE(4_1, StableSoftmax);
