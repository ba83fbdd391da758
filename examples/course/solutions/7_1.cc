// A solution of exercise 7.1: cross-entropy and its gradient.
#include "examples/course/checker/exercise.h"

using namespace course;

// logits[row, class], targets[row] → {loss, dlogits[row, class]}
static LossAndGradient CrossEntropy(const Array& logits, const std::vector<int64_t>& targets) {
  const int64_t rows = logits.size(0), classes = logits.size(1);
  LossAndGradient result = {.loss = 0, .dlogits = Array(logits.sizes())};
  for (int64_t row = 0; row < rows; ++row) {
    double largest = logits(row, 0), sum = 0;
    for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, logits(row, c));
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits(row, c) - largest);
    result.loss -= (logits(row, targets[row]) - largest - std::log(sum)) / rows;
    for (int64_t c = 0; c < classes; ++c) {
      const double p = std::exp(logits(row, c) - largest) / sum;
      result.dlogits(row, c) = (p - (c == targets[row])) / rows;
    }
  }
  return result;
}

EXERCISE(7_1, CrossEntropy);
