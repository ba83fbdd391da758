// A solution of exercise 4.2: masks.
#include "examples/course/checker/exercise.h"

using namespace course;

// L[b, n, m, h], mask[b, n, m] → W[b, n, m, h]
static Array MaskedSoftmax(const Array& L, const Array& mask) {
  Array W(L.sizes());
  for (int64_t b = 0; b < L.size(0); ++b)
    for (int64_t n = 0; n < L.size(1); ++n)
      for (int64_t h = 0; h < L.size(3); ++h) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t m = 0; m < L.size(2); ++m)
          if (mask(b, n, m) != 0) largest = std::max(largest, L(b, n, m, h));
        for (int64_t m = 0; m < L.size(2); ++m)
          if (mask(b, n, m) != 0) sum += W(b, n, m, h) = std::exp(L(b, n, m, h) - largest);
        for (int64_t m = 0; m < L.size(2); ++m)
          if (sum > 0) W(b, n, m, h) /= sum;
      }
  return W;
}

EXERCISE(4_2, MaskedSoftmax);
