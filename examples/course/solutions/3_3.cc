// A solution of exercise 3.3: gradients of a weighted sum.
#include "examples/course/checker/exercise.h"

using namespace course;

// W[b, n, m, h], V[b, m, d_v, h], dO[b, n, d_v, h] → {dW, dV}, of the sizes of W and V
static WeightedSumGradients Gradients(const Array& W, const Array& V, const Array& dO) {
  Array dW(W.sizes()), dV(V.sizes());
  for (int64_t b = 0; b < W.size(0); ++b)
    for (int64_t n = 0; n < W.size(1); ++n)
      for (int64_t m = 0; m < W.size(2); ++m)
        for (int64_t h = 0; h < W.size(3); ++h)
          for (int64_t d = 0; d < V.size(2); ++d) {
            dW(b, n, m, h) += dO(b, n, d, h) * V(b, m, d, h);
            dV(b, m, d, h) += W(b, n, m, h) * dO(b, n, d, h);
          }
  return {dW, dV};
}

EXERCISE(3_3, Gradients);
