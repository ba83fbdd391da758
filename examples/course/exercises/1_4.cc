// Exercise 1.4 (2 points): the gradient of an einsum.
//
//   Q[n, d_k, h] = einsum(X[n, d_X], P_q[d_X, d_k, h])
//
// dQ says how the loss grows with each element of Q. How does it grow with those of X and of P_q? Each is an einsum as
// well: the gradient of one operand is that of the result, contracted with the other operand.
#include "examples/course/checker/exercise.h"

using namespace course;

// X[n, d_X], P_q[d_X, d_k, h], dQ[n, d_k, h] → {dX[n, d_X], dP_q[d_X, d_k, h]}
static ProjectionGradients Gradients(const Array& X, const Array& P_q, const Array& dQ) { throw Unsolved("1.4"); }

EXERCISE(1_4, Gradients);
