// A solution of exercise 3.4: attention, backward.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[b, n, d_k, h], K[b, m, d_k, h], V[b, m, d_v, h], dO[b, n, d_v, h] → {dQ, dK, dV}
static AttentionGradients Gradients(const Array& Q, const Array& K, const Array& V, double scale, const Array& dO) {
  const int64_t B = Q.size(0), N = Q.size(1), M = K.size(1), H = Q.size(3);
  Array dQ(Q.sizes()), dK(K.sizes()), dV(V.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t h = 0; h < H; ++h) {
        // Everything of one query and head: W[m], dW[m].
        std::vector<double> W(M), dW(M);
        double sum = 0, D = 0;
        for (int64_t m = 0; m < M; ++m) {
          double J = 0;
          for (int64_t d = 0; d < Q.size(2); ++d) J += scale * Q(b, n, d, h) * K(b, m, d, h);
          sum += W[m] = std::exp(J);
        }
        for (int64_t m = 0; m < M; ++m) {
          W[m] /= sum;
          for (int64_t d = 0; d < V.size(2); ++d) {
            dW[m] += dO(b, n, d, h) * V(b, m, d, h);
            dV(b, m, d, h) += W[m] * dO(b, n, d, h);
          }
          D += W[m] * dW[m];
        }
        for (int64_t m = 0; m < M; ++m) {
          const double dJ = W[m] * (dW[m] - D);
          for (int64_t d = 0; d < Q.size(2); ++d) {
            dQ(b, n, d, h) += scale * dJ * K(b, m, d, h);
            dK(b, m, d, h) += scale * dJ * Q(b, n, d, h);
          }
        }
      }
  return {dQ, dK, dV};
}

EXERCISE(3_4, Gradients);
