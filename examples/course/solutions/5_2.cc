// A solution of exercise 5.2: talking heads, forward.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h_k], K[b, m, d_k, h_k], V[b, m, d_v, h_v], P_l[h_k, h], P_w[h, h_v], mask[b, n, m] → O[b, n, d_v, h_v]
static Array TalkingHeads(const Array& Q, const Array& K, const Array& V, const Array& P_l, const Array& P_w,
                          const Array& mask, double scale) {
  const int64_t B = Q.size(0), N = Q.size(1), M = K.size(1), H_k = P_l.size(0), H = P_l.size(1), H_v = P_w.size(1);
  const double infinity = std::numeric_limits<double>::infinity();
  Array J({B, N, M, H_k}), L({B, N, M, H}), W({B, N, M, H}), U({B, N, M, H_v}), O({B, N, V.size(2), H_v});
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t k = 0; k < H_k; ++k)
          for (int64_t d = 0; d < Q.size(2); ++d) J(b, n, m, k) += scale * Q(b, n, d, k) * K(b, m, d, k);
        for (int64_t h = 0; h < H; ++h)
          for (int64_t k = 0; k < H_k; ++k) L(b, n, m, h) += J(b, n, m, k) * P_l(k, h);
        for (int64_t h = 0; h < H; ++h)
          if (mask(b, n, m) == 0) L(b, n, m, h) = -infinity;
      }
      for (int64_t h = 0; h < H; ++h) {
        double largest = -infinity, sum = 0;
        for (int64_t m = 0; m < M; ++m) largest = std::max(largest, L(b, n, m, h));
        if (largest == -infinity) continue;
        for (int64_t m = 0; m < M; ++m) sum += W(b, n, m, h) = std::exp(L(b, n, m, h) - largest);
        for (int64_t m = 0; m < M; ++m) W(b, n, m, h) /= sum;
      }
      for (int64_t m = 0; m < M; ++m)
        for (int64_t v = 0; v < H_v; ++v) {
          for (int64_t h = 0; h < H; ++h) U(b, n, m, v) += W(b, n, m, h) * P_w(h, v);
          for (int64_t d = 0; d < V.size(2); ++d) O(b, n, d, v) += U(b, n, m, v) * V(b, m, d, v);
        }
    }
  return O;
}

EXERCISE(5_2, TalkingHeads);
