// Exercise 2.1 (1 point): a value that is read twice.
//
//   z = x·y + e^x
//
// How does z grow with x, and how with y? x is read by the product and by the exponential.
#include "examples/course/checker/exercise.h"

using namespace course;

// → {∂z/∂x, ∂z/∂y}
static PairGradients Gradients(double x, double y) { throw Unsolved("2.1"); }

EXERCISE(2_1, Gradients);
