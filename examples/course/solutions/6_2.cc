// A solution of exercise 6.2: two passes over a memory in chunks.
#include "examples/course/checker/exercise.h"

using namespace course;

// Q[n, d_k, h_k], P_l[h_k, h], P_w[h, h_v] → O[n, d_v, h_v]
static Array TwoPasses(const Array& Q, Chunks& memory, const Array& P_l, const Array& P_w, double scale) {
  const int64_t N = Q.size(0), H_k = P_l.size(0), H = P_l.size(1), H_v = P_w.size(1);
  // L[j, h] of query n and the positions of a chunk.
  const auto logits = [&](int64_t n, const Array& K) {
    Array L({K.size(0), H});
    for (int64_t j = 0; j < K.size(0); ++j)
      for (int64_t k = 0; k < H_k; ++k) {
        double J = 0;
        for (int64_t d = 0; d < Q.size(1); ++d) J += scale * Q(n, d, k) * K(j, d, k);
        for (int64_t h = 0; h < H; ++h) L(j, h) += J * P_l(k, h);
      }
    return L;
  };
  // First pass: of each query and head the largest logit and the sum.
  Array largest({N, H}, -std::numeric_limits<double>::infinity()), sum({N, H});
  for (int64_t c = 0; c < memory.count(); ++c) {
    const Array K = memory.K(c);
    for (int64_t n = 0; n < N; ++n) {
      const Array L = logits(n, K);
      for (int64_t h = 0; h < H; ++h) {
        double most = largest(n, h);
        for (int64_t j = 0; j < K.size(0); ++j) most = std::max(most, L(j, h));
        sum(n, h) *= std::exp(largest(n, h) - most);
        for (int64_t j = 0; j < K.size(0); ++j) sum(n, h) += std::exp(L(j, h) - most);
        largest(n, h) = most;
      }
    }
  }
  // Second pass: weights, which are mixed, and values.
  Array O;
  for (int64_t c = 0; c < memory.count(); ++c) {
    const Array K = memory.K(c), V = memory.V(c);
    if (c == 0) O = Array({N, V.size(1), H_v});
    for (int64_t n = 0; n < N; ++n) {
      const Array L = logits(n, K);
      for (int64_t j = 0; j < K.size(0); ++j)
        for (int64_t v = 0; v < H_v; ++v) {
          double U = 0;
          for (int64_t h = 0; h < H; ++h) U += std::exp(L(j, h) - largest(n, h)) / sum(n, h) * P_w(h, v);
          for (int64_t d = 0; d < V.size(1); ++d) O(n, d, v) += U * V(j, d, v);
        }
    }
  }
  return O;
}

EXERCISE(6_2, TwoPasses);
