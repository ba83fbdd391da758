#include "crosstalk/runtime/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "crosstalk/runtime/random.h"

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

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

// The distance from the exact value, in ulps of a double of its size.
double ErrorInUlp(double value, long double exact) {
  if (std::isnan(value) || std::isinf(value)) return kInfinity;
  const double nearest = std::abs(static_cast<double>(exact));
  const long double unit = std::nextafter(nearest, kInfinity) - static_cast<long double>(nearest);
  return static_cast<double>(std::abs(value - exact) / unit);
}

double UniformIn(double low, double high, uint32_t stream, uint64_t index) {
  return low + (high - low) * UniformDouble({1, stream, 0}, index);
}

// Any finite double > 0, all exponents alike, subnormals among them.
double AnyPositive(uint64_t index) {
  const auto bits = static_cast<uint64_t>(UniformDouble({2, 0, 0}, index) * 0x1p63);
  const auto x = std::bit_cast<double>(bits % 0x7ff0000000000000u);
  return x == 0 ? kSmallest : x;
}

constexpr uint64_t kSamples = 200'000;

// The references are the C library's in long double, whose own errors are below 1/1000 of these units.
TEST(ElementaryTest, ExpAndLogAreWithinOneUlp) {
  for (uint64_t i = 0; i < kSamples; ++i) {
    for (const double x : {UniformIn(-708, 709.7, 0, i), UniformIn(-1, 1, 1, i), UniformIn(-745, -708, 2, i)}) {
      ASSERT_LE(ErrorInUlp(Exp(x), std::exp(static_cast<long double>(x))), 1) << x;
    }
    for (const double x : {AnyPositive(i), UniformIn(0.5, 2, 3, i), 1 + UniformIn(-1e-6, 1e-6, 4, i)}) {
      if (x == 1) continue;
      ASSERT_LE(ErrorInUlp(Log(x), std::log(static_cast<long double>(x))), 1) << x;
    }
  }
}

TEST(ElementaryTest, PowIsWithinTwoUlp) {
  for (uint64_t i = 0; i < kSamples; ++i) {
    // A result of any size, by way of any base; and what the optimizers ask for.
    const double base = AnyPositive(i), size = UniformIn(-744, 709, 5, i);
    const double beta = UniformIn(0.5, 1, 6, i), step = std::floor(std::pow(10, UniformIn(0, 6, 7, i)));
    const double pairs[][2] = {
        {base, size / std::log(base)}, {beta, std::floor(std::min(step, 700 / -std::log(beta)))}, {step, -0.8}};
    for (const auto& [x, y] : pairs) {
      const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
      const bool normal = exact >= std::numeric_limits<double>::min();
      ASSERT_LE(ErrorInUlp(Pow(x, y), exact), normal ? 1.5 : 2) << x << "^" << y;
    }
  }
}

TEST(ElementaryTest, CosPiIsWithinTwoAndAHalfUlp) {
  const long double pi = std::acos(-1.0L);
  for (uint64_t i = 0; i < kSamples; ++i) {
    for (const double x : {UniformIn(0, 1, 11, i), UniformIn(-100, 100, 12, i), 0.5 + UniformIn(-1e-9, 1e-9, 13, i)}) {
      // From the nearest zero, 1/2 + n, where the cosine is a sine that keeps its digits.
      const long double n = std::floor(static_cast<long double>(x));
      const long double sine = std::sin(pi * (static_cast<long double>(x) - n - 0.5L));
      const long double exact = std::fmod(n, 2) == 0 ? -sine : sine;
      ASSERT_LE(ErrorInUlp(CosPi(x), exact), 2.5) << x;
    }
  }
  for (const double x : {0.0, -0.0, 2.0, -4.0, 1e300}) EXPECT_EQ(CosPi(x), 1) << x;
  for (const double x : {1.0, -1.0, 3.0, 0x1p52 + 1}) EXPECT_EQ(CosPi(x), -1) << x;
  for (const double x : {0.5, -0.5, 1.5, -100.5}) {
    EXPECT_EQ(CosPi(x), 0) << x;
    EXPECT_FALSE(std::signbit(CosPi(x))) << x;
  }
  for (const double x : {kInfinity, -kInfinity, kNaN}) EXPECT_TRUE(std::isnan(CosPi(x))) << x;
}

// Φ(InverseNormal(p)) = p: off by the density times the error of x, and by the rounding of p.
TEST(ElementaryTest, InverseNormalIsWithinItsError) {
  for (uint64_t i = 0; i < kSamples; ++i) {
    for (const double p : {UniformIn(0, 1, 8, i), std::pow(10, UniformIn(-300, -1, 9, i)), UniformIn(0, 0.1, 10, i)}) {
      if (p == 0) continue;
      const double x = InverseNormal(p);
      const bool lower = p < 0.5;
      const long double tail = lower ? p : 1 - static_cast<long double>(p);
      const long double z = lower ? -static_cast<long double>(x) : x;
      // From the tail's logarithm, whose slope is about -z: the tail itself may be as small as 1e-300.
      const long double ratio = std::erfc(z / std::sqrt(2.0L)) / 2 / tail - 1;
      const long double density_over_tail = std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0L)) / tail;
      ASSERT_LE(static_cast<double>(std::abs(ratio / density_over_tail)), 1e-15 * std::max(1.0, std::abs(x))) << p;
    }
  }
  EXPECT_EQ(InverseNormal(0.5), 0);
  // The published check values of AS 241.
  EXPECT_NEAR(InverseNormal(0.25), -0.6744897501960817, 1e-15);
  EXPECT_NEAR(InverseNormal(0.001), -3.090232306167814, 3e-15);
  EXPECT_NEAR(InverseNormal(1e-20), -9.262340089798408, 1e-14);
}

TEST(ElementaryTest, EndsOfTheRangesAreExact) {
  for (const double x : {0.0, -0.0, kSmallest}) EXPECT_EQ(Exp(x), 1) << x;
  for (const double x : {709.79, kLargest, kInfinity}) EXPECT_EQ(Exp(x), kInfinity) << x;
  for (const double x : {-745.14, -kLargest, -kInfinity}) EXPECT_EQ(Exp(x), 0) << x;
  EXPECT_LT(Exp(709.78), kInfinity);
  EXPECT_EQ(Exp(-745.13), kSmallest);
  EXPECT_TRUE(std::isnan(Exp(kNaN)));
  EXPECT_TRUE(Log(1) == 0 && !std::signbit(Log(1)));
  for (const double x : {0.0, -0.0}) EXPECT_EQ(Log(x), -kInfinity) << x;
  EXPECT_EQ(Log(kInfinity), kInfinity);
  for (const double x : {-kSmallest, -kInfinity, kNaN}) EXPECT_TRUE(std::isnan(Log(x))) << x;
  EXPECT_EQ(InverseNormal(0), -kInfinity);
  EXPECT_EQ(InverseNormal(1), kInfinity);
  for (const double p : {kSmallest, 1 - 0x1p-53}) EXPECT_TRUE(std::isfinite(InverseNormal(p))) << p;
  for (const double p : {-kSmallest, 1 + 0x1p-52, kInfinity, -kInfinity, kNaN}) {
    EXPECT_TRUE(std::isnan(InverseNormal(p))) << p;
  }
}

// As C's pow has them for x ≥ 0.
TEST(ElementaryTest, PowHasTheUsualSpecialValues) {
  const std::vector<double> values = {0,        -0.0,      kSmallest, 0.5, 1,  1 + 0x1p-52, 2,          10,  1e300,
                                      kLargest, kInfinity, -0.5,      -1,  -2, -kLargest,   -kInfinity, kNaN};
  for (const double x : values) {
    for (const double y : values) {
      if (x < 0) continue;
      const double expected = std::pow(std::abs(x), y), result = Pow(x, y);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result)) << x << "^" << y;
      } else if (std::isinf(expected) || expected == 0) {
        EXPECT_EQ(result, expected) << x << "^" << y;
      } else {
        EXPECT_LE(ErrorInUlp(result, expected), 2) << x << "^" << y;
      }
    }
  }
  EXPECT_TRUE(std::isnan(Pow(-1, 2)));
  EXPECT_EQ(Pow(2, 10), 1024);
  EXPECT_EQ(Pow(3, 4), 81);
}

// What a run's numbers are made of must not move: these are the bits on every machine.
TEST(ElementaryTest, TheBitsAreFixed) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  const auto add = [&](double value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ (std::bit_cast<uint64_t>(value) >> 8 * byte & 0xff)) * 0x100000001b3u;
    }
  };
  for (uint64_t i = 0; i < 10'000; ++i) {
    add(Exp(UniformIn(-745, 709, 0, i)));
    add(Log(AnyPositive(i)));
    add(Pow(UniformIn(0.5, 1, 1, i), UniformIn(-100, 100, 2, i)));
    add(InverseNormal(UniformIn(0, 1, 3, i)));
    add(CosPi(UniformIn(-2, 2, 4, i)));
  }
  EXPECT_EQ(hash, 0xedfb2fc5c8a37766u);
}

}  // namespace math_test
}  // namespace crosstalk
