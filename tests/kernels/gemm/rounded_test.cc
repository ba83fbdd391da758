// Products of operands rounded to bfloat16.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/fusing_targets.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace rounded_test {

CROSSTALK_KERNEL_TEST(RoundedGemmTest);

constexpr Transpose kBoth[] = {Transpose::kNo, Transpose::kYes};

std::vector<uint16_t> Halves(const std::vector<float>& x) {
  std::vector<uint16_t> y(x.size());
  RoundToBFloat16(static_cast<int64_t>(x.size()), x.data(), y.data());
  return y;
}
std::vector<float> Rounded(const std::vector<float>& x) {
  const std::vector<uint16_t> halves = Halves(x);
  std::vector<float> y(x.size());
  WidenBFloat16(static_cast<int64_t>(x.size()), halves.data(), y.data());
  return y;
}

// A product with its operands and its result.
struct Problem {
  Problem(int64_t m, int64_t n, int64_t k, Transpose ta, Transpose tb, float alpha = 1, float beta = 0) {
    g = {.transpose_a = ta, .transpose_b = tb, .m = m, .n = n, .k = k, .alpha = alpha, .beta = beta};
    g.a.stride = (ta == Transpose::kYes ? m : k) + 3;
    g.b.stride = (tb == Transpose::kYes ? k : n) + 5;
    g.ldc = n + 2;
    g.precision = Precision::kBFloat16;
    a = RandomValues<float>((ta == Transpose::kYes ? k : m) * g.a.stride, "a");
    b = RandomValues<float>((tb == Transpose::kYes ? n : k) * g.b.stride, "b");
    c = RandomValues<float>(m * g.ldc, "c");
  }
  std::vector<float> Compute() const {
    GemmArguments<float> product = g;
    Guarded<float> in_a(a), in_b(b), out(c);
    product.a = {in_a.data(), g.a.stride}, product.b = {in_b.data(), g.b.stride}, product.c = out.data();
    Gemm(product);
    EXPECT_TRUE(out.GuardsIntact());
    return out.values();
  }
  GemmArguments<float> g;
  std::vector<float> a, b, c;
};

struct Shape {
  int64_t m, n, k;
};
// Odd lengths of every dimension, one pair and less, few rows and many, very few with long rows of B, several blocks of
// k, and a sliced k.
const std::vector<Shape> kShapes = {{1, 1, 1},     {3, 5, 2},     {7, 1, 5},     {17, 19, 23},  {31, 33, 65},
                                    {61, 67, 39},  {13, 48, 301}, {49, 35, 521}, {53, 37, 769}, {223, 70, 1037},
                                    {3, 4133, 53}, {5, 12, 8201}, {1, 389, 131}, {3, 267, 901}, {8, 131, 257},
                                    {2, 150, 262}, {4, 131, 770}};

// Operands of size 1 are rounded by 2^-9 of themselves before, and not again: against the product of the rounded ones
// the bound is that of sums in float.
TEST_P(RoundedGemmTest, IsTheProductOfTheRoundedOperands) {
  for (const Shape& s : kShapes) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {-0.5f, 1.0f}}) {
          Problem p(s.m, s.n, s.k, ta, tb, alpha, beta);
          const std::vector<double> a = ToDouble(Rounded(p.a)), b = ToDouble(Rounded(p.b));
          std::vector<double> expected = ToDouble(p.c);
          if (beta == 0) {
            for (int64_t i = 0; i < s.m; ++i) {
              std::fill_n(p.c.begin() + i * p.g.ldc, s.n, std::numeric_limits<float>::quiet_NaN());
            }
          }
          reference::Gemm(GemmArguments<double>{ta,
                                                tb,
                                                s.m,
                                                s.n,
                                                s.k,
                                                alpha,
                                                {a.data(), p.g.a.stride},
                                                {b.data(), p.g.b.stride},
                                                beta,
                                                expected.data(),
                                                p.g.ldc});
          const double bound = 4 * kRoundoff<float> * (static_cast<double>(s.k) + 2);
          ASSERT_TRUE(AllClose(p.Compute(), expected, {bound, 4 * kRoundoff<float>}))
              << "m=" << s.m << " n=" << s.n << " k=" << s.k << " A " << int(ta) << " B " << int(tb);
        }
      }
    }
  }
}

TEST_P(RoundedGemmTest, OperandsThatAreRoundedAlreadyGiveTheSameBits) {
  for (const Shape& s : kShapes) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        const Problem p(s.m, s.n, s.k, ta, tb);
        const std::vector<float> expected = p.Compute();
        const std::vector<uint16_t> a = Halves(p.a), b = Halves(p.b);
        for (const int which : {1, 2, 3}) {
          GemmArguments<float> g = p.g;
          std::vector<float> c = p.c;
          g.a = {p.a.data(), g.a.stride}, g.b = {p.b.data(), g.b.stride}, g.c = c.data();
          if (which & 1) g.a = {a.data(), g.a.stride};
          if (which & 2) g.b = {b.data(), g.b.stride};
          Gemm(g);
          ASSERT_TRUE(SameBits(c, expected)) << s.m << " " << s.n << " " << s.k << " " << int(ta) << int(tb) << which;
        }
      }
    }
  }
}

// sum ← fma(a[k], b[k], fma(a[k + 1], b[k + 1], sum)): what bfloat16.h promises, within one block of k.
TEST(RoundedGemmOrderTest, TheSecondOfAPairComesFirst) {
  const Problem p(5, 9, 71, Transpose::kNo, Transpose::kNo);
  const std::vector<float> a = Rounded(p.a), b = Rounded(p.b);
  for (const std::string& target : FusingSimdTargets()) {
    RestrictSimdTarget(target);
    for (const std::string& unit : SupportedBFloat16Units()) {
      RestrictBFloat16Unit(unit);
      const std::vector<float> c = p.Compute();
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 9; ++j) {
          float sum = 0;
          const auto add = [&](int64_t k) {
            if (k < 71)
              sum = std::fma(a[static_cast<size_t>(i * p.g.a.stride + k)], b[static_cast<size_t>(k * p.g.b.stride + j)],
                             sum);
          };
          for (int64_t k = 0; k < 71; k += 2) add(k + 1), add(k);
          ASSERT_EQ(c[static_cast<size_t>(i * p.g.ldc + j)], sum) << target << ", " << unit << ": " << i << ", " << j;
        }
      }
    }
    RestrictBFloat16Unit("");
  }
  RestrictSimdTarget("");
}

TEST(RoundedGemmTargetsTest, SameBitsOnEveryUnitWhereverMultiplyAddsAreFused) {
  for (const Shape& s : kShapes) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        std::vector<float> expected;
        const Problem p(s.m, s.n, s.k, ta, tb, 0.7f, 0.3f);
        for (const std::string& target : FusingSimdTargets()) {
          RestrictSimdTarget(target);
          for (const std::string& unit : SupportedBFloat16Units()) {
            RestrictBFloat16Unit(unit);
            const std::vector<float> c = p.Compute();
            if (expected.empty()) expected = c;
            EXPECT_TRUE(SameBits(c, expected)) << target << ", " << unit << ": " << s.m << " " << s.n << " " << s.k;
          }
          RestrictBFloat16Unit("");
        }
      }
    }
  }
  RestrictSimdTarget("");
}

// Decoding a token gives the bits that it has among many.
TEST_P(RoundedGemmTest, ARowsBitsDoNotDependOnTheOtherRows) {
  for (const auto& [n, tb] : std::vector<std::pair<int64_t, Transpose>>{
           {83, Transpose::kNo}, {83, Transpose::kYes}, {261, Transpose::kNo}, {261, Transpose::kYes}}) {
    const Problem many(150, n, 1101, Transpose::kNo, tb);
    const std::vector<float> whole = many.Compute();
    for (const int64_t rows : {1, 2, 7, 8, 13, 48, 49, 100}) {
      constexpr int64_t kFirst = 37;
      GemmArguments<float> g = many.g;
      std::vector<float> c(static_cast<size_t>(rows * g.ldc), 0.0f);
      g.m = rows, g.a = {many.a.data() + kFirst * g.a.stride, g.a.stride}, g.b = {many.b.data(), g.b.stride},
      g.c = c.data();
      Gemm(g);
      for (int64_t i = 0; i < rows; ++i) {
        ASSERT_EQ(std::memcmp(c.data() + i * g.ldc, whole.data() + (kFirst + i) * g.ldc,
                              static_cast<size_t>(n) * sizeof(float)),
                  0)
            << rows << " rows, row " << i << ", n=" << n;
      }
    }
  }
}

TEST_P(RoundedGemmTest, SameBitsOnAnyThreads) {
  for (const Shape& s :
       {Shape{600, 70, 51}, {40, 3000, 31}, {12, 20000, 13}, {24, 24, 20001}, {301, 299, 1601}, {61, 515, 771}}) {
    const Problem p(s.m, s.n, s.k, Transpose::kNo, Transpose::kNo);
    ExpectSameBitsOnAnyThreads([&] { return p.Compute(); });
  }
  for (const Shape& s : {Shape{61, 37, 523}, {131, 35, 1031}, {59, 149, 2057}}) {
    const Problem p(s.m, s.n, s.k, Transpose::kYes, Transpose::kNo, 0.7f, 0.3f);
    ExpectSameBitsOnAnyThreads([&] { return p.Compute(); });
  }
}

TEST_P(RoundedGemmTest, BatchesEqualSingleProductsAlsoOfRoundedOperands) {
  constexpr int64_t kBatch = 5, m = 13, n = 11, k = 27;
  const std::vector<float> a = RandomValues<float>(kBatch * m * k, "a"), b = RandomValues<float>(k * n, "b");
  const std::vector<uint16_t> halves = Halves(a);
  std::vector<float> c(kBatch * m * n), from_rounded(c.size()), alone(c.size());
  std::vector<int64_t> offsets_a, offsets_b(kBatch, 0), offsets_c;
  for (int64_t i = 0; i < kBatch; ++i) offsets_a.push_back((kBatch - 1 - i) * m * k), offsets_c.push_back(i * m * n);
  GemmArguments<float> g{.m = m, .n = n, .k = k};
  g.precision = Precision::kBFloat16;
  g.ldc = n, g.a = {a.data(), k}, g.b = {b.data(), n}, g.c = c.data();
  GemmBatched<float>(g, offsets_a, offsets_b, offsets_c);
  g.c = from_rounded.data(), g.a = {halves.data(), k};
  GemmBatched<float>(g, offsets_a, offsets_b, offsets_c);
  for (size_t i = 0; i < kBatch; ++i) {
    g.a = {a.data() + offsets_a[i], k}, g.c = alone.data() + offsets_c[i];
    Gemm(g);
  }
  EXPECT_TRUE(SameBits(c, alone));
  EXPECT_TRUE(SameBits(from_rounded, alone));
}

TEST_P(RoundedGemmTest, ABiasHasTheBitsOfAnAdditionBehindTheProduct) {
  for (const Shape& s : {Shape{5, 7, 0}, {61, 37, 1539}, {3, 5, 8203}, {12, 67, 9}}) {
    Problem p(s.m, s.n, s.k, Transpose::kNo, Transpose::kNo, 0.7f, 0.3f);
    std::vector<float> expected = p.Compute();
    const std::vector<float> bias = RandomValues<float>(s.n, "bias");
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) expected[static_cast<size_t>(i * p.g.ldc + j)] += bias[static_cast<size_t>(j)];
    }
    p.g.bias = bias.data();
    EXPECT_TRUE(SameBits(p.Compute(), expected)) << s.k;
  }
}

TEST_P(RoundedGemmTest, InfinitiesAndNaNsReachTheirSumsAlone) {
  Problem p(7, 19, 33, Transpose::kNo, Transpose::kNo);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  p.a[static_cast<size_t>(2 * p.g.a.stride + 5)] = kInfinity;
  p.b[static_cast<size_t>(8 * p.g.b.stride + 3)] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> c = p.Compute();
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t j = 0; j < 19; ++j) {
      const float value = c[static_cast<size_t>(i * p.g.ldc + j)];
      if (j == 3) {
        EXPECT_TRUE(std::isnan(value)) << i;
      } else {
        EXPECT_EQ(std::isinf(value), i == 2) << i << ", " << j;
      }
    }
  }
}

// As the instruction has it, whatever multiplies; and the thread's arithmetic is as before afterwards.
TEST_P(RoundedGemmTest, SumsBelowTheNormalNumbersAreZero) {
  Problem p(61, 5, 7, Transpose::kNo, Transpose::kNo);
  for (float& x : p.a) x = 0x1p-70f;
  for (float& x : p.b) x = 0x1p-70f;
  for (const int64_t m : {3, 61}) {
    p.g.m = m;
    const std::vector<float> c = p.Compute();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(c[static_cast<size_t>(i * p.g.ldc + j)], 0.0f);
    }
  }
  volatile float small = 0x1p-100f;
  EXPECT_GT(small * 0x1p-30f, 0.0f);
}

// The blocked product in tiles: against the rounded operands, its own bits for any rows, threads and targets.
TEST(TiledGemmTest, IsTheProductOfTheRoundedOperandsOnEveryTarget) {
  RestrictBFloat16Unit("tiles");
  for (const Shape& s : {Shape{1, 1, 1}, {17, 19, 23}, {33, 35, 65}, {61, 67, 39}, {49, 35, 769}, {100, 70, 1037}}) {
    for (const Transpose ta : kBoth) {
      for (const Transpose tb : kBoth) {
        const Problem p(s.m, s.n, s.k, ta, tb, -0.5f, 1);
        const std::vector<double> a = ToDouble(Rounded(p.a)), b = ToDouble(Rounded(p.b));
        std::vector<double> expected = ToDouble(p.c);
        reference::Gemm(GemmArguments<double>{ta,
                                              tb,
                                              s.m,
                                              s.n,
                                              s.k,
                                              -0.5,
                                              {a.data(), p.g.a.stride},
                                              {b.data(), p.g.b.stride},
                                              1,
                                              expected.data(),
                                              p.g.ldc});
        const double bound = 4 * kRoundoff<float> * (static_cast<double>(s.k) + 2);
        std::vector<float> first;
        for (const std::string& target : SupportedSimdTargets()) {
          RestrictSimdTarget(target);
          const std::vector<float> c = p.Compute();
          ASSERT_TRUE(AllClose(c, expected, {bound, 4 * kRoundoff<float>}))
              << target << ": " << s.m << " " << s.n << " " << s.k << " A " << int(ta) << " B " << int(tb);
          if (first.empty()) first = c;
          EXPECT_TRUE(SameBits(c, first)) << target;
        }
        RestrictSimdTarget("");
      }
    }
  }
  const Problem p(70, 83, 101, Transpose::kNo, Transpose::kYes);
  const std::vector<float> whole = p.Compute();
  ExpectSameBitsOnAnyThreads([&] { return p.Compute(); });
  for (const int64_t rows : {1, 5, 33}) {
    GemmArguments<float> g = p.g;
    std::vector<float> c(static_cast<size_t>(rows * g.ldc), 0.0f);
    g.m = rows, g.a = {p.a.data() + 7 * g.a.stride, g.a.stride}, g.b = {p.b.data(), g.b.stride}, g.c = c.data();
    Gemm(g);
    for (int64_t i = 0; i < rows; ++i) {
      EXPECT_EQ(std::memcmp(c.data() + i * g.ldc, whole.data() + (7 + i) * g.ldc, 83 * sizeof(float)), 0) << rows;
    }
  }
  RestrictBFloat16Unit("");
}

// Very few rows read B where it lies, by multiply-adds: to the bits that tiles give them among many rows. B in float
// and in bfloat16, of whole steps of 32 terms and of rests, in several blocks of k; of ordinary magnitudes and of
// products around 2^-128, whose sums are flushed.
TEST(TiledGemmTest, FewRowsHaveTheirBitsAmongManyOnEveryTarget) {
  RestrictBFloat16Unit("tiles");
  for (const auto& [n, k] :
       std::vector<std::pair<int64_t, int64_t>>{{131, 128}, {261, 141}, {150, 1101}, {149, 2048}}) {
    for (const Transpose tb : kBoth) {
      for (const float magnitude : {1.0f, 0x1p-64f}) {
        Problem many(11, n, k, Transpose::kNo, tb, -0.5f, magnitude == 1 ? 1 : 0);
        for (std::vector<float>* values : {&many.a, &many.b}) {
          for (float& x : *values) x *= magnitude;
        }
        const std::vector<float> whole = many.Compute();
        const std::vector<uint16_t> halves = Halves(many.b);
        for (const std::string& target : SupportedSimdTargets()) {
          RestrictSimdTarget(target);
          for (const int64_t rows : {1, 3, 4, 5, 8}) {
            for (const bool rounded : {false, true}) {
              GemmArguments<float> g = many.g;
              const int64_t first = 11 - rows;
              std::vector<float> c(many.c.begin() + first * g.ldc, many.c.end());
              Guarded<uint16_t> b(halves);
              g.m = rows, g.a = {many.a.data() + first * g.a.stride, g.a.stride}, g.c = c.data();
              g.b = {many.b.data(), g.b.stride};
              if (rounded) g.b = {b.data(), g.b.stride};
              Gemm(g);
              EXPECT_EQ(std::memcmp(c.data(), whole.data() + first * g.ldc, c.size() * sizeof(float)), 0)
                  << target << ": " << rows << " rows, n=" << n << " k=" << k << " B " << int(tb) << rounded;
            }
          }
        }
        RestrictSimdTarget("");
      }
    }
  }
  RestrictBFloat16Unit("");
}

TEST(RoundedGemmArgumentsTest, RoundedOperandsAreOfThatPrecision) {
  const std::vector<uint16_t> halves(4);
  std::vector<float> x(4);
  GemmArguments<float> g{.m = 2, .n = 2, .k = 2};
  g.ldc = 2, g.a = {halves.data(), 2}, g.b = {x.data(), 2}, g.c = x.data();
  EXPECT_THROW(Gemm(g), Error);
}

// Double is not rounded.
TEST(RoundedGemmArgumentsTest, DoubleIsLeftAlone) {
  const std::vector<double> a = {1.0 + 0x1p-40}, b = {1.0};
  double c = 0;
  GemmArguments<double> g{.m = 1, .n = 1, .k = 1};
  g.ldc = 1, g.a = {a.data(), 1}, g.b = {b.data(), 1}, g.c = &c, g.precision = Precision::kBFloat16;
  Gemm(g);
  EXPECT_EQ(c, a[0]);
}

}  // namespace rounded_test
}  // namespace crosstalk::kernels
