// Products of matrices in float, double and bfloat16.
#include "crosstalk/kernels/gemm/gemm.h"

#include <optional>
#include <vector>

#include "crosstalk/kernels/gemm/openblas.h"
#include "tests/kernels/gemm/gemm_problem.h"
#include "tests/support/messages.h"

namespace crosstalk::kernels {
namespace gemm_test {

// Odd lengths of every dimension, one pair and less, k = 0; the small and the tall-skinny products of attention heads;
// few rows with long rows of B; several blocks of each of m, n and k, and a sliced k; rows of A that are 2 and 4 KiB
// apart.
const std::vector<Product> kShapes = {
    {1, 1, 1},     {3, 5, 2},      {7, 1, 5},     {1, 7, 5},      {5, 7, 1},     {3, 4, 0},     {17, 19, 23},
    {31, 33, 65},  {64, 64, 32},   {1, 300, 65},  {300, 1, 65},   {12, 700, 12}, {24, 513, 24}, {48, 300, 48},
    {700, 12, 12}, {513, 24, 24},  {12, 12, 700}, {24, 24, 515},  {13, 48, 301}, {6, 515, 13},  {49, 35, 521},
    {61, 67, 39},  {50, 35, 1024}, {53, 37, 769}, {3, 267, 901},  {8, 131, 257}, {2, 150, 262}, {4, 131, 770},
    {3, 4133, 53}, {1, 389, 131},  {5, 12, 8201}, {13, 33, 1536}, {51, 37, 509}, {53, 35, 1021}};
const std::vector<Product> kLargeShapes = {{223, 70, 1037}, {70, 4133, 21}, {300, 33, 513}, {13, 17, 30001}};

template <typename T>
void ExpectProduct(const GemmProblem<T>& p) {
  SCOPED_TRACE(p.Describe());
  const std::vector<double> expected = p.Expected();
  std::optional<std::vector<T>> first;
  OnEveryTarget(p.g.precision, [&] {
    const std::vector<T> c = p.Compute();
    if (!first) {
      ASSERT_TRUE(AllClose(c, expected, p.Bound()));
      first = c;
    } else {
      ASSERT_TRUE(SameBits(c, *first));
    }
  });
}

TEST(GemmTest, IsTheProductAndHasTheSameBitsOnEveryTarget) {
  ForProblems(kShapes, [](const auto& p) { ExpectProduct(p); });
}
TEST(GemmTest, IsTheProductOfSeveralTiles) {
  ForProblems(kLargeShapes,
              [](const auto& p) { ASSERT_TRUE(AllClose(p.Compute(), p.Expected(), p.Bound())) << p.Describe(); });
}

// One block of k and several, panels of B whole and in part, products of nothing, sliced ones, batches.
TEST(GemmTest, ABiasHasTheBitsOfAnAdditionAfterTheProduct) {
  ForProblems({{5, 7, 0}, {3, 4, 1}, {12, 67, 9}, {61, 67, 39}, {61, 37, 1539}, {3, 5, 8203}, {60, 4133, 21}},
              [](auto p) {
                OnEveryTarget(p.g.precision, [&] {
                  auto expected = p.Compute();
                  p.bias = decltype(p.a)(p.b.begin(), p.b.begin() + std::min(p.g.n, std::ssize(p.b)));
                  p.bias.resize(p.g.n, -3);
                  for (int64_t i = 0; i < std::ssize(expected); ++i) {
                    if (i % p.g.ldc < p.g.n) expected[i] += p.bias[i % p.g.ldc];
                  }
                  ASSERT_TRUE(SameBits(p.Compute(), expected)) << p.Describe();
                  auto g = p.g;
                  auto batched = p.c;
                  g.a = {p.a.data(), g.a.stride}, g.b = {p.b.data(), g.b.stride};
                  g.c = batched.data(), g.bias = p.bias.data();
                  const std::vector<int64_t> once = {0};
                  GemmBatched(g, once, once, once);
                  ASSERT_TRUE(SameBits(batched, expected)) << "batched, " << p.Describe();
                  p.bias.clear();
                });
              });
}

// Decoding a token gives the bits that it has among many: few rows are a kernel of their own.
TEST(GemmTest, ARowsBitsDoNotDependOnTheOtherRows) {
  ForProblems({{128, 128, 128}, {99, 131, 135}, {60, 83, 1100}, {60, 331, 1601}, {150, 261, 135}}, [](const auto& p) {
    OnEveryTarget(p.g.precision, [&] {
      const auto whole = p.Compute();
      for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1},
                                        {0, 2},
                                        {0, 3},
                                        {5, 4},
                                        {37, 1},
                                        {37, 5},
                                        {37, 7},
                                        {37, 8},
                                        {37, 9},
                                        {37, 13},
                                        {9, 48},
                                        {9, 49},
                                        {50, 100}}) {
        if (first + rows > p.g.m) continue;
        const auto expected = std::vector(whole.begin() + first * p.g.ldc, whole.begin() + (first + rows) * p.g.ldc);
        ASSERT_TRUE(SameBits(p.Compute(first, rows), expected)) << rows << " rows, " << p.Describe();
      }
    });
  });
}

CROSSTALK_KERNEL_TEST(GemmThreadsTest);

// Gradients of weights (A transposed): a part of k for each thread, within a block of k, of one and across several.
TEST_P(GemmThreadsTest, SameBitsOnAnyThreads) {
  ForProblems({{600, 70, 51},
               {40, 1500, 31},
               {12, 9000, 13},
               {9000, 24, 24},
               {24, 24, 9001},
               {61, 515, 771},
               {201, 299, 401},
               {61, 37, 523},
               {131, 35, 1031},
               {59, 149, 1057}},
              [](auto p) {
                if (p.g.transpose_b == Transpose::kYes) return;
                p.bias.assign(p.g.n, 1.1f);
                SCOPED_TRACE(p.Describe());
                ExpectSameBitsOnAnyThreads([&] { return p.Compute(); });
              });
}

TEST(GemmBatchedTest, EqualsSingleProducts) {
  constexpr int64_t kBatch = 9;
  ForProblems({{5, 6, 7}, {13, 11, 27}, {12, 100, 12}, {100, 24, 24}, {12, 12, 200}}, [](auto p) {
    using T = typename decltype(p.a)::value_type;
    OnEveryTarget(p.g.precision, [&] {
      GemmArguments<T> g = p.g;
      const int64_t size_a = std::ssize(p.a), size_c = std::ssize(p.c);
      const std::vector<T> a = RandomValues<T>(kBatch * size_a, "a"), before = RandomValues<T>(kBatch * size_c, "c");
      std::vector<T> c = before, alone = before;
      std::vector<int64_t> offsets_a, offsets_b(kBatch, 0), offsets_c;  // B is shared
      for (int64_t i = 0; i < kBatch; ++i) {
        offsets_a.push_back((kBatch - 1 - i) * size_a);  // in another order
        offsets_c.push_back(i * size_c);
      }
      g.a = {a.data(), g.a.stride}, g.b = {p.b.data(), g.b.stride}, g.c = c.data();
      GemmBatched<T>(g, offsets_a, offsets_b, offsets_c);
      for (int64_t i = 0; i < kBatch; ++i) {
        g.a = Operand<T>(a.data(), g.a.stride) + offsets_a[i], g.c = alone.data() + offsets_c[i];
        Gemm(g);
      }
      ASSERT_TRUE(SameBits(c, alone)) << p.Describe();  // in a batch or alone, the same tiles
      if constexpr (std::is_same_v<T, float>) {
        if (g.precision != Precision::kBFloat16) return;
        const std::vector<uint16_t> halves = Halves(a);
        c = before;
        g.a = {halves.data(), g.a.stride}, g.c = c.data();
        GemmBatched<T>(g, offsets_a, offsets_b, offsets_c);
        ASSERT_TRUE(SameBits(c, alone)) << "of rounded operands, " << p.Describe();
      }
    });
  });
}

TEST(GemmArgumentsTest, EmptyProductsDoNothing) {
  float c = 5;
  GemmArguments<float> g;
  g.m = 0, g.n = 3, g.k = 2, g.a.stride = 2, g.b.stride = 3, g.ldc = 3, g.c = &c;
  Gemm(g);
  GemmBatched<float>(g, {}, {}, {});
  EXPECT_EQ(c, 5);
}

TEST(GemmArgumentsTest, WhatDoesNotFitIsRefused) {
  const std::vector<uint16_t> halves(16);
  std::vector<float> x(16);
  const auto product = [&](Operand<float> a, int64_t b_stride, int64_t ldc) {
    GemmArguments<float> g{.m = 2, .n = 3, .k = 4};
    g.a = a, g.b = {x.data(), b_stride}, g.c = x.data(), g.ldc = ldc;
    return [g] { Gemm(g); };
  };
  testing::ExpectRefused({{"rows of A shorter than their length", product({x.data(), 3}, 3, 3), {}},
                          {"rows of B shorter than their length", product({x.data(), 4}, 2, 3), {}},
                          {"rows of C shorter than their length", product({x.data(), 4}, 3, 2), {}},
                          {"operands that another precision has rounded", product({halves.data(), 4}, 3, 3), {}}});
}

// An implementation that others use, beside the plain loops. Twice the bound: both are off.
TEST(GemmOpenBlasTest, EqualsOpenBlas) {
  if (!GetOpenBlas().unavailable.empty()) GTEST_SKIP() << GetOpenBlas().unavailable;
  ForProblems({{5, 3, 1}, {17, 33, 19}, {67, 130, 800}, {300, 70, 31}}, [](auto p) {
    if (p.g.precision == Precision::kBFloat16) return;
    auto g = p.g;
    auto theirs = p.c;
    g.a = {p.a.data(), g.a.stride}, g.b = {p.b.data(), g.b.stride}, g.c = theirs.data();
    OpenBlasGemm(g);
    EXPECT_TRUE(AllClose(p.Compute(), ToDouble(theirs), {2 * p.Bound().absolute, 0})) << p.Describe();
  });
}

CROSSTALK_KERNEL_TEST(InterleavedGemmTest);

struct Sizes {
  int64_t rows, columns, inner, lanes;
};

// Two products, one after the other; a[i, k, r, l], b[i, j, k, l], c[i, j, r, l]: no order is the natural one.
template <typename T>
struct InterleavedProblem {
  explicit InterleavedProblem(const Sizes& sizes)
      : s(sizes),
        a(RandomValues<T>(2 * s.rows * s.inner * s.lanes, "a")),
        b(RandomValues<T>(2 * s.inner * s.columns * s.lanes, "b")) {}

  std::vector<T> Compute() const {
    const int64_t size_a = std::ssize(a) / 2, size_b = std::ssize(b) / 2, size_c = s.rows * s.columns * s.lanes;
    Guarded<T> in_a(a), in_b(b), c(2 * size_c);
    InterleavedGemmArguments<T> g;
    g.rows = s.rows, g.columns = s.columns, g.inner = s.inner, g.lanes = s.lanes;
    g.a = in_a.data(), g.a_inner = s.rows * s.lanes, g.a_row = s.lanes;
    g.b = in_b.data(), g.b_column = s.inner * s.lanes, g.b_inner = s.lanes;
    g.c = c.data(), g.c_column = s.rows * s.lanes, g.c_row = s.lanes;
    const int64_t offsets_a[] = {0, size_a}, offsets_b[] = {0, size_b}, offsets_c[] = {0, size_c};
    InterleavedGemmBatched<T>(g, offsets_a, offsets_b, offsets_c);
    EXPECT_TRUE(c.GuardsIntact());
    return c.values();
  }
  std::vector<double> Expected() const {
    std::vector<double> c;
    for (int64_t at = 0; at < 2 * s.columns * s.rows * s.lanes; ++at) {
      const int64_t l = at % s.lanes, r = at / s.lanes % s.rows, j = at / (s.lanes * s.rows);  // j of both products
      double sum = 0;
      for (int64_t k = 0; k < s.inner; ++k) {
        sum += static_cast<double>(a[((j / s.columns * s.inner + k) * s.rows + r) * s.lanes + l]) *
               static_cast<double>(b[(j * s.inner + k) * s.lanes + l]);
      }
      c.push_back(sum);
    }
    return c;
  }

  Sizes s;
  std::vector<T> a, b;
};

// `inner` roundings of sums that grow to about √inner times a product; the largest result is about that size.
TEST_P(InterleavedGemmTest, EqualsLoopsForEveryNumberOfLanesAndAroundEveryBlockSize) {
  const auto expect = [](const auto& p) {
    const double roundoff = sizeof(p.a[0]) == 4 ? kRoundoff<float> : kRoundoff<double>;
    EXPECT_TRUE(CloseToLargest(p.Compute(), p.Expected(), static_cast<double>(p.s.inner + 2) * roundoff))
        << p.s.rows << " rows, " << p.s.columns << " columns, " << p.s.inner << " inner, " << p.s.lanes << " lanes";
  };
  std::vector<Sizes> all = {{1, 1, 1, 65}, {3, 2, 31, 7},  {4, 3, 32, 64},    {7, 5, 33, 66},
                            {65, 7, 2, 5}, {67, 1, 70, 3}, {12, 12, 12, 130}, {67, 13, 5, 33}};
  for (int64_t lanes = 1; lanes <= kMaxLength; ++lanes) all.push_back({5, 4, 3, lanes});
  for (const Sizes& s : all) {
    expect(InterleavedProblem<float>(s));
    expect(InterleavedProblem<double>(s));
  }
}

TEST(InterleavedGemmBitsTest, AreTheSameWhereverMultiplyAddsAreFusedAndOnAnyThreads) {
  for (const Sizes& s : {Sizes{3, 2, 31, 7}, Sizes{5, 4, 18, 67}, Sizes{67, 13, 5, 33}, Sizes{70, 5, 33, 67}}) {
    const InterleavedProblem<float> in_float(s);
    const InterleavedProblem<double> in_double(s);
    ExpectSameBitsOnEveryTarget([&] { return in_float.Compute(); }, "float");
    ExpectSameBitsOnEveryTarget([&] { return in_double.Compute(); }, "double");
    ExpectSameBitsOnAnyThreads([&] { return in_float.Compute(); });
  }
}

}  // namespace gemm_test
}  // namespace crosstalk::kernels
