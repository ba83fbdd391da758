// Exercise 5.5 (2 points): dynamic projections of the logits (the paper's appendix A).
//
//   R_Xl[b, n, h_k, h] = Σ_d_X X[b, n, d_X] · P_Xl[d_X, h_k, h]        a matrix of each query
//   R_Ml[b, m, h_k, h] = Σ_d_M M[b, m, d_M] · P_Ml[d_M, h_k, h]        a matrix of each memory position
//   L[b, n, m, h]      = Σ_h_k J[b, n, m, h_k] · (P_l[h_k, h] + R_Xl[b, n, h_k, h] + R_Ml[b, m, h_k, h])
#include "examples/course/checker/exercise.h"

using namespace course;

// J[b, n, m, h_k], P_l[h_k, h], X[b, n, d_X], M[b, m, d_M], P_Xl[d_X, h_k, h], P_Ml[d_M, h_k, h] → L[b, n, m, h]
static Array DynamicLogits(const Array& J, const Array& P_l, const Array& X, const Array& M, const Array& P_Xl,
                           const Array& P_Ml) {
  throw Unsolved("5.5");
}

EXERCISE(5_5, DynamicLogits);
