#include "crosstalk/models/decoding/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {
namespace {

struct Candidate {
  double logit;
  int32_t id;
};

bool ComesFirst(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

template <typename T>
std::vector<Candidate> CandidatesOf(const T* logits, const std::vector<bool>& allowed) {
  std::vector<Candidate> candidates;
  for (size_t id = 0; id < allowed.size(); ++id) {
    if (!allowed[id]) continue;
    const auto logit = static_cast<double>(logits[id]);
    if (logit != logit || logit == std::numeric_limits<double>::infinity()) {
      Fail(ErrorKind::kNumerical, "sampling: the logit of token ", id, " is ", logit);
    }
    if (std::isfinite(logit)) candidates.push_back({logit, static_cast<int32_t>(id)});
  }
  if (candidates.empty()) Fail(ErrorKind::kNumerical, "sampling: no token has a finite logit");
  return candidates;
}

}  // namespace

void SamplingOptions::Validate() const {
  CROSSTALK_CHECK_FIELD(std::isfinite(temperature) && temperature >= 0, "temperature", temperature,
                        " is not finite, or negative");
  CROSSTALK_CHECK_FIELD(top_k >= 0, "top_k", top_k, " is negative");
  CROSSTALK_CHECK_FIELD(top_p > 0 && top_p <= 1, "top_p", top_p, " is not in (0, 1]");
}

int32_t SampleToken(const Tensor& logits, const std::vector<bool>& allowed, const SamplingOptions& options,
                    double uniform) {
  options.Validate();
  CROSSTALK_CHECK(logits.num_elements() == static_cast<int64_t>(allowed.size()) && logits.is_contiguous(),
                  "sampling: logits", logits.shape(), " of a vocabulary of ", allowed.size());
  std::vector<Candidate> candidates = DispatchFloat("sampling", logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    return CandidatesOf(logits.data<T>(), allowed);
  });
  const Candidate first = *std::min_element(candidates.begin(), candidates.end(), ComesFirst);
  if (options.temperature == 0) return first.id;
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(candidates.size())) {
    const auto end = candidates.begin() + options.top_k;
    std::nth_element(candidates.begin(), end, candidates.end(), ComesFirst);
    candidates.erase(end, candidates.end());
  }
  // Sums are formed in an order of their own: of ids, or of probabilities where these cut the list.
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return options.top_p < 1 ? ComesFirst(a, b) : a.id < b.id; });
  std::vector<double> sums;  // Σ up to and with each candidate of e^((logit - max) / temperature)
  double sum = 0;
  for (const Candidate& candidate : candidates) {
    sum += Exp((candidate.logit - first.logit) / options.temperature);
    sums.push_back(sum);
  }
  if (options.top_p < 1) {
    const auto last = std::lower_bound(sums.begin(), sums.end(), options.top_p * sum);
    sums.resize(std::min<size_t>(sums.size(), static_cast<size_t>(last - sums.begin()) + 1));
  }
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), uniform * sums.back());
  const size_t index = std::min(static_cast<size_t>(chosen - sums.begin()), sums.size() - 1);
  return candidates[index].id;
}

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
