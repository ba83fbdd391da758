// A solution of exercise 5.5: dynamic projections of the logits (the paper's section 6).
#include "examples/course/checker/exercise.h"

using namespace course;

// J[b, n, m, h_k], P_l[h_k, h], X[b, n, d_X], M[b, m, d_M], P_Xl[d_X, h_k, h], P_Ml[d_M, h_k, h] → L[b, n, m, h]
static Array DynamicLogits(const Array& J, const Array& P_l, const Array& X, const Array& M, const Array& P_Xl,
                           const Array& P_Ml) {
  const int64_t B = J.size(0), N = J.size(1), S = J.size(2), H_k = P_l.size(0), H = P_l.size(1);
  Array R_Xl({B, N, H_k, H}), R_Ml({B, S, H_k, H}), L({B, N, S, H});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t k = 0; k < H_k; ++k)
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t n = 0; n < N; ++n)
          for (int64_t d = 0; d < X.size(2); ++d) R_Xl(b, n, k, h) += X(b, n, d) * P_Xl(d, k, h);
        for (int64_t m = 0; m < S; ++m)
          for (int64_t d = 0; d < M.size(2); ++d) R_Ml(b, m, k, h) += M(b, m, d) * P_Ml(d, k, h);
        for (int64_t n = 0; n < N; ++n)
          for (int64_t m = 0; m < S; ++m)
            L(b, n, m, h) += J(b, n, m, k) * (P_l(k, h) + R_Xl(b, n, k, h) + R_Ml(b, m, k, h));
      }
  return L;
}

EXERCISE(5_5, DynamicLogits);
