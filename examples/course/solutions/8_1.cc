// A solution of exercise 8.1: a step with a cache.
#include "examples/course/checker/exercise.h"

using namespace course;

// q[h·d_k], k[h·d_k], v[h·d_v], head after head → O[h·d_v]; cache.K[m], cache.V[m] are like k and v
static std::vector<double> Step(const std::vector<double>& q, const std::vector<double>& k,
                                const std::vector<double>& v, int64_t heads, Cache& cache) {
  cache.K.push_back(k);
  cache.V.push_back(v);
  const size_t d_k = k.size() / heads, d_v = v.size() / heads, m = cache.K.size();
  const double scale = 1 / std::sqrt(static_cast<double>(d_k));
  std::vector<double> O(v.size());
  for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
    std::vector<double> W(m);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (size_t j = 0; j < m; ++j) {
      for (size_t d = 0; d < d_k; ++d) W[j] += scale * q[h * d_k + d] * cache.K[j][h * d_k + d];
      largest = std::max(largest, W[j]);
    }
    for (double& w : W) sum += w = std::exp(w - largest);
    for (size_t j = 0; j < m; ++j)
      for (size_t d = 0; d < d_v; ++d) O[h * d_v + d] += W[j] / sum * cache.V[j][h * d_v + d];
  }
  return O;
}

EXERCISE(8_1, Step);
