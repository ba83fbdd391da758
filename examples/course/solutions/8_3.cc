// A solution of exercise 8.3: a cache of dynamic projections.
#include "examples/course/checker/exercise.h"

using namespace course;

// x[d_X], P_q[d_X, d_k, h_k], P_k[d_M, d_k, h_k], P_l[h_k, h], P_Ml[d_M, h_k, h] → L[m, h];
// cache.K[m][d_k, h_k], cache.R_Ml[m][h_k, h]
static Array Logits(const Array& x, const Array& P_q, const Array& P_k, const Array& P_l, const Array& P_Ml,
                    MixingCache& cache) {
  const int64_t d_k = P_q.size(1), H_k = P_l.size(0), H = P_l.size(1);
  Array q({d_k, H_k}), K({d_k, H_k}), R_Ml({H_k, H});
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t k = 0; k < H_k; ++k) {
      for (int64_t d = 0; d < d_k; ++d) {
        q(d, k) += x(i) * P_q(i, d, k);
        K(d, k) += x(i) * P_k(i, d, k);
      }
      for (int64_t h = 0; h < H; ++h) R_Ml(k, h) += x(i) * P_Ml(i, k, h);
    }
  cache.K.push_back(K);
  cache.R_Ml.push_back(R_Ml);
  const int64_t M = static_cast<int64_t>(cache.K.size());
  const double scale = 1 / std::sqrt(static_cast<double>(d_k));
  Array L({M, H});
  for (int64_t m = 0; m < M; ++m)
    for (int64_t k = 0; k < H_k; ++k) {
      double J = 0;
      for (int64_t d = 0; d < d_k; ++d) J += scale * q(d, k) * cache.K[m](d, k);
      for (int64_t h = 0; h < H; ++h) L(m, h) += J * (P_l(k, h) + cache.R_Ml[m](k, h));
    }
  return L;
}

EXERCISE(8_3, Logits);
