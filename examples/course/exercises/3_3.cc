// Exercise 3.3 (2 points): gradients of a weighted sum.
//
//   O[b, n, d_v, h] = Σ_m W[b, n, m, h] · V[b, m, d_v, h]
//
// dO is the gradient of the loss with respect to O. Which gradients do W and V have? Each number of W and of V passes
// on what every O that has read it wants.
#include "examples/course/checker/exercise.h"

using namespace course;

// W[b, n, m, h], V[b, m, d_v, h], dO[b, n, d_v, h] → {dW, dV}, of the sizes of W and V
static WeightedSumGradients Gradients(const Array& W, const Array& V, const Array& dO) { throw Unsolved("3.3"); }

EXERCISE(3_3, Gradients);
