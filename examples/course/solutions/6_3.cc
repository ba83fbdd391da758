// A solution of exercise 6.3: a kernel of your own, forward.
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

static void TalkingHeads(const KernelCall* call, float* O) {
  const KernelCall& c = *call;
  std::fill(O, O + c.b * c.n * c.h_v * c.d_v, 0.0f);
#pragma omp parallel for
  for (int64_t row = 0; row < c.b * c.n; ++row) {
    const int64_t b = row / c.n, i = row % c.n;
    const Query q = Weights(c, b, i);
    for (int64_t j = 0; j < c.m; ++j)
      for (int64_t v = 0; v < c.h_v; ++v) {
        const float* value = c.V + ((b * c.m + j) * c.h_v + v) * c.d_v;
        float* o = O + ((b * c.n + i) * c.h_v + v) * c.d_v;
        for (int64_t d = 0; d < c.d_v; ++d) o[d] += q.U[j * c.h_v + v] * value[d];
      }
  }
}

EXERCISE(6_3, TalkingHeads);
