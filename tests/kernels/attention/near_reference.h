// How near the fused attention's results must be to its specification's, in float and in bfloat16, on every SIMD
// target.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/simd.h"
#include "tests/kernels/attention/attention_problem.h"

namespace crosstalk::kernels {

// The worst errors of any result: of one element as a share of that result's largest magnitude, but of `smallest` where
// its terms cancel (with one memory position every dL is 0), and of all elements, where they are some dozens, as the
// root of their mean square, as a share of the result's; and as the share by which they make such a result too large or
// too small as a whole.
struct Errors {
  double largest = 0, mean = 0, drift = 0;
  std::string where, drifts;
};
template <typename T>
Errors ErrorsOf(const AttentionResults<float>& actual, const AttentionResults<T>& expected, double smallest = 0.1) {
  Errors worst;
  ForEachResult(actual, expected, [&](const std::string& name, const Floats& values, const std::vector<T>& want) {
    double largest = smallest, error = 0, squares = 0, error_squares = 0, products = 0;
    size_t where = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double difference = std::abs(double{values[i]} - double{want[i]});
      largest = std::max(largest, std::abs(double{want[i]}));
      if (!(difference <= error)) error = difference, where = i;  // NaN too
      squares += double{want[i]} * double{want[i]};
      error_squares += difference * difference;
      products += (double{values[i]} - double{want[i]}) * double{want[i]};
    }
    if (squares > 0 && want.size() >= 64) {
      worst.mean = std::max(worst.mean, std::sqrt(error_squares / squares));
      const double drift = largest > smallest ? std::abs(products) / squares : 0;
      if (drift > worst.drift) worst.drift = drift, worst.drifts = name;
    }
    if (error / largest <= worst.largest) return;
    worst.largest = error / largest;
    worst.where = StrCat(name, "[", where, "] of ", want.size(), " = ", values[where], ", not ", want[where]);
  });
  return worst;
}

// In float each result is a chain of sums of at most a few hundred terms and one exp of a logit below 32: roundings of
// 2^-24 relative to the largest terms, times the growth along the chain.
//
// Rounding to bfloat16 is off by 2^-9 of a value at most, 1.1e-3 in the root of the mean square. Logits of sums of many
// terms, whose deviation here is 1, are off by 1.6e-3 by Q and K and their weights by as large a share; W, P_w, V and
// each operand of the gradients after them add 1.1e-3: 4e-3 to 6e-3 together. An element's worst error is 4 to 5
// deviations of these, and the largest magnitude 3 to 4 deviations of the result: 1e-2. Where a few terms decide, one
// element may be off by four times that: it says little, and a factor that is 3 % off hides in it. But roundings go
// both ways: in some dozens of elements all but a few thousandths of them cancel, 1.6e-2 in the worst of these
// problems, while such a factor, or a position that is left out, moves the whole result.
inline constexpr double kTolerance = 2e-5, kRoundedTolerance = 1.25e-2, kTinyTolerance = 5e-2, kMeanTolerance = 7.5e-3,
                        kDriftTolerance = 2e-2;

// A problem in bfloat16, however small it is.
inline void ExpectRoundedNear(const Errors& errors, const std::string& what) {
  EXPECT_LE(errors.largest, kTinyTolerance) << errors.where << ", " << what;
  EXPECT_LE(errors.drift, kDriftTolerance) << errors.drifts << ", " << what;
}

// The same on every target: near `expected`, and of the same bits on 1 and 3 threads, on every target, and whichever of
// the units multiplies bfloat16: those of pairs, or those given.
template <typename T>
void ExpectNearOnEveryTarget(const AttentionProblem& p, const AttentionResults<T>& expected, double smallest,
                             const std::vector<std::string>& units = {}) {
  const bool rounded = p.call.shape.precision == Precision::kBFloat16;
  std::optional<AttentionResults<float>> first;
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    for (const std::string& unit : !rounded        ? std::vector<std::string>{""}
                                   : units.empty() ? SupportedBFloat16Units()
                                                   : units) {
      RestrictBFloat16Unit(unit);
      for (const int threads : {1, 3}) {
        const ThreadsScope scope(threads);
        const std::string what = StrCat(Describe(p.call.shape), ", on ", target, " ", unit, ", ", threads, " threads");
        const AttentionResults<float> results = FusedAttention(p);
        if (first) {
          ExpectSameBits(results, *first, what);
          continue;
        }
        first = results;
        const Errors errors = ErrorsOf(results, expected, smallest);
        if (rounded) {
          ExpectRoundedNear(errors, what);
        } else {
          EXPECT_LE(errors.largest, kTolerance) << errors.where << ", " << what;
        }
      }
    }
    RestrictBFloat16Unit("");
  }
  RestrictSimdTarget("");
}

// Near the reference in float and in bfloat16. Results in which more cancels than `smallest` says are compared as if
// they were as large; in bfloat16 1 is.
inline void ExpectNearReference(AttentionShape s, ProblemMasks masks = {}, double dropout_rate = 0,
                                double smallest = 0.1) {
  AttentionProblem p(s, masks, dropout_rate);
  const AttentionResults<double> expected = ReferenceAttention(p);
  ExpectNearOnEveryTarget(p, expected, smallest);
  p.call.shape.precision = Precision::kBFloat16;
  ExpectNearOnEveryTarget(p, expected, std::max(smallest, 2.0));
}

}  // namespace crosstalk::kernels
