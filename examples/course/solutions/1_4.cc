// A solution of exercise 1.4: the gradient of an einsum.
#include "examples/course/checker/exercise.h"

using namespace course;

// X[n, d_X], P_q[d_X, d_k, h], dQ[n, d_k, h] → {dX[n, d_X], dP_q[d_X, d_k, h]}
static ProjectionGradients Gradients(const Array& X, const Array& P_q, const Array& dQ) {
  Array dX(X.sizes()), dP_q(P_q.sizes());
  for (int64_t n = 0; n < X.size(0); ++n)
    for (int64_t x = 0; x < X.size(1); ++x)
      for (int64_t d = 0; d < P_q.size(1); ++d)
        for (int64_t h = 0; h < P_q.size(2); ++h) {
          dX(n, x) += dQ(n, d, h) * P_q(x, d, h);
          dP_q(x, d, h) += X(n, x) * dQ(n, d, h);
        }
  return {dX, dP_q};
}

EXERCISE(1_4, Gradients);
