// A solution of exercise 3.5: attention in einsum.
#include "examples/course/checker/library_exercise.h"

using namespace course;

// X[b, n, d_X], M[b, m, d_M] → Y[b, n, d_Y]
static Variable MultiHeadAttention(const Variable& X, const Variable& M, const Variable& P_q, const Variable& P_k,
                                   const Variable& P_v, const Variable& P_o, double scale) {
  const Variable Q = Einsum("Q[b, n, d_k, h] = einsum(X[b, n, d_X], P_q[d_X, d_k, h])", {X, P_q});
  const Variable K = Einsum("K[b, m, d_k, h] = einsum(M[b, m, d_M], P_k[d_M, d_k, h])", {M, P_k});
  const Variable V = Einsum("V[b, m, d_v, h] = einsum(M[b, m, d_M], P_v[d_M, d_v, h])", {M, P_v});
  const Variable J = Scale(Einsum("J[b, n, m, h] = einsum(Q[b, n, d_k, h], K[b, m, d_k, h])", {Q, K}), scale);
  const Variable W = Softmax(J, 2);
  const Variable O = Einsum("O[b, n, d_v, h] = einsum(W[b, n, m, h], V[b, m, d_v, h])", {W, V});
  return Einsum("Y[b, n, d_Y] = einsum(O[b, n, d_v, h], P_o[d_Y, d_v, h])", {O, P_o});
}

EXERCISE(3_5, MultiHeadAttention);
