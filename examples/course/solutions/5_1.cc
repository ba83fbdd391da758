// A solution of exercise 5.1: the logits projection.
#include "examples/course/checker/exercise.h"

using namespace course;

// J[b, n, m, h_k], P_l[h_k, h] → L[b, n, m, h]
static Array MixLogits(const Array& J, const Array& P_l) {
  Array L({J.size(0), J.size(1), J.size(2), P_l.size(1)});
  for (int64_t b = 0; b < L.size(0); ++b)
    for (int64_t n = 0; n < L.size(1); ++n)
      for (int64_t m = 0; m < L.size(2); ++m)
        for (int64_t h = 0; h < L.size(3); ++h)
          for (int64_t k = 0; k < P_l.size(0); ++k) L(b, n, m, h) += J(b, n, m, k) * P_l(k, h);
  return L;
}

EXERCISE(5_1, MixLogits);
