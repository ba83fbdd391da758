#include "crosstalk/models/decoding/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

}  // namespace crosstalk
