// A solution of exercise 8.2: what a position takes.
#include "examples/course/checker/exercise.h"

using namespace course;

// sizes.h_k, .h, .h_v, .d_k, .d_v; dynamic: whether the layer has P_Ml and P_Mw
static int64_t NumbersOfAPosition(const LayerSizes& sizes, bool dynamic) {
  const LayerSizes& s = sizes;
  const int64_t mixings = s.h_k * s.h + s.h * s.h_v;
  return s.h_k * s.d_k + s.h_v * s.d_v + (dynamic ? mixings : 0);
}

EXERCISE(8_2, NumbersOfAPosition);
