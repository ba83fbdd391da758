// Exercise 5.3 (4 points): talking heads, backward.
//
//   J = scale · Q·K      L = J·P_l      W = softmax of L over m      U = W·P_w      O = U·V          as in 5.2, no mask
//
// From dO the gradients of Q, K, V, P_l and P_w. Compute J, L, W and U again; then go back line by line, the last line
// first. Each line has two gradients: of U = W·P_w,
//
//   dW[b, n, m, h] = Σ_h_v dU[b, n, m, h_v] · P_w[h, h_v]       dP_w[h, h_v] = Σ_b,n,m W[b, n, m, h] · dU[b, n, m, h_v]
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h_k], K[b, m, d_k, h_k], V[b, m, d_v, h_v], P_l[h_k, h], P_w[h, h_v], dO[b, n, d_v, h_v]
// → {dQ, dK, dV, dP_l, dP_w}, each of the sizes of what it is the gradient of
static TalkingGradients Gradients(const Array& Q, const Array& K, const Array& V, const Array& P_l, const Array& P_w,
                                  double scale, const Array& dO) {
  throw Unsolved("5.3");
}

EXERCISE(5_3, Gradients);
