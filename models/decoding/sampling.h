// Choosing the next token from a model's logits.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// p ∝ exp(logit / temperature) over the top_k most probable tokens, and of these over the fewest whose probabilities
// sum to top_p. Of equal logits the smaller id comes first.
struct SamplingOptions {
  double temperature = 1;  // 0: the most probable token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;

  // Throws a usage error that names the field.
  void Validate() const;
};

// A token by logits[vocabulary], among those that `allowed` (of the vocabulary's size) names, for a number in [0, 1):
// the same bits for the same logits and number. Error(kNumerical) where a logit is NaN or infinity, or no token is
// allowed that is not minus infinity.
int32_t SampleToken(const Tensor& logits, const std::vector<bool>& allowed, const SamplingOptions& options,
                    double uniform);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// A model's scores of the next token: log p = logit - log Σ e^logit over the whole vocabulary, in double.

struct TokenScore {
  int32_t id = 0;
  double log_p = 0;
};

// The `count` most probable tokens of logits[vocabulary] among those that `allowed` (of the vocabulary's size) names,
// best first, of equal ones the smaller id; fewer where fewer have a probability. Error(kNumerical) where a logit,
// allowed or not, is NaN or infinity.
std::vector<TokenScore> BestTokens(const Tensor& logits, const std::vector<bool>& allowed, int64_t count);

// The log-probability of one token. Error(kNumerical) as above.
double LogProbability(const Tensor& logits, int32_t id);

}  // namespace crosstalk
