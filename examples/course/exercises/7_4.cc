// Exercise 7.4 (2 points): which head looks back.
//
// W[h, n, m] are the weights that a trained model's layer gave to a text, causal. A head that always attends to the
// position before is a bigram; how near does each come to it?
//
//   score[h] = mean over the queries n = 1, 2, … of W[h, n, n - 1]
#include "examples/course/checker/exercise.h"

using namespace course;

static std::vector<double> LooksBack(const Array& W) { throw Unsolved("7.4"); }

EXERCISE(7_4, LooksBack);
