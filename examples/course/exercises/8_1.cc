// Exercise 8.1 (2 points): a step with a cache.
//
// A decoder writes a token at a time. Of each it computes q, k and v once; keys and values of the earlier tokens are in
// the cache. Append this token's, then
//
//   O[h, d_v] = Σ_m W[h, m] · V[m, h, d_v],   W[h] = softmax over m of 1/√d_k · Σ_d_k q[h, d_k] · K[m, h, d_k]
//
// over all that is in the cache: no mask is needed, for what is not written yet is not there.
#include "examples/course/checker/exercise.h"

using namespace course;

// q[h·d_k], k[h·d_k], v[h·d_v], head after head → O[h·d_v]; cache.K[m], cache.V[m] are like k and v
static std::vector<double> Step(const std::vector<double>& q, const std::vector<double>& k,
                                const std::vector<double>& v, int64_t heads, Cache& cache) {
  throw Unsolved("8.1");
}

EXERCISE(8_1, Step);
