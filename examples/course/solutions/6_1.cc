// A solution of exercise 6.1: what a layer costs.
#include "examples/course/checker/exercise.h"

using namespace course;

// sizes.n, .m, .h_k, .h, .h_v, .d_k, .d_v
static int64_t Multiplications(const LayerSizes& sizes) {
  const LayerSizes& s = sizes;
  return s.n * s.m * (s.h_k * s.d_k + s.h_k * s.h + s.h * s.h_v + s.h_v * s.d_v);
}

EXERCISE(6_1, Multiplications);
