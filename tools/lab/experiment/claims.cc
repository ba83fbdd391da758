#include "tools/lab/experiment/claims.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

namespace {

PairResult TestPair(const std::string& better, const std::string& worse, double strict_level, double sign,
                    const Scatter& scatter, const std::function<BySeed(const std::string& row)>& values) {
  PairResult pair = {.better = better, .worse = worse};
  pair.gains = PairedDifferences(values(better), values(worse));
  for (auto& [seed, gain] : pair.gains) gain *= sign;
  pair.mean = Summarise(ValuesOf(pair.gains)).mean;
  pair.at_95 = IntervalOfDifferences(pair.gains, scatter, kClaimLevel);
  pair.at_most = IntervalOfDifferences(pair.gains, scatter, strict_level);
  return pair;
}

// All pairs at 95 % each: a claim that is the conjunction of its pairs is wrongly confirmed no more often than its
// weakest pair. One pair of k is enough to refute it, so there the level is divided by k (Bonferroni).
Verdict VerdictOf(const std::vector<PairResult>& pairs) {
  const auto any = [&](const auto& condition) { return std::any_of(pairs.begin(), pairs.end(), condition); };
  if (pairs.empty() || any([](const PairResult& pair) { return pair.gains.empty(); })) return Verdict::kNotMeasured;
  if (any([](const PairResult& pair) { return pair.at_most && pair.at_most->high < 0; })) return Verdict::kDoesNotHold;
  const bool unconfirmed = any([](const PairResult& pair) { return !pair.at_95 || !(pair.at_95->low > 0); });
  return unconfirmed ? Verdict::kUndecided : Verdict::kHolds;
}

}  // namespace

std::string ClaimResult::VerdictText() const {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kDoesNotHold:
      return "does not hold";
    case Verdict::kUndecided:
      return StrCat("undecided at ", seeds, seeds == 1 ? " seed" : " seeds");
    case Verdict::kNotMeasured:
      break;
  }
  return "not measured";
}

ClaimResult TestClaim(const TableClaim& claim, const TableMeasure& measure,
                      const std::function<Scatter(const std::string& row)>& scatter,
                      const std::function<BySeed(const std::string& row)>& values) {
  ClaimResult result = {.claim = &claim, .measure = measure};
  const double strict_level = 1 - (1 - kClaimLevel) / static_cast<double>(claim.pairs.size());
  const double sign = LowerIsBetter(measure) ? -1 : 1;
  for (const auto& [better, worse] : claim.pairs) {
    result.pairs.push_back(TestPair(better, worse, strict_level, sign, scatter(better), values));
    const int64_t seeds = static_cast<int64_t>(result.pairs.back().gains.size());
    result.seeds = result.pairs.size() == 1 ? seeds : std::min(result.seeds, seeds);
  }
  result.verdict = VerdictOf(result.pairs);
  return result;
}

}  // namespace crosstalk
