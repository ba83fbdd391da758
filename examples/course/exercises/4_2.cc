// Exercise 4.2 (2 points): masks.
//
//   W[b, n, m, h] = softmax of L[b, n, m, h] over those m with mask[b, n, m] = 1, and 0 at the others
//
// The mask is the same for all heads. A query whose mask is 0 everywhere gets zeros.
#include "examples/course/checker/exercise.h"

using namespace course;

// L[b, n, m, h], mask[b, n, m] → W[b, n, m, h]
static Array MaskedSoftmax(const Array& L, const Array& mask) { throw Unsolved("4.2"); }

EXERCISE(4_2, MaskedSoftmax);
