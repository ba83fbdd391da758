#include "crosstalk/kernels/gemm/gemm.h"

#include <cmath>

#include "crosstalk/kernels/gemm/openblas.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/fusing_targets.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace gemm_test {

CROSSTALK_KERNEL_TEST(GemmTest);

struct Product {
  int64_t m, n, k;
};
constexpr Transpose kBoth[] = {Transpose::kNo, Transpose::kYes};

// Rows are 3, 5 and 2 elements apart beyond their length; C begins as NaN where beta is 0.
template <typename T>
void CheckProduct(const Product& s, Transpose ta, Transpose tb, T alpha, T beta) {
  GemmArguments<T> g;
  g.transpose_a = ta;
  g.transpose_b = tb;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.alpha = alpha;
  g.beta = beta;
  g.a.stride = (ta == Transpose::kYes ? s.m : s.k) + 3;
  g.b.stride = (tb == Transpose::kYes ? s.k : s.n) + 5;
  g.ldc = s.n + 2;
  const std::vector<T> a = RandomValues<T>((ta == Transpose::kYes ? s.k : s.m) * g.a.stride, "a");
  const std::vector<T> b = RandomValues<T>((tb == Transpose::kYes ? s.n : s.k) * g.b.stride, "b");
  std::vector<T> c = RandomValues<T>(s.m * g.ldc, "c");
  const std::vector<T> before = c;
  if (beta == T(0)) {
    for (int64_t i = 0; i < s.m; ++i) std::fill_n(c.begin() + i * g.ldc, s.n, std::numeric_limits<T>::quiet_NaN());
  }
  const std::vector<double> wide_a = ToDouble(a), wide_b = ToDouble(b);
  std::vector<double> expected = ToDouble(c);
  GemmArguments<double> wide{
      ta,   tb, s.m, s.n, s.k, alpha, {wide_a.data(), g.a.stride}, {wide_b.data(), g.b.stride}, beta, expected.data(),
      g.ldc};
  reference::Gemm(wide);
  Guarded<T> in_a(a), in_b(b), out(c);
  g.a = {in_a.data(), g.a.stride};
  g.b = {in_b.data(), g.b.stride};
  g.c = out.data();
  Gemm(g);
  // k products of numbers of size 1 in any order: the error is a sum of k roundings, of partial sums √k in size, at
  // worst k u √k, typically u k; 4 u (k + 2) leaves room for that and none for a wrong term, which is of size 1.
  const double bound =
      4 * kRoundoff<T> * (static_cast<double>(s.k) + 2) * std::max(1.0, std::abs(static_cast<double>(alpha)));
  ASSERT_TRUE(AllClose(out.values(), expected, {bound, 4 * kRoundoff<T>}))
      << "m=" << s.m << " n=" << s.n << " k=" << s.k << " A " << int(ta) << " B " << int(tb) << " beta=" << beta;
  ASSERT_TRUE(out.GuardsIntact());
  const std::vector<T> after = out.values();
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = s.n; j < g.ldc; ++j) ASSERT_EQ(after[i * g.ldc + j], before[i * g.ldc + j]) << "between rows";
  }
}

template <typename T>
void CheckShapes(const std::vector<Product>& shapes) {
  for (const Product& s : shapes) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        CheckProduct<T>(s, ta, tb, T(1), T(0));
        CheckProduct<T>(s, ta, tb, T(-0.5), T(1));
      }
    }
  }
}

// Vectors, odd sizes, k = 0, and the small and the tall-skinny products of attention heads.
const std::vector<Product> kShapes = {{1, 1, 1},     {1, 7, 5},     {7, 1, 5},     {5, 7, 1},     {3, 4, 0},
                                      {17, 19, 23},  {31, 33, 65},  {64, 64, 32},  {1, 300, 65},  {300, 1, 65},
                                      {12, 700, 12}, {24, 513, 24}, {48, 300, 48}, {700, 12, 12}, {513, 24, 24},
                                      {12, 12, 700}, {24, 24, 515}, {13, 48, 301}, {6, 515, 13},  {49, 35, 521},
                                      {61, 67, 39},  {50, 35, 1024}};

TEST_P(GemmTest, EveryTransposeMatchesTheReferenceFloat) { CheckShapes<float>(kShapes); }
TEST_P(GemmTest, EveryTransposeMatchesTheReferenceDouble) { CheckShapes<double>(kShapes); }
// Several blocks of each of m, n and k, and sliced k.
TEST(GemmLargeTest, SeveralTilesMatchTheReference) {
  const std::vector<Product> shapes = {{223, 70, 1037}, {70, 4133, 21}, {3, 4133, 530}, {300, 33, 513},
                                       {5, 12, 8200},   {53, 70, 1037}, {13, 17, 70001}};
  CheckShapes<float>(shapes);
  CheckShapes<double>(shapes);
}

// One block of k and several, panels of B whole and in part, products of nothing, sliced ones, batches.
template <typename T>
void CheckBias(const Product& s) {
  const std::vector<T> a = RandomValues<T>(s.m * s.k, "a"), b = RandomValues<T>(s.k * s.n, "b");
  const std::vector<T> before = RandomValues<T>(s.m * s.n, "c"), bias = RandomValues<T>(s.n, "bias");
  for (const T alpha : {T(0), T(0.7)}) {
    for (const T beta : {T(0), T(0.3)}) {
      for (const Transpose tb : kBoth) {
        std::vector<T> c = before, expected = before;
        Guarded<T> in_bias(bias);
        GemmArguments<T> g{.transpose_b = tb, .m = s.m, .n = s.n, .k = s.k, .alpha = alpha, .beta = beta};
        g.a = {a.data(), std::max<int64_t>(1, s.k)};
        g.b = {b.data(), std::max<int64_t>(1, tb == Transpose::kYes ? s.k : s.n)};
        g.ldc = s.n;
        g.c = expected.data();
        Gemm(g);
        for (int64_t i = 0; i < s.m * s.n; ++i) expected[i] += bias[i % s.n];
        g.bias = in_bias.data();
        g.c = c.data();
        Gemm(g);
        ASSERT_TRUE(SameBits(c, expected)) << s.m << " " << s.n << " " << s.k << " alpha=" << alpha << " beta=" << beta;
        c = before;
        GemmBatched<T>(g, std::vector<int64_t>{0}, std::vector<int64_t>{0}, std::vector<int64_t>{0});
        ASSERT_TRUE(SameBits(c, expected)) << "batched";
      }
    }
  }
}

TEST_P(GemmTest, ABiasHasTheBitsOfAnAdditionBehindTheProduct) {
  for (const Product& s : kShapes) CheckBias<float>(s);
  for (const Product& s : {Product{60, 4133, 21}, Product{5, 12, 8200}, Product{70, 40, 1600}}) {
    CheckBias<float>(s);
    CheckBias<double>(s);
  }
}

// Decoding a token gives the bits that it has among many: few rows are a kernel of their own.
template <typename T>
void CheckFewRows(int64_t n, int64_t k) {
  constexpr int64_t kMany = 60;
  const std::vector<T> a = RandomValues<T>(kMany * k, "a"), b = RandomValues<T>(k * n, "b");
  const std::vector<T> before = RandomValues<T>(kMany * n, "c"), bias = RandomValues<T>(n, "bias");
  for (const Transpose ta : kBoth) {
    for (const Transpose tb : kBoth) {
      const T beta = ta == tb ? T(0) : T(0.3);
      GemmArguments<T> g{
          .transpose_a = ta, .transpose_b = tb, .m = kMany, .n = n, .k = k, .alpha = T(0.7), .beta = beta};
      g.a = {a.data(), ta == Transpose::kYes ? kMany : k};
      g.b = {b.data(), tb == Transpose::kYes ? k : n};
      g.ldc = n;
      g.bias = ta == Transpose::kNo ? bias.data() : nullptr;
      std::vector<T> many = before;
      g.c = many.data();
      Gemm(g);
      for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9}) {
        g.m = m;
        Guarded<T> c(std::vector<T>(before.begin(), before.begin() + m * n));
        g.c = c.data();
        Gemm(g);
        ASSERT_TRUE(
            SameBits(std::vector<T>(c.data(), c.data() + m * n), std::vector<T>(many.begin(), many.begin() + m * n)))
            << "m=" << m << " n=" << n << " k=" << k;
      }
    }
  }
}

TEST_P(GemmTest, ARowHasTheSameBitsAmongFewAndMany) {
  for (const auto& [n, k] : {std::pair{128, 128}, {131, 135}, {700, 1601}}) {
    CheckFewRows<float>(n, k);
    CheckFewRows<double>(n, k);
  }
}

// Decoding one query gives the bits that it has among many.
TEST_P(GemmTest, ARowsBitsDoNotDependOnTheOtherRows) {
  const Product all{150, 83, 1100};
  const std::vector<float> a = RandomValues<float>(all.m * all.k, "a");
  for (const Transpose tb : kBoth) {
    const std::vector<float> b = RandomValues<float>(all.k * all.n, "b");
    const auto product = [&](int64_t first, int64_t rows) {
      std::vector<float> c(rows * all.n);
      GemmArguments<float> g;
      g.transpose_b = tb;
      g.m = rows, g.n = all.n, g.k = all.k, g.a.stride = all.k, g.b.stride = tb == Transpose::kYes ? all.k : all.n;
      g.ldc = all.n;
      g.a = {a.data() + first * all.k, g.a.stride}, g.b = {b.data(), g.b.stride}, g.c = c.data();
      Gemm(g);
      return c;
    };
    const std::vector<float> whole = product(0, all.m);
    for (const int64_t rows : {1, 2, 7, 13, 48, 49, 100}) {
      const int64_t first = 37;
      const std::vector<float> expected(whole.begin() + first * all.n, whole.begin() + (first + rows) * all.n);
      EXPECT_TRUE(SameBits(product(first, rows), expected)) << rows << " rows";
    }
  }
}

// Few rows and many, one block of k (at most 768) and two, panels of B whole and in part, a small result of a long sum.
template <typename T>
void ExpectSameProductsOnFusingTargets() {
  for (const Product& s : {Product{1, 1, 1}, Product{3, 5, 7}, Product{13, 33, 1536}, Product{48, 67, 20},
                           Product{61, 37, 769}, Product{150, 600, 70}, Product{5, 7, 8200}, Product{3, 131, 903}}) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        const auto product = [&] {
          const std::vector<T> a = RandomValues<T>(s.m * s.k, "a"), b = RandomValues<T>(s.k * s.n, "b");
          std::vector<T> c = RandomValues<T>(s.m * s.n, "c");
          Gemm<T>({ta,
                   tb,
                   s.m,
                   s.n,
                   s.k,
                   T(0.7),
                   {a.data(), ta == Transpose::kYes ? s.m : s.k},
                   {b.data(), tb == Transpose::kYes ? s.k : s.n},
                   T(0.3),
                   c.data(),
                   s.n});
          return c;
        };
        ExpectSameBitsOnFusingTargets(product,
                                      StrCat("m=", s.m, " n=", s.n, " k=", s.k, " A ", int(ta), " B ", int(tb)));
      }
    }
  }
}

TEST(GemmTargetsTest, SameBitsWhereverMultiplyAddsAreFusedFloat) { ExpectSameProductsOnFusingTargets<float>(); }
TEST(GemmTargetsTest, SameBitsWhereverMultiplyAddsAreFusedDouble) { ExpectSameProductsOnFusingTargets<double>(); }

TEST(GemmLargeTest, EmptyProductsDoNothing) {
  float c = 5;
  GemmArguments<float> g;
  g.m = 0, g.n = 3, g.k = 2, g.a.stride = 2, g.b.stride = 3, g.ldc = 3, g.c = &c;
  Gemm(g);
  GemmBatched<float>(g, {}, {}, {});
  EXPECT_EQ(c, 5);
}

TEST(GemmLargeTest, RowsShorterThanTheirLengthAreRejected) {
  GemmArguments<float> g;
  g.m = 2, g.n = 3, g.k = 4, g.a.stride = 3, g.b.stride = 3, g.ldc = 3;
  EXPECT_THROW(Gemm(g), Error);
  g.a.stride = 4, g.ldc = 2;
  EXPECT_THROW(Gemm(g), Error);
}

TEST_P(GemmTest, BatchesEqualSingleProducts) {
  for (const Product& s : {Product{5, 6, 7}, Product{12, 100, 12}, Product{100, 24, 24}, Product{12, 12, 200}}) {
    const int64_t batch = 9;
    const std::vector<float> a = RandomValues<float>(batch * s.m * s.k, "a"), b = RandomValues<float>(s.k * s.n, "b");
    std::vector<float> c(batch * s.m * s.n), alone(c.size());
    std::vector<int64_t> offsets_a, offsets_b, offsets_c;
    for (int64_t i = 0; i < batch; ++i) {
      offsets_a.push_back((batch - 1 - i) * s.m * s.k);  // in another order; B is shared
      offsets_b.push_back(0);
      offsets_c.push_back(i * s.m * s.n);
    }
    GemmArguments<float> g;
    g.m = s.m, g.n = s.n, g.k = s.k, g.ldc = s.n;
    g.a = {a.data(), s.k}, g.b = {b.data(), s.n}, g.c = c.data();
    GemmBatched<float>(g, offsets_a, offsets_b, offsets_c);
    for (int64_t i = 0; i < batch; ++i) {
      GemmArguments<float> single = g;
      single.a = g.a + offsets_a[i];
      single.c = alone.data() + offsets_c[i];
      Gemm(single);
    }
    // Whether in a batch or alone, the same tiles.
    EXPECT_TRUE(SameBits(c, alone)) << s.m << " " << s.n << " " << s.k;
  }
}

template <typename T>
void CheckBitsOnAnyThreads(const Product& s, Transpose ta = Transpose::kNo) {
  const std::vector<T> a = RandomValues<T>(s.m * s.k, "a"), b = RandomValues<T>(s.k * s.n, "b");
  const std::vector<T> before = RandomValues<T>(s.m * s.n, "c"), bias = RandomValues<T>(s.n, "bias");
  for (const T beta : {T(0), T(0.3)}) {
    ExpectSameBitsOnAnyThreads([&] {
      std::vector<T> c = before;
      GemmArguments<T> g{.transpose_a = ta, .m = s.m, .n = s.n, .k = s.k, .alpha = T(0.7), .beta = beta};
      g.a = {a.data(), ta == Transpose::kYes ? s.m : s.k}, g.b = {b.data(), s.n};
      g.c = c.data(), g.ldc = s.n, g.bias = bias.data();
      Gemm(g);
      return c;
    });
  }
}

TEST_P(GemmTest, SameBitsOnAnyThreads) {
  for (const Product& s : {Product{600, 70, 50}, Product{40, 3000, 30}, Product{12, 20000, 12}, Product{20000, 24, 24},
                           Product{24, 24, 20000}, Product{48, 12, 9000}, Product{61, 515, 770}, Product{515, 61, 770},
                           Product{523, 541, 800}}) {
    CheckBitsOnAnyThreads<float>(s);
    CheckBitsOnAnyThreads<double>(s);
  }
  // Gradients of weights: a part of k for each thread, within a block of k, of one and across several.
  for (const Product& s :
       {Product{61, 37, 523}, Product{131, 35, 1031}, Product{59, 149, 2057}, Product{14, 515, 785}}) {
    CheckBitsOnAnyThreads<float>(s, Transpose::kYes);
    CheckBitsOnAnyThreads<double>(s, Transpose::kYes);
  }
}

// Beside the plain loops, an implementation that others use.
template <typename T>
void CheckAgainstOpenBlas(const Product& s, Transpose ta, Transpose tb) {
  GemmArguments<T> g;
  g.transpose_a = ta, g.transpose_b = tb;
  g.m = s.m, g.n = s.n, g.k = s.k;
  g.a.stride = ta == Transpose::kYes ? s.m : s.k, g.b.stride = tb == Transpose::kYes ? s.k : s.n, g.ldc = s.n;
  const std::vector<T> a = RandomValues<T>(s.m * s.k, "a"), b = RandomValues<T>(s.k * s.n, "b");
  std::vector<T> ours(s.m * s.n), theirs(s.m * s.n);
  g.a = {a.data(), g.a.stride}, g.b = {b.data(), g.b.stride}, g.c = ours.data();
  Gemm(g);
  g.c = theirs.data();
  OpenBlasGemm(g);
  // Twice the bound of CheckProduct: both are off.
  const double bound = 8 * kRoundoff<T> * (static_cast<double>(s.k) + 2);
  EXPECT_TRUE(AllClose(ours, ToDouble(theirs), {bound, 0})) << s.m << " " << s.n << " " << s.k;
}

TEST_P(GemmTest, EqualsOpenBlas) {
  if (!GetOpenBlas().unavailable.empty()) GTEST_SKIP() << GetOpenBlas().unavailable;
  for (const Product& s : {Product{5, 3, 1}, Product{17, 33, 19}, Product{67, 130, 800}, Product{300, 70, 31}}) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        CheckAgainstOpenBlas<float>(s, ta, tb);
        CheckAgainstOpenBlas<double>(s, ta, tb);
      }
    }
  }
}

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

}  // namespace gemm_test
}  // namespace crosstalk::kernels
