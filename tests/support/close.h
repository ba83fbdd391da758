// Comparing arrays: a failure names the worst index and shows both values and the bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "gtest/gtest.h"

namespace crosstalk::testing {

// |actual - expected| ≤ absolute + relative · |expected|. Each use says where its numbers come from.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// Equal infinities and pairs of NaN are close; nothing else is close to them.
template <typename Actual, typename Expected>
::testing::AssertionResult AllClose(const Actual& actual, const Expected& expected, Tolerance tolerance) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " values, expected " << expected.size();
  }
  double worst = 0;  // excess: error / bound
  size_t worst_index = 0, wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]);
    const double e = static_cast<double>(expected[i]);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double bound = tolerance.absolute + tolerance.relative * std::abs(e);
    double excess = std::abs(a - e) / bound;
    if (!std::isfinite(a) || !std::isfinite(e)) excess = INFINITY;
    if (excess <= 1) continue;
    ++wrong;
    if (wrong == 1 || excess > worst) {
      worst = excess;
      worst_index = i;
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  const double a = static_cast<double>(actual[worst_index]);
  const double e = static_cast<double>(expected[worst_index]);
  std::ostringstream text;
  text.precision(10);
  text << wrong << " of " << actual.size() << " values differ; the worst, index " << worst_index << ", is " << a
       << ", expected " << e << ": off by " << std::abs(a - e) << ", " << worst << " times the bound "
       << tolerance.absolute + tolerance.relative * std::abs(e);
  return ::testing::AssertionFailure() << text.str();
}

// |actual - expected| ≤ share · max |expected|.
template <typename Actual, typename Expected>
::testing::AssertionResult CloseToLargest(const Actual& actual, const Expected& expected, double share) {
  double largest = 0;
  for (const auto e : expected) largest = std::max(largest, std::abs(static_cast<double>(e)));
  return AllClose(actual, expected, {share * largest, 0});
}

// The same bits.
template <typename Values>
::testing::AssertionResult SameBits(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " values, expected " << expected.size();
  }
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::memcmp(&actual[i], &expected[i], sizeof(actual[i])) == 0) continue;
    std::ostringstream text;
    text.precision(17);
    text << "bits differ first at index " << i << ": " << actual[i] << ", expected " << expected[i];
    return ::testing::AssertionFailure() << text.str();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace crosstalk::testing
