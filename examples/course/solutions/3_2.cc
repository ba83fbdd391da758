// A solution of exercise 3.2: weights and values.
#include "examples/course/checker/exercise.h"

using namespace course;

// J[b, n, m, h], V[b, m, d_v, h] → O[b, n, d_v, h]
static Array Attend(const Array& J, const Array& V) {
  Array O({J.size(0), J.size(1), V.size(2), J.size(3)});
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n < J.size(1); ++n)
      for (int64_t h = 0; h < J.size(3); ++h) {
        double sum = 0;
        for (int64_t m = 0; m < J.size(2); ++m) sum += std::exp(J(b, n, m, h));
        for (int64_t m = 0; m < J.size(2); ++m)
          for (int64_t d = 0; d < V.size(2); ++d) O(b, n, d, h) += std::exp(J(b, n, m, h)) / sum * V(b, m, d, h);
      }
  return O;
}

EXERCISE(3_2, Attend);
