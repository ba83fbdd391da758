// Exercise 8.3 (3 points): a cache of dynamic projections.
//
// One token x of a decoder with a dynamic projection of the memory. Append its key and its matrix to the cache,
//
//   K[d_k, h_k]  = Σ_d x[d] · P_k[d, d_k, h_k]         R_Ml[h_k, h] = Σ_d x[d] · P_Ml[d, h_k, h]
//
// and give the logits of its query over all positions m of the cache, its own among them:
//
//   q[d_k, h_k]  = Σ_d x[d] · P_q[d, d_k, h_k]         J[m, h_k] = 1/√d_k · Σ_d_k q[d_k, h_k] · K[m, d_k, h_k]
//   L[m, h]      = Σ_h_k J[m, h_k] · (P_l[h_k, h] + R_Ml[m, h_k, h])
#include "examples/course/checker/exercise.h"

using namespace course;

// x[d_X], P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h], P_Ml[d_M, h_k, h] → L[m, h];
// cache.K[m][d_k, h_k], cache.R_Ml[m][h_k, h]
static Array Logits(const Array& x, const Array& P_q, const Array& P_k, const Array& P_l, const Array& P_Ml,
                    MixingCache& cache) {
  throw Unsolved("8.3");
}

EXERCISE(8_3, Logits);
