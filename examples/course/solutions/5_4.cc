// A solution of exercise 5.4: the bilinear form of a head.
#include "examples/course/checker/exercise.h"

using namespace course;

// P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h] → P[d_X, d_M, h]
static Array Compose(const Array& P_q, const Array& P_k, const Array& P_l) {
  Array P({P_q.size(0), P_k.size(0), P_l.size(1)});
  for (int64_t x = 0; x < P.size(0); ++x)
    for (int64_t y = 0; y < P.size(1); ++y)
      for (int64_t h = 0; h < P.size(2); ++h)
        for (int64_t k = 0; k < P_l.size(0); ++k)
          for (int64_t d = 0; d < P_q.size(1); ++d) P(x, y, h) += P_q(x, d, k) * P_k(y, d, k) * P_l(k, h);
  return P;
}

EXERCISE(5_4, Compose);
