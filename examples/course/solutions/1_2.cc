// A solution of exercise 1.2: an einsum in loops.
#include "examples/course/checker/exercise.h"

using namespace course;

// O[n, d_v, h], P_o[d_Y, d_v, h] → Y[n, d_Y]
static Array Project(const Array& O, const Array& P_o) {
  Array Y({O.size(0), P_o.size(0)});
  for (int64_t n = 0; n < O.size(0); ++n)
    for (int64_t y = 0; y < P_o.size(0); ++y)
      for (int64_t d = 0; d < O.size(1); ++d)
        for (int64_t h = 0; h < O.size(2); ++h) Y(n, y) += O(n, d, h) * P_o(y, d, h);
  return Y;
}

EXERCISE(1_2, Project);
