// Exercise 6.4 (5 points): a kernel of your own, backward.
//
// From dO[b, n, h_v, d_v] the gradients of Q, K, V, P_l and P_w, as in 5.3, of the call of 6.3: in floats on pointers,
// with both masks. gradients->Q, K, V, P_l and P_w have the shapes of what they belong to, and are to be overwritten.
#include "examples/course/checker/exercise.h"

using namespace course;

static void Gradients(const KernelCall* call, const float* dO, const KernelGradients* gradients) {
  throw Unsolved("6.4");
}

EXERCISE(6_4, Gradients);
