// Exercise 3.4 (3 points): attention, backward.
//
//   J[b, n, m, h]   = scale · Σ_d_k Q[b, n, d_k, h] · K[b, m, d_k, h]
//   W[b, n, m, h]   = softmax of J over m
//   O[b, n, d_v, h] = Σ_m W[b, n, m, h] · V[b, m, d_v, h]
//
// From dO the gradients of Q, K and V. Compute J and W again, then go back line by line. The line in the middle:
//
//   dJ[b, n, m, h] = W · (dW - D)     with D[b, n, h] = Σ_m W[b, n, m, h] · dW[b, n, m, h]
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h], K[b, m, d_k, h], V[b, m, d_v, h], dO[b, n, d_v, h] → {dQ, dK, dV}
static AttentionGradients Gradients(const Array& Q, const Array& K, const Array& V, double scale, const Array& dO) {
  throw Unsolved("3.4");
}

EXERCISE(3_4, Gradients);
