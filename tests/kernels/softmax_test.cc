#include "crosstalk/kernels/reference/rows.h"
#include "crosstalk/kernels/rows.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace softmax_test {

CROSSTALK_KERNEL_TEST(SoftmaxTest);

struct Sizes {
  int64_t outer, reduced, inner;
};

std::vector<Sizes> AllSizes() {
  std::vector<Sizes> sizes;
  for (int64_t n = 1; n <= kMaxLength; ++n) {
    sizes.push_back({3, n, 1});
    sizes.push_back({2, 7, n});
  }
  sizes.push_back({2, 5003, 1});
  sizes.push_back({2, 301, 12});
  sizes.push_back({1, 70, 300});
  return sizes;
}

// e^(x - max): the difference is rounded, |x - max| ≤ 20, so the exponential is off by up to 20 u + 2 u relative; the
// sum adds at most as much again, and its own rounding (a blocked sum: below 40 u), then two products.
template <typename T>
void CheckSoftmax() {
  const double relative = 100 * kRoundoff<T>;
  for (const Sizes& s : AllSizes()) {
    const int64_t count = s.outer * s.reduced * s.inner;
    std::vector<T> x = RandomValues<T>(count, "x", 3);
    const std::vector<T> dy = RandomValues<T>(count, "dy");
    for (const bool masked : {false, true}) {  // masked: -infinity in two of five places
      for (int64_t i = 0; masked && i < count; ++i) {
        if (i * 7 % 5 < 2) x[i] = -std::numeric_limits<T>::infinity();
      }
      const std::vector<double> wide = ToDouble(x);
      Guarded<T> in(x), out(count), dx(dy);
      std::vector<double> expected(count), expected_dx(count);
      reference::Softmax(s.outer, s.reduced, s.inner, wide.data(), expected.data());
      Softmax(s.outer, s.reduced, s.inner, in.data(), out.data());
      ASSERT_TRUE(AllClose(out.values(), expected, {0, relative}))
          << "[" << s.outer << ", " << s.reduced << ", " << s.inner << "] " << (masked ? "masked" : "");
      ASSERT_TRUE(out.GuardsIntact());
      // In place gives the same.
      Softmax(s.outer, s.reduced, s.inner, in.data(), in.data());
      ASSERT_TRUE(SameBits(in.values(), out.values()));
      // dx = y (dy - Σ dy y): the sum of products of |y| ≤ 1 adding up to 1 with |dy| < 6 is off by 6 · 40 u.
      const std::vector<double> wide_y = ToDouble(out.values()), wide_dy = ToDouble(dy);
      reference::SoftmaxGradient(s.outer, s.reduced, s.inner, wide_y.data(), wide_dy.data(), expected_dx.data());
      SoftmaxGradient(s.outer, s.reduced, s.inner, out.data(), dx.data(), dx.data());
      ASSERT_TRUE(AllClose(dx.values(), expected_dx, {240 * kRoundoff<T>, 4 * kRoundoff<T>})) << s.reduced;
    }
  }
}
CROSSTALK_FLOATS_TEST(SoftmaxTest, MatchesTheReference, CheckSoftmax)

TEST_P(SoftmaxTest, NothingToAttendToGivesZeros) {
  const float minus_infinity = -std::numeric_limits<float>::infinity();
  for (const float hidden : {kHiddenLogit, std::numeric_limits<float>::lowest()}) {
    for (const int64_t inner : {1, 5}) {
      std::vector<float> x(19 * inner, hidden), y(x.size(), 7);
      Softmax(1, 19, inner, x.data(), y.data());
      EXPECT_EQ(y, std::vector<float>(x.size())) << hidden;
      x[7 * inner] = std::nextafter(kHiddenLogit, 0.0f);  // alone it has all of the weight
      Softmax(1, 19, inner, x.data(), y.data());
      EXPECT_EQ(y[7 * inner], 1.0f);
      EXPECT_EQ(std::count(y.begin(), y.end(), 0.0f), std::ssize(y) - 1);
      const std::vector<double> wide(19 * inner, double{hidden});
      std::vector<double> wide_y(wide.size(), 7);
      Softmax(1, 19, inner, wide.data(), wide_y.data());
      EXPECT_EQ(wide_y, std::vector<double>(wide.size())) << hidden;
    }
  }
  for (const int64_t inner : {1, 5}) {
    for (int64_t n = 1; n <= kMaxLength; ++n) {
      const std::vector<float> x(n * inner, minus_infinity), zeros(n * inner), dy(n * inner, 1);
      std::vector<float> y(n * inner, 7), dx(n * inner, 7), lse(inner), d_lse(inner, 1);
      Softmax(1, n, inner, x.data(), y.data());
      ASSERT_EQ(y, zeros) << n;
      SoftmaxGradient(1, n, inner, y.data(), dy.data(), dx.data());
      ASSERT_EQ(dx, zeros) << n;
      LogSumExp(1, n, inner, x.data(), lse.data());
      ASSERT_EQ(lse, std::vector<float>(inner, minus_infinity)) << n;
      LogSumExpGradient(1, n, inner, x.data(), lse.data(), d_lse.data(), dx.data());
      ASSERT_EQ(dx, zeros) << n;
    }
  }
}

// Minus infinity takes no part, NaN stays, and shifting by the maximum keeps large logits finite.
TEST_P(SoftmaxTest, ExtremeLogitsKeepTheirMeaning) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t inner : {1, 3}) {
    std::vector<float> x(40 * inner, 1.0f), y(x.size()), lse(inner);
    x[4 * inner] = -kInfinity;
    x[5 * inner] = x[6 * inner] = 1e30f;
    Softmax(1, 40, inner, x.data(), y.data());
    EXPECT_EQ(y[4 * inner], 0.0f);
    EXPECT_EQ(y[5 * inner], 0.5f);
    EXPECT_EQ(y[7 * inner], 0.0f);
    x[17 * inner] = kNaN;
    Softmax(1, 40, inner, x.data(), y.data());
    LogSumExp(1, 40, inner, x.data(), lse.data());
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[39 * inner]) && std::isnan(lse[0])) << inner;
  }
}

// log Σ e^x: |error| ≤ u |result| + the relative error of the sum (22 u + 40 u).
template <typename T>
void CheckLogSumExp() {
  for (const Sizes& s : AllSizes()) {
    const int64_t count = s.outer * s.reduced * s.inner;
    const std::vector<T> x = RandomValues<T>(count, "x", 3), dy = RandomValues<T>(s.outer * s.inner, "dy");
    const std::vector<double> wide = ToDouble(x);
    Guarded<T> in(x), out(s.outer * s.inner), dx(count);
    std::vector<double> expected(s.outer * s.inner), expected_dx(count);
    reference::LogSumExp(s.outer, s.reduced, s.inner, wide.data(), expected.data());
    LogSumExp(s.outer, s.reduced, s.inner, in.data(), out.data());
    ASSERT_TRUE(AllClose(out.values(), expected, {64 * kRoundoff<T>, 2 * kRoundoff<T>})) << s.reduced;
    LogSumExpGradient(s.outer, s.reduced, s.inner, in.data(), out.data(), dy.data(), dx.data());
    reference::Softmax(s.outer, s.reduced, s.inner, wide.data(), expected_dx.data());
    for (int64_t i = 0; i < count; ++i) {
      expected_dx[i] *= static_cast<double>(dy[i / (s.reduced * s.inner) * s.inner + i % s.inner]);
    }
    ASSERT_TRUE(AllClose(dx.values(), expected_dx, {0, 200 * kRoundoff<T>})) << s.reduced << " " << s.inner;
    ASSERT_TRUE(out.GuardsIntact() && dx.GuardsIntact());
  }
}
CROSSTALK_FLOATS_TEST(SoftmaxTest, LogSumExpMatchesTheReference, CheckLogSumExp)

// Logits of a size of which log-sum-exp keeps no digits for the logarithm, some of them equal or near: its gradient is
// the softmax all the same. Below 8192 a rounding of log-sum-exp, 2^-11 at most, is left in it.
TEST_P(SoftmaxTest, TheGradientOfLogSumExpIsTheSoftmaxAtAnyMagnitude) {
  constexpr int64_t kOuter = 2, kReduced = 37;
  for (const float size : {1.0f, 1e3f, 8e3f, 9e3f, 1e5f, 1.5e7f, 1e12f, 1e30f}) {
    for (const float sign : {1.0f, -1.0f}) {
      for (const int64_t inner : {1, 3, 131}) {
        const float step = std::max(1.0f, std::nextafter(size, 2 * size) - size);
        std::vector<float> x(kOuter * kReduced * inner), dy(kOuter * inner), y(dy.size()), dx(x.size());
        for (size_t i = 0; i < x.size(); ++i) x[i] = sign * size - step * static_cast<float>(i * i % 5);
        for (size_t i = 0; i < dy.size(); ++i) dy[i] = 1.0f + static_cast<float>(i % 3);
        const std::vector<double> wide = ToDouble(x);
        std::vector<double> expected(x.size());
        reference::Softmax(kOuter, kReduced, inner, wide.data(), expected.data());
        for (size_t i = 0; i < x.size(); ++i) {
          expected[i] *= dy[i / (kReduced * static_cast<size_t>(inner)) * static_cast<size_t>(inner) +
                            i % static_cast<size_t>(inner)];
        }
        LogSumExp(kOuter, kReduced, inner, x.data(), y.data());
        LogSumExpGradient(kOuter, kReduced, inner, x.data(), y.data(), dy.data(), dx.data());
        const double digit = size < 8192 ? size * kRoundoff<float> : 0;
        EXPECT_TRUE(AllClose(dx, expected, {1e-30, digit + 200 * kRoundoff<float>})) << sign * size << " " << inner;
      }
    }
  }
}

}  // namespace softmax_test
}  // namespace crosstalk::kernels
