#include <cmath>

#include "crosstalk/kernels/reference/rows.h"
#include "crosstalk/kernels/rows.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace reduce_test {

CROSSTALK_KERNEL_TEST(ReduceTest);

struct Sizes {
  int64_t outer, reduced, inner;
};

// The first `count` of one long list of numbers, which is made once.
template <typename T>
std::vector<T> Values(int64_t count) {
  static const std::vector<T> all = RandomValues<T>(1 << 19, "x");
  return {all.begin(), all.begin() + count};
}

std::vector<Sizes> AllSizes() {
  std::vector<Sizes> sizes;
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    sizes.push_back({3, n, 1});   // rows
    sizes.push_back({2, 5, n});   // columns
    sizes.push_back({1, n, 12});  // heads last
  }
  // Long enough for several blocks, pieces and tiles.
  for (const Sizes& s : {Sizes{1, 200001, 1}, Sizes{3, 70001, 1}, Sizes{700, 130, 1}, Sizes{1, 9001, 12},
                         Sizes{2, 301, 700}, Sizes{30, 65, 129}}) {
    sizes.push_back(s);
  }
  return sizes;
}

// The order of a sum of n terms is any tree: |error| ≤ depth · u · Σ|x|, where the depth of a blocked sum is at most
// 2048 / (4 lanes) + 6 = 518 on one lane and 64 + n/64 for columns (n ≤ 9001); random errors stay far below: 40 u Σ|x|
// is a tenth of the worst case and fails for any lost or doubled element, which are 1/n of the sum.
template <typename T>
void CheckSum() {
  for (const Sizes& s : AllSizes()) {
    const std::vector<T> x = Values<T>(s.outer * s.reduced * s.inner);
    Guarded<T> in(x), out(s.outer * s.inner);
    std::vector<double> expected(s.outer * s.inner), absolute(s.outer * s.inner);
    std::vector<double> wide = ToDouble(x);
    reference::Sum(s.outer, s.reduced, s.inner, wide.data(), expected.data());
    for (double& v : wide) v = std::abs(v);
    reference::Sum(s.outer, s.reduced, s.inner, wide.data(), absolute.data());
    Sum(s.outer, s.reduced, s.inner, in.data(), out.data());
    const std::vector<T> y = out.values();
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], 40 * kRoundoff<T> * absolute[i])
          << "[" << s.outer << ", " << s.reduced << ", " << s.inner << "] at " << i;
    }
    ASSERT_TRUE(out.GuardsIntact());
  }
}
CROSSTALK_FLOATS_TEST(ReduceTest, SumMatchesTheReference, CheckSum)

// A naive float sum of 2^24 + more ones stops at 2^24; ours is exact.
TEST_P(ReduceTest, LongSumsDoNotStall) {
  const int64_t n = (1 << 24) + 4096;
  static const std::vector<float> ones(n, 1.0f);
  float y = 0;
  Sum(1, n, 1, ones.data(), &y);
  EXPECT_EQ(y, static_cast<float>(n));
}

template <typename T>
void CheckMax() {
  for (const Sizes& s : AllSizes()) {
    if (s.reduced == 0) continue;
    std::vector<T> x = Values<T>(s.outer * s.reduced * s.inner);
    for (T& v : x) v = std::round(v * 4) / 4;  // so that maxima are found more than once
    std::vector<T> expected(s.outer * s.inner);
    std::vector<int64_t> index(s.outer * s.inner), expected_index(s.outer * s.inner);
    Guarded<T> in(x), out(s.outer * s.inner), dx(s.outer * s.reduced * s.inner);
    reference::Max(s.outer, s.reduced, s.inner, x.data(), expected.data(), expected_index.data());
    Max(s.outer, s.reduced, s.inner, in.data(), out.data(), index.data());
    ASSERT_EQ(index, expected_index) << "[" << s.outer << ", " << s.reduced << ", " << s.inner << "]";
    ASSERT_TRUE(AllClose(out.values(), expected, {})) << s.reduced;
    Max<T>(s.outer, s.reduced, s.inner, in.data(), out.data(), nullptr);
    ASSERT_TRUE(AllClose(out.values(), expected, {}));

    const std::vector<T> dy = RandomValues<T>(s.outer * s.inner, "dy");
    MaxGradient(s.outer, s.reduced, s.inner, index.data(), dy.data(), dx.data());
    std::vector<T> expected_dx(x.size());
    for (int64_t o = 0; o < s.outer; ++o) {
      for (int64_t j = 0; j < s.inner; ++j) {
        expected_dx[(o * s.reduced + expected_index[o * s.inner + j]) * s.inner + j] = dy[o * s.inner + j];
      }
    }
    ASSERT_TRUE(SameBits(dx.values(), expected_dx));
    ASSERT_TRUE(out.GuardsIntact() && dx.GuardsIntact());
  }
}
CROSSTALK_FLOATS_TEST(ReduceTest, MaxFindsTheFirstOfEquals, CheckMax)

TEST_P(ReduceTest, MaxKeepsNan) {
  for (int64_t n = 1; n <= kMaxLength; ++n) {
    for (const int64_t inner : {1, 3}) {
      std::vector<float> x = RandomValues<float>(n * inner, "x");
      x[n / 2 * inner] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> y(inner);
      std::vector<int64_t> index(inner);
      Max(1, n, inner, x.data(), y.data(), index.data());
      ASSERT_TRUE(std::isnan(y[0])) << n << " " << inner;
      ASSERT_EQ(index[0], n / 2);
    }
  }
}

// Squares and sums are in double, from float or double values: error n u₆₄ Σ x², here n < 2^18.
TEST_P(ReduceTest, SumOfSquaresIsAccumulatedInDouble) {
  std::vector<int64_t> lengths = {200001};
  for (int64_t n = 0; n <= kMaxLength; ++n) lengths.push_back(n);
  for (const int64_t n : lengths) {
    const std::vector<float> x = Values<float>(n);
    Guarded<float> in(x);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    ASSERT_NEAR(SumOfSquares(n, in.data()), squares, 1e-12 * squares) << n;
    const std::vector<double> wide(x.begin(), x.end());
    ASSERT_NEAR(SumOfSquares(n, wide.data()), squares, 1e-12 * squares) << n;
  }
  const std::vector<float> huge(5, 1e30f);  // the square overflows a float
  EXPECT_NEAR(SumOfSquares<float>(5, huge.data()), 5e60, 1e54);
}

// So long that pieces must grow, as only so many partial results are kept.
TEST_P(ReduceTest, WholeArraysOfAsManyElementsAsThereAre) {
  constexpr int64_t kCount = 3 * 256 * 32768 + 5;
  static std::vector<float> x(kCount, 0.5f);
  EXPECT_EQ(SumOfSquares<float>(kCount, x.data()), 0.25 * kCount);
  EXPECT_EQ(FirstNonFinite<float>(kCount, x.data()), -1);
  for (const int64_t at : {kCount - 1, int64_t{2 * 256 * 32768}, int64_t{32768}}) {
    x[at] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(FirstNonFinite<float>(kCount, x.data()), at);
  }
  for (const int64_t at : {kCount - 1, int64_t{2 * 256 * 32768}, int64_t{32768}}) x[at] = 0.5f;
}

TEST_P(ReduceTest, FirstNonFiniteFindsTheLowest) {
  for (const int64_t n : {1, 2, 15, 16, 17, 33, 67, 100000}) {
    std::vector<float> x = RandomValues<float>(n, "x", 1e30);
    EXPECT_EQ(FirstNonFinite(n, x.data()), -1) << n;
    x[n - 1] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(FirstNonFinite(n, x.data()), n - 1) << n;
    x[n / 2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(FirstNonFinite(n, x.data()), n / 2) << n;
  }
  EXPECT_EQ(FirstNonFinite<double>(0, nullptr), -1);
}

}  // namespace reduce_test
}  // namespace crosstalk::kernels
