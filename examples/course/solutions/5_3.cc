// A solution of exercise 5.3: talking heads, backward.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h_k], K[b, m, d_k, h_k], V[b, m, d_v, h_v], P_l[h_k, h], P_w[h, h_v], dO[b, n, d_v, h_v]
// → {dQ, dK, dV, dP_l, dP_w}, each of the sizes of what it is the gradient of
static TalkingGradients Gradients(const Array& Q, const Array& K, const Array& V, const Array& P_l, const Array& P_w,
                                  double scale, const Array& dO) {
  const int64_t B = Q.size(0), N = Q.size(1), M = K.size(1), H_k = P_l.size(0), H = P_l.size(1), H_v = P_w.size(1);
  Array dQ(Q.sizes()), dK(K.sizes()), dV(V.sizes()), dP_l(P_l.sizes()), dP_w(P_w.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n) {
      Array J({M, H_k}), W({M, H}), U({M, H_v});  // of this query
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t k = 0; k < H_k; ++k)
          for (int64_t d = 0; d < Q.size(2); ++d) J(m, k) += scale * Q(b, n, d, k) * K(b, m, d, k);
        for (int64_t h = 0; h < H; ++h) {
          double L = 0;
          for (int64_t k = 0; k < H_k; ++k) L += J(m, k) * P_l(k, h);
          W(m, h) = std::exp(L);
        }
      }
      for (int64_t h = 0; h < H; ++h) {
        double sum = 0;
        for (int64_t m = 0; m < M; ++m) sum += W(m, h);
        for (int64_t m = 0; m < M; ++m) W(m, h) /= sum;
      }
      for (int64_t m = 0; m < M; ++m)
        for (int64_t v = 0; v < H_v; ++v)
          for (int64_t h = 0; h < H; ++h) U(m, v) += W(m, h) * P_w(h, v);

      Array dU({M, H_v}), dW({M, H}), dL({M, H}), dJ({M, H_k});
      for (int64_t m = 0; m < M; ++m)
        for (int64_t v = 0; v < H_v; ++v) {
          for (int64_t d = 0; d < V.size(2); ++d) {
            dU(m, v) += dO(b, n, d, v) * V(b, m, d, v);
            dV(b, m, d, v) += U(m, v) * dO(b, n, d, v);
          }
          for (int64_t h = 0; h < H; ++h) {
            dW(m, h) += dU(m, v) * P_w(h, v);
            dP_w(h, v) += W(m, h) * dU(m, v);
          }
        }
      for (int64_t h = 0; h < H; ++h) {
        double D = 0;
        for (int64_t m = 0; m < M; ++m) D += W(m, h) * dW(m, h);
        for (int64_t m = 0; m < M; ++m) dL(m, h) = W(m, h) * (dW(m, h) - D);
      }
      for (int64_t m = 0; m < M; ++m)
        for (int64_t k = 0; k < H_k; ++k) {
          for (int64_t h = 0; h < H; ++h) {
            dJ(m, k) += dL(m, h) * P_l(k, h);
            dP_l(k, h) += J(m, k) * dL(m, h);
          }
          for (int64_t d = 0; d < Q.size(2); ++d) {
            dQ(b, n, d, k) += scale * dJ(m, k) * K(b, m, d, k);
            dK(b, m, d, k) += scale * dJ(m, k) * Q(b, n, d, k);
          }
        }
    }
  return {dQ, dK, dV, dP_l, dP_w};
}

EXERCISE(5_3, Gradients);
