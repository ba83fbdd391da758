// Exercise 7.1 (2 points): cross-entropy and its gradient.
//
//   p[row, class] = softmax of logits[row, class] over the classes
//   loss          = mean over the rows of -ln p[row, targets[row]]
//
// and dlogits, the gradient of the loss. Logits may be large: subtract the largest of the row.
#include "examples/course/checker/exercise.h"

using namespace course;

// logits[row, class], targets[row] → {loss, dlogits[row, class]}
static LossAndGradient CrossEntropy(const Array& logits, const std::vector<int64_t>& targets) { throw Unsolved("7.1"); }

EXERCISE(7_1, CrossEntropy);
