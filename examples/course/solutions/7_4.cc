// A solution of exercise 7.4: which head looks back.
#include "examples/course/checker/exercise.h"

using namespace course;

static std::vector<double> LooksBack(const Array& W) {
  std::vector<double> score(W.size(0));
  for (int64_t h = 0; h < W.size(0); ++h)
    for (int64_t n = 1; n < W.size(1); ++n) score[h] += W(h, n, n - 1) / static_cast<double>(W.size(1) - 1);
  return score;
}

EXERCISE(7_4, LooksBack);
