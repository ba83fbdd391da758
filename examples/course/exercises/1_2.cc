// Exercise 1.2 (1 point): an einsum in loops.
//
//   Y[n, d_Y] = einsum(O[n, d_v, h], P_o[d_Y, d_v, h])
//
// Multiply over the union of all dimensions, n, d_Y, d_v and h, and sum over those that Y does not name.
#include "examples/course/checker/exercise.h"

using namespace course;

// O[n, d_v, h], P_o[d_Y, d_v, h] → Y[n, d_Y]
static Array Project(const Array& O, const Array& P_o) { throw Unsolved("1.2"); }

EXERCISE(1_2, Project);
