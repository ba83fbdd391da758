#include "crosstalk/kernels/gemm/gemm.h"
#include "tests/support/fusing_targets.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace interleaved_test {

CROSSTALK_KERNEL_TEST(InterleavedGemmTest);

// Numbers in [-1, 1) without a visible pattern, cheap to make: the tests need millions.
template <typename T>
std::vector<T> Values(int64_t count, uint32_t seed) {
  std::vector<T> values(static_cast<size_t>(count));
  uint32_t state = seed;
  for (T& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<T>(static_cast<double>(state >> 8) / 0x1p23 - 1);
  }
  return values;
}

struct Sizes {
  int64_t rows, columns, inner, lanes;
};

// Two products, one after the other; a[i, k, r, l], b[i, j, k, l], c[i, j, r, l]: no order is the natural one.
template <typename T>
std::vector<T> Products(const Sizes& s, bool* guards_intact = nullptr) {
  const int64_t size_a = s.rows * s.inner * s.lanes, size_b = s.inner * s.columns * s.lanes;
  const int64_t size_c = s.rows * s.columns * s.lanes;
  Guarded<T> a(Values<T>(2 * size_a, 1)), b(Values<T>(2 * size_b, 2)), c(2 * size_c);
  InterleavedGemmArguments<T> g;
  g.rows = s.rows, g.columns = s.columns, g.inner = s.inner, g.lanes = s.lanes;
  g.a = a.data(), g.a_inner = s.rows * s.lanes, g.a_row = s.lanes;
  g.b = b.data(), g.b_column = s.inner * s.lanes, g.b_inner = s.lanes;
  g.c = c.data(), g.c_column = s.rows * s.lanes, g.c_row = s.lanes;
  const int64_t offsets_a[] = {0, size_a}, offsets_b[] = {0, size_b}, offsets_c[] = {0, size_c};
  InterleavedGemmBatched<T>(g, offsets_a, offsets_b, offsets_c);
  if (guards_intact != nullptr) *guards_intact = c.GuardsIntact();
  return c.values();
}

template <typename T>
void ExpectEqualsLoops(const Sizes& s) {
  bool guards_intact = false;
  const std::vector<T> c = Products<T>(s, &guards_intact);
  EXPECT_TRUE(guards_intact);
  const std::vector<T> a = Values<T>(2 * s.rows * s.inner * s.lanes, 1);
  const std::vector<T> b = Values<T>(2 * s.inner * s.columns * s.lanes, 2);
  std::vector<double> expected;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < s.columns; ++j) {
      for (int64_t r = 0; r < s.rows; ++r) {
        for (int64_t l = 0; l < s.lanes; ++l) {
          double sum = 0;
          for (int64_t k = 0; k < s.inner; ++k) {
            sum += static_cast<double>(a[((i * s.inner + k) * s.rows + r) * s.lanes + l]) *
                   static_cast<double>(b[((i * s.columns + j) * s.inner + k) * s.lanes + l]);
          }
          expected.push_back(sum);
        }
      }
    }
  }
  // `inner` roundings of sums that grow to about √inner times a product; the largest result is about that size.
  const double share = static_cast<double>(s.inner + 2) * kRoundoff<T>;
  EXPECT_TRUE(CloseToLargest(c, expected, share))
      << s.rows << " rows, " << s.columns << " columns, " << s.inner << " inner, " << s.lanes << " lanes";
}

TEST_P(InterleavedGemmTest, EqualsLoopsForEveryNumberOfLanes) {
  for (int64_t lanes = 1; lanes <= kMaxLength; ++lanes) {
    ExpectEqualsLoops<float>({5, 4, 3, lanes});
    ExpectEqualsLoops<double>({5, 4, 3, lanes});
  }
}

TEST_P(InterleavedGemmTest, EqualsLoopsAroundEveryBlockSize) {
  for (const Sizes& s : {Sizes{1, 1, 1, 65}, Sizes{3, 2, 31, 7}, Sizes{4, 3, 32, 64}, Sizes{7, 5, 33, 66},
                         Sizes{65, 7, 2, 5}, Sizes{67, 1, 70, 3}, Sizes{12, 12, 12, 130}}) {
    ExpectEqualsLoops<float>(s);
    ExpectEqualsLoops<double>(s);
  }
}

TEST(InterleavedGemmTargetsTest, SameBitsWhereverMultiplyAddsAreFused) {
  for (const Sizes& s : {Sizes{3, 2, 31, 7}, Sizes{5, 4, 18, 67}, Sizes{67, 13, 5, 33}}) {
    ExpectSameBitsOnFusingTargets([&] { return Products<float>(s); }, "float");
    ExpectSameBitsOnFusingTargets([&] { return Products<double>(s); }, "double");
  }
}

TEST_P(InterleavedGemmTest, BitsDoNotDependOnThreads) {
  ExpectSameBitsOnAnyThreads([] { return Products<float>({70, 5, 33, 67}); });
}

}  // namespace interleaved_test
}  // namespace crosstalk::kernels
