// Exercise 4.3 (2 points): the softmax's gradient.
//
//   W[b, n, m, h] = softmax of L[b, n, m, h] over m
//
// From W and dW the gradient of L. W is enough: with ∂W[m]/∂L[i] = W[m] · (δ_mi - W[i]) the sum over m needs no L.
#include "examples/course/checker/exercise.h"

using namespace course;

// W[b, n, m, h], dW[b, n, m, h] → dL[b, n, m, h]
static Array SoftmaxGradient(const Array& W, const Array& dW) { throw Unsolved("4.3"); }

EXERCISE(4_3, SoftmaxGradient);
