// A model's scores of the next token: log p = logit - log Σ e^logit over the whole vocabulary, in double.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

struct TokenScore {
  int32_t id = 0;
  double log_p = 0;
};

// Of logits[vocabulary] the `count` most probable tokens of those that `allowed` (of the vocabulary's size) names, best
// first, of equal ones the smaller id; fewer where fewer have a probability. Error(kNumerical) where a logit, allowed
// or not, is NaN or infinity.
std::vector<TokenScore> BestTokens(const Tensor& logits, const std::vector<bool>& allowed, int64_t count);

// Of one token. Error(kNumerical) as above.
double LogProbability(const Tensor& logits, int32_t id);

}  // namespace crosstalk
