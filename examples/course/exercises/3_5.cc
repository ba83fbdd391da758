// Exercise 3.5 (2 points): attention in einsum.
//
//   Q[b, n, d_k, h] = einsum(X[b, n, d_X], P_q[d_X, d_k, h])      K and V of M alike, by P_k and P_v[d_M, d_v, h]
//   J[b, n, m, h]   = einsum(Q[b, n, d_k, h], K[b, m, d_k, h]) * scale
//   W[b, n, m, h]   = softmax(J[b, n, m, h], reduced_dim=m)
//   O[b, n, d_v, h] = einsum(W[b, n, m, h], V[b, m, d_v, h])
//   Y[b, n, d_Y]    = einsum(O[b, n, d_v, h], P_o[d_Y, d_v, h])
//
// A line of the paper is a line of code: Einsum("Q[b, n, d_k, h] = einsum(…)", {X, P_q}), Scale(J, scale), and
// Softmax(J, i) over dimension i, counted from 0. The tape computes the gradients; the checker compares those as well.
#include "examples/course/checker/library_exercise.h"

using namespace course;

// X[b, n, d_X], M[b, m, d_M] → Y[b, n, d_Y]
static Variable MultiHeadAttention(const Variable& X, const Variable& M, const Variable& P_q, const Variable& P_k,
                                   const Variable& P_v, const Variable& P_o, double scale) {
  throw Unsolved("3.5");
}

EXERCISE(3_5, MultiHeadAttention);
