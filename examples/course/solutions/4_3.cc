// A solution of exercise 4.3: the softmax's gradient.
#include "examples/course/checker/exercise.h"

using namespace course;

// W[b, n, m, h], dW[b, n, m, h] → dL[b, n, m, h]
static Array SoftmaxGradient(const Array& W, const Array& dW) {
  Array dL(W.sizes());
  for (int64_t b = 0; b < W.size(0); ++b)
    for (int64_t n = 0; n < W.size(1); ++n)
      for (int64_t h = 0; h < W.size(3); ++h) {
        double D = 0;
        for (int64_t m = 0; m < W.size(2); ++m) D += W(b, n, m, h) * dW(b, n, m, h);
        for (int64_t m = 0; m < W.size(2); ++m) dL(b, n, m, h) = W(b, n, m, h) * (dW(b, n, m, h) - D);
      }
  return dL;
}

EXERCISE(4_3, SoftmaxGradient);
