#include "crosstalk/runtime/math.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace math_test {

constexpr int64_t kHalf = int64_t{1} << 62;

TEST(MathTest, QuotientsRoundUpToTheLargestInteger) {
  static_assert(CeilDivide(7, 3) == 3 && CeilDivide(6, 3) == 2 && CeilDivide(0, 3) == 0);
  static_assert(CeilDivide<int64_t>(kTooMany, 2) == kHalf && CeilDivide<int64_t>(kTooMany, kTooMany) == 1);
  static_assert(RoundUp(7, 4) == 8 && RoundUp(8, 4) == 8);
}

TEST(MathTest, WhatDoesNotFitIsTooManyAndStaysIt) {
  static_assert(SaturatingProduct(3, 5) == 15 && SaturatingSum(3, 5) == 8);
  static_assert(SaturatingProduct(kHalf, 2) == kTooMany && SaturatingSum(kHalf, kHalf) == kTooMany);
  static_assert(SaturatingSum(kTooMany, 1) == kTooMany && SaturatingProduct(kTooMany, 7) == kTooMany);
  static_assert(SaturatingProduct(int64_t{1} << 31, int64_t{1} << 31, int64_t{1} << 31) == kTooMany);
  static_assert(SaturatingProduct(int64_t{1} << 31, int64_t{1} << 31, int64_t{0}) == 0);
}

}  // namespace math_test
}  // namespace crosstalk
