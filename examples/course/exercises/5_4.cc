// Exercise 5.4 (2 points): the bilinear form of a head.
//
// A softmax head compares X[n, d_X] with M[m, d_M] by one matrix of its own, P[·, ·, h]. Which one, of talking heads?
//
//   L[n, m, h]     = Σ_d_X,d_M X[n, d_X] · P[d_X, d_M, h] · M[m, d_M]
//   P[d_X, d_M, h] = Σ_d_k,h_k P_q[d_X, d_k, h_k] · P_k[d_M, d_k, h_k] · P_l[h_k, h]
//
// Without P_l its rank is at most d_k, the bottleneck of many small heads; with it, at most d_k · h_k.
#include "examples/course/checker/exercise.h"

using namespace course;

// P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h] → P[d_X, d_M, h]
static Array Compose(const Array& P_q, const Array& P_k, const Array& P_l) { throw Unsolved("5.4"); }

EXERCISE(5_4, Compose);
