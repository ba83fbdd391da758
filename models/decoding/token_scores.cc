#include "crosstalk/models/decoding/token_scores.h"

#include <algorithm>
#include <limits>

#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

// log Σ e^logit = max + log_sum: apart, so that a large maximum costs the sum no digits.
struct LogNormaliser {
  double max = 0, log_sum = 0;
  double LogProbability(double logit) const { return logit - max - log_sum; }
};

template <typename T>
LogNormaliser NormaliserOf(const T* logits, int64_t vocabulary) {
  for (int64_t id = 0; id < vocabulary; ++id) {
    if (logits[id] <= std::numeric_limits<T>::max()) continue;  // false for NaN
    Fail(ErrorKind::kNumerical, "decoding: the logit of token ", id, " is ", logits[id]);
  }
  const kernels::MaxAndExpSum<T> sum = kernels::FindMaxAndExpSum(vocabulary, 1, logits);
  if (sum.sum == 0) Fail(ErrorKind::kNumerical, "decoding: no token has a finite logit");
  return {static_cast<double>(sum.max), Log(sum.sum)};
}

template <typename T>
std::vector<TokenScore> BestOf(const T* logits, const std::vector<bool>& allowed, int64_t count) {
  const auto vocabulary = static_cast<int64_t>(allowed.size());
  const LogNormaliser normaliser = NormaliserOf(logits, vocabulary);
  std::vector<TokenScore> best;
  for (int64_t id = 0; id < vocabulary; ++id) {
    if (!allowed[static_cast<size_t>(id)] || logits[id] < std::numeric_limits<T>::lowest()) continue;
    const auto logit = static_cast<double>(logits[id]);
    if (static_cast<int64_t>(best.size()) == count) {
      if (logit <= best.back().log_p) continue;
      best.pop_back();
    }
    const auto place =
        std::find_if(best.begin(), best.end(), [&](const TokenScore& other) { return other.log_p < logit; });
    best.insert(place, {static_cast<int32_t>(id), logit});
  }
  for (TokenScore& token : best) token.log_p = normaliser.LogProbability(token.log_p);
  return best;
}

}  // namespace

std::vector<TokenScore> BestTokens(const Tensor& logits, const std::vector<bool>& allowed, int64_t count) {
  CROSSTALK_CHECK(logits.is_contiguous() && logits.num_elements() == static_cast<int64_t>(allowed.size()) && count >= 1,
                  "best tokens: logits", logits.shape(), " of a vocabulary of ", allowed.size());
  return DispatchFloat("best tokens", logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return BestOf(logits.data<T>(), allowed, count);
  });
}

double LogProbability(const Tensor& logits, int32_t id) {
  CROSSTALK_CHECK(logits.is_contiguous() && id >= 0 && id < logits.num_elements(), "log probability: token ", id,
                  " of logits", logits.shape());
  return DispatchFloat("log probability", logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const values = logits.data<T>();
    return NormaliserOf(values, logits.num_elements()).LogProbability(static_cast<double>(values[id]));
  });
}

}  // namespace crosstalk
