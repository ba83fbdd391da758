// Products of operands rounded to bfloat16: what gemm_test.cc does not say of all precisions, and matrix tiles.
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/gemm/gemm_problem.h"

namespace crosstalk::kernels {
namespace rounded_test {

CROSSTALK_KERNEL_TEST(RoundedGemmTest);

using Problem = GemmProblem<float>;

Problem Plain(const Product& s, Transpose ta = Transpose::kNo, Transpose tb = Transpose::kNo) {
  return Problem(s, ta, tb, 1, 0, Precision::kBFloat16);
}
template <typename F>
void ForRoundedProblems(const std::vector<Product>& shapes, const F& f) {
  ForProblems(shapes, [&](const auto& p) {
    if constexpr (std::is_same_v<decltype(p.a), std::vector<float>>) {
      if (p.g.precision == Precision::kBFloat16) f(p);
    }
  });
}

TEST_P(RoundedGemmTest, OperandsThatAreRoundedAlreadyGiveTheSameBits) {
  ForRoundedProblems({{1, 1, 1},
                      {3, 5, 2},
                      {7, 1, 5},
                      {17, 19, 23},
                      {31, 33, 65},
                      {61, 67, 39},
                      {49, 35, 521},
                      {223, 70, 1037},
                      {3, 4133, 53},
                      {1, 389, 131},
                      {3, 267, 901},
                      {2, 150, 262},
                      {4, 131, 770}},
                     [](const Problem& p) {
                       const std::vector<float> expected = p.Compute();
                       const std::vector<uint16_t> a = Halves(p.a), b = Halves(p.b);
                       for (const int which : {1, 2, 3}) {
                         GemmArguments<float> g = p.g;
                         std::vector<float> c = p.c;
                         g.a = {p.a.data(), g.a.stride}, g.b = {p.b.data(), g.b.stride}, g.c = c.data();
                         if (which & 1) g.a = {a.data(), g.a.stride};
                         if (which & 2) g.b = {b.data(), g.b.stride};
                         Gemm(g);
                         ASSERT_TRUE(SameBits(c, expected)) << p.Describe() << ", rounded: " << which;
                       }
                     });
}

// sum ← fma(a[k], b[k], fma(a[k + 1], b[k + 1], sum)): what bfloat16.h promises, within one block of k.
TEST(RoundedGemmOrderTest, TheSecondOfAPairComesFirst) {
  const Problem p = Plain({5, 9, 71});
  const std::vector<float> a = Rounded(p.a), b = Rounded(p.b);
  OnEveryTarget(p.g.precision, [&] {
    const std::vector<float> c = p.Compute();
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 9; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < 72; ++k) {
          const int64_t at = k ^ 1;
          if (at < 71) sum = std::fma(a[i * p.g.a.stride + at], b[at * p.g.b.stride + j], sum);
        }
        ASSERT_EQ(c[i * p.g.ldc + j], sum) << i << ", " << j;
      }
    }
  });
}

TEST_P(RoundedGemmTest, InfinitiesAndNaNsReachTheirSumsAlone) {
  Problem p = Plain({7, 19, 33});
  p.a[2 * p.g.a.stride + 5] = std::numeric_limits<float>::infinity();
  p.b[8 * p.g.b.stride + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> c = p.Compute();
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t j = 0; j < 19; ++j) {
      const float value = c[i * p.g.ldc + j];
      EXPECT_TRUE(j == 3 ? std::isnan(value) : std::isinf(value) == (i == 2)) << i << ", " << j << ": " << value;
    }
  }
}

// As the instruction has it, whatever multiplies; and the thread's arithmetic is as before afterwards.
TEST_P(RoundedGemmTest, SumsBelowTheNormalNumbersAreZero) {
  Problem p = Plain({61, 5, 7});
  p.a.assign(p.a.size(), 0x1p-70f), p.b.assign(p.b.size(), 0x1p-70f);
  for (const int64_t m : {3, 61}) {
    const std::vector<float> c = p.Compute(0, m);
    for (int64_t i = 0; i < m * p.g.ldc; ++i) {
      EXPECT_TRUE(c[i] == 0 || i % p.g.ldc >= 5) << i;
    }
  }
  volatile float small = 0x1p-100f;
  EXPECT_GT(small * 0x1p-30f, 0.0f);
}

class TilesGemmTest : public ::testing::Test {
 protected:
  TilesGemmTest() { RestrictBFloat16Unit("tiles"); }
  ~TilesGemmTest() override { RestrictBFloat16Unit(""); }
};

// On tiles one target's bits are all targets'.
TEST_F(TilesGemmTest, IsTheProductOfTheRoundedOperandsOnEveryTarget) {
  ForRoundedProblems({{1, 1, 1}, {17, 19, 23}, {33, 35, 65}, {61, 67, 39}, {49, 35, 769}, {100, 70, 1037}},
                     [](const Problem& p) {
                       const std::vector<float> first = p.Compute();
                       ASSERT_TRUE(AllClose(first, p.Expected(), p.Bound())) << p.Describe();
                       for (const std::string& target : SupportedSimdTargets()) {
                         RestrictSimdTarget(target);
                         ASSERT_TRUE(SameBits(p.Compute(), first)) << target << ", " << p.Describe();
                       }
                       RestrictSimdTarget("");
                     });
}

TEST_F(TilesGemmTest, SameBitsOnAnyThreadsAndForAnyRows) {
  const Problem p = Plain({70, 83, 101}, Transpose::kNo, Transpose::kYes);
  const std::vector<float> whole = p.Compute();
  ExpectSameBitsOnAnyThreads([&] { return p.Compute(); });
  for (const int64_t rows : {1, 5, 33}) {
    const std::vector<float> some(whole.begin() + 7 * p.g.ldc, whole.begin() + (7 + rows) * p.g.ldc);
    EXPECT_TRUE(SameBits(p.Compute(7, rows), some)) << rows;
  }
}

// Very few rows read B where it lies, by multiply-adds: to the bits that tiles give them among many rows. B in float
// and in bfloat16, of whole steps of 32 terms and of rests, in several blocks of k; of ordinary magnitudes and of
// products around 2^-128, whose sums are flushed.
TEST_F(TilesGemmTest, FewRowsHaveTheirBitsAmongManyOnEveryTarget) {
  for (const Product& s : {Product{11, 131, 128}, {11, 261, 141}, {11, 150, 1101}, {11, 149, 2048}}) {
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      for (const float magnitude : {1.0f, 0x1p-64f}) {
        Problem many(s, Transpose::kNo, tb, -0.5f, magnitude == 1 ? 1 : 0, Precision::kBFloat16);
        for (std::vector<float>* values : {&many.a, &many.b}) {
          for (float& x : *values) x *= magnitude;
        }
        const std::vector<float> whole = many.Compute();
        const std::vector<uint16_t> halves = Halves(many.b);
        for (const std::string& target : SupportedSimdTargets()) {
          RestrictSimdTarget(target);
          for (const int64_t rows : {1, 3, 4, 5, 8}) {
            const int64_t first = 11 - rows;
            const std::vector<float> expected(whole.begin() + first * many.g.ldc, whole.end());
            EXPECT_TRUE(SameBits(many.Compute(first, rows), expected)) << target << ": " << rows << many.Describe();
            GemmArguments<float> g = many.g;
            std::vector<float> c(many.c.begin() + first * g.ldc, many.c.end());
            Guarded<uint16_t> b(halves);
            g.m = rows, g.a = {many.a.data() + first * g.a.stride, g.a.stride}, g.c = c.data();
            g.b = {b.data(), g.b.stride};
            Gemm(g);
            EXPECT_TRUE(SameBits(c, expected)) << "B rounded, " << target << ": " << rows << many.Describe();
          }
        }
        RestrictSimdTarget("");
      }
    }
  }
}

TEST(RoundedGemmArgumentsTest, DoubleIsNotRounded) {
  const std::vector<double> a = {1.0 + 0x1p-40}, b = {1.0};
  double c = 0;
  GemmArguments<double> g{.m = 1, .n = 1, .k = 1};
  g.ldc = 1, g.a = {a.data(), 1}, g.b = {b.data(), 1}, g.c = &c, g.precision = Precision::kBFloat16;
  Gemm(g);
  EXPECT_EQ(c, a[0]);
}

}  // namespace rounded_test
}  // namespace crosstalk::kernels
