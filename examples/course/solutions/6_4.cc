// A solution of exercise 6.4: a kernel of your own, backward.
#include "examples/course/checker/exercise.h"

using namespace course;

// Everything of one query: J, then L, then W[j, h] of all its memory positions, and U[j, h_v].
struct Query {
  std::vector<float> J, W, U;
};

static bool Attends(const KernelCall& c, int64_t b, int64_t i, int64_t j) {
  return (c.key_mask == nullptr || c.key_mask[b * c.m + j] != 0) && (!c.causal || j <= i + c.m - c.n);
}

static Query Weights(const KernelCall& c, int64_t b, int64_t i) {
  Query q = {std::vector<float>(c.m * c.h_k), std::vector<float>(c.m * c.h), std::vector<float>(c.m * c.h_v)};
  std::vector<float> largest(c.h, -std::numeric_limits<float>::infinity()), sum(c.h);
  for (int64_t j = 0; j < c.m; ++j) {
    if (!Attends(c, b, i, j)) continue;
    for (int64_t k = 0; k < c.h_k; ++k) {
      const float* query = c.Q + ((b * c.n + i) * c.h_k + k) * c.d_k;
      const float* key = c.K + ((b * c.m + j) * c.h_k + k) * c.d_k;
      float dot = 0;
      for (int64_t d = 0; d < c.d_k; ++d) dot += query[d] * key[d];
      q.J[j * c.h_k + k] = c.scale * dot;
      for (int64_t h = 0; h < c.h; ++h) q.W[j * c.h + h] += c.scale * dot * c.P_l[k * c.h + h];
    }
    for (int64_t h = 0; h < c.h; ++h) largest[h] = std::max(largest[h], q.W[j * c.h + h]);
  }
  for (int64_t j = 0; j < c.m; ++j)
    for (int64_t h = 0; h < c.h; ++h) {
      float& w = q.W[j * c.h + h];
      sum[h] += w = Attends(c, b, i, j) ? std::exp(w - largest[h]) : 0;
    }
  for (int64_t j = 0; j < c.m; ++j)
    for (int64_t h = 0; h < c.h; ++h) {
      float& w = q.W[j * c.h + h];
      if (sum[h] > 0) w /= sum[h];
      for (int64_t v = 0; v < c.h_v; ++v) q.U[j * c.h_v + v] += w * c.P_w[h * c.h_v + v];
    }
  return q;
}

static void Gradients(const KernelCall* call, const float* dO, const KernelGradients* gradients) {
  const KernelCall& c = *call;
  const KernelGradients& g = *gradients;
  std::fill(g.Q, g.Q + c.b * c.n * c.h_k * c.d_k, 0.0f);
  std::fill(g.K, g.K + c.b * c.m * c.h_k * c.d_k, 0.0f);
  std::fill(g.V, g.V + c.b * c.m * c.h_v * c.d_v, 0.0f);
  std::fill(g.P_l, g.P_l + c.h_k * c.h, 0.0f);
  std::fill(g.P_w, g.P_w + c.h * c.h_v, 0.0f);
  for (int64_t b = 0; b < c.b; ++b)
    for (int64_t i = 0; i < c.n; ++i) {
      const Query q = Weights(c, b, i);
      std::vector<float> dW(c.m * c.h), D(c.h);
      for (int64_t j = 0; j < c.m; ++j)
        for (int64_t v = 0; v < c.h_v; ++v) {
          const int64_t at = ((b * c.m + j) * c.h_v + v) * c.d_v;
          const float* o = dO + ((b * c.n + i) * c.h_v + v) * c.d_v;
          float dU = 0;
          for (int64_t d = 0; d < c.d_v; ++d) {
            dU += o[d] * c.V[at + d];
            g.V[at + d] += q.U[j * c.h_v + v] * o[d];
          }
          for (int64_t h = 0; h < c.h; ++h) {
            dW[j * c.h + h] += dU * c.P_w[h * c.h_v + v];
            g.P_w[h * c.h_v + v] += q.W[j * c.h + h] * dU;
          }
        }
      for (int64_t j = 0; j < c.m; ++j)
        for (int64_t h = 0; h < c.h; ++h) D[h] += q.W[j * c.h + h] * dW[j * c.h + h];
      for (int64_t j = 0; j < c.m; ++j)
        for (int64_t k = 0; k < c.h_k; ++k) {
          float dJ = 0;
          for (int64_t h = 0; h < c.h; ++h) {
            const float dL = q.W[j * c.h + h] * (dW[j * c.h + h] - D[h]);
            dJ += dL * c.P_l[k * c.h + h];
            g.P_l[k * c.h + h] += q.J[j * c.h_k + k] * dL;
          }
          const int64_t query = ((b * c.n + i) * c.h_k + k) * c.d_k, key = ((b * c.m + j) * c.h_k + k) * c.d_k;
          for (int64_t d = 0; d < c.d_k; ++d) {
            g.Q[query + d] += c.scale * dJ * c.K[key + d];
            g.K[key + d] += c.scale * dJ * c.Q[query + d];
          }
        }
    }
}

EXERCISE(6_4, Gradients);
