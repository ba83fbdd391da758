// A solution of exercise 3.1: logits.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h], K[b, m, d_k, h] → J[b, n, m, h]
static Array Logits(const Array& Q, const Array& K, double scale) {
  Array J({Q.size(0), Q.size(1), K.size(1), Q.size(3)});
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n < J.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t h = 0; h < J.size(3); ++h)
          for (int64_t d = 0; d < Q.size(2); ++d) J(b, n, m, h) += scale * Q(b, n, d, h) * K(b, m, d, h);
  return J;
}

EXERCISE(3_1, Logits);
