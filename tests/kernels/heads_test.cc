#include "crosstalk/kernels/heads.h"

#include <cmath>
#include <utility>

#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace heads_test {

CROSSTALK_KERNEL_TEST(HeadConvolutionTest);

std::vector<HeadConvolutionShape> AllShapes() {
  return {{.b = 1, .h = 1, .n = 1, .m = 1, .c_q = 1, .c_k = 1, .left = 0},
          {.b = 2, .h = 3, .n = 5, .m = 7, .c_q = 3, .c_k = 5, .left = 2},
          {.b = 1, .h = 2, .n = 3, .m = 5, .c_q = 6, .c_k = 11, .left = 5},
          {.b = 2, .h = 3, .n = 37, .m = 131, .c_q = 6, .c_k = 11, .left = 10},
          {.b = 3, .h = 1, .n = 67, .m = 65, .c_q = 2, .c_k = 7, .left = 0},
          {.b = 2, .h = 3, .n = 71, .m = 75, .c_q = 6, .c_k = 11, .left = 5, .causal = true},
          {.b = 1, .h = 2, .n = 133, .m = 133, .c_q = 3, .c_k = 4, .left = 1, .causal = true}};
}

// Σ over a few dozen terms, or over all of a plane for the filter's gradient.
template <typename T>
void CheckHeadConvolution() {
  for (const HeadConvolutionShape& s : AllShapes()) {
    const int64_t count = s.b * s.h * s.n * s.m, taps = s.c_q * s.c_k * s.h;
    const std::vector<T> x = RandomValues<T>(count, "x"), filter = RandomValues<T>(taps, "filter"),
                         dy = RandomValues<T>(count, "dy");
    std::vector<double> y(count), dx(count), dfilter(taps);
    const auto index = [&](int64_t b, int64_t h, int64_t n, int64_t m) { return ((b * s.h + h) * s.n + n) * s.m + m; };
    for (int64_t b = 0; b < s.b; ++b)
      for (int64_t h = 0; h < s.h; ++h)
        for (int64_t n = 0; n < s.n; ++n)
          for (int64_t m = 0; m < s.m; ++m)
            for (int64_t a = 0; a < s.c_q; ++a)
              for (int64_t k = 0; k < s.c_k; ++k) {
                const int64_t row = n - (s.c_q - 1) + a, key = m - s.left + k, tap = (a * s.c_k + k) * s.h + h;
                if (row < 0 || key < 0 || key >= s.m) continue;
                if (s.causal && (m > n + s.m - s.n || key > row + s.m - s.n)) continue;
                y[index(b, h, n, m)] += static_cast<double>(filter[tap]) * x[index(b, h, row, key)];
                dx[index(b, h, row, key)] += static_cast<double>(filter[tap]) * dy[index(b, h, n, m)];
                dfilter[tap] += static_cast<double>(x[index(b, h, row, key)]) * dy[index(b, h, n, m)];
              }
    Guarded<T> out(count), x_gradient(count), filter_gradient(taps);
    HeadConvolution(s, x.data(), filter.data(), out.data());
    HeadConvolutionGradient(s, x.data(), filter.data(), dy.data(), x_gradient.data(), filter_gradient.data());
    const double absolute = 400 * kRoundoff<T>;
    EXPECT_TRUE(AllClose(out.values(), y, {absolute, 0})) << s.n << " x " << s.m;
    EXPECT_TRUE(AllClose(x_gradient.values(), dx, {absolute, 0})) << s.n << " x " << s.m;
    EXPECT_TRUE(AllClose(filter_gradient.values(), dfilter, {kRoundoff<T> * static_cast<double>(count), 0}))
        << s.n << " x " << s.m;
    EXPECT_TRUE(out.GuardsIntact() && x_gradient.GuardsIntact() && filter_gradient.GuardsIntact());
    // Any number of threads, and one gradient alone.
    const int threads = NumThreads();
    SetNumThreads(3);
    Guarded<T> again(taps);
    HeadConvolutionGradient<T>(s, x.data(), filter.data(), dy.data(), nullptr, again.data());
    SetNumThreads(threads);
    EXPECT_TRUE(SameBits(again.values(), filter_gradient.values()));
  }
}

CROSSTALK_FLOATS_TEST(HeadConvolutionTest, EqualsLoops, CheckHeadConvolution)

// Llama 3.1's settings: the frequencies of pairs that keep theirs, that are between, and that have an eighth, as a
// program of four lines in another language has them from the definition.
TEST(RotaryTableTest, ScalesFrequenciesAsLlama3) {
  constexpr int64_t kPairs = 64, kPosition = 1000;
  constexpr RotaryFrequencies kLlama3 = {.base = 500'000, .factor = 8, .original_context = 8192, .low = 1, .high = 4};
  double cos[kPairs], sin[kPairs];
  RotaryTable(1, 2 * kPairs, kPosition, kLlama3, cos, sin);
  const std::pair<int, double> frequencies[] = {{0, 1},
                                                {20, 0.016560440080994446},
                                                {32, 0.0005248461609929547},
                                                {34, 0.0001785078127679964},
                                                {36, 7.78465527393245e-05},
                                                {63, 3.068925988914511e-07}};
  for (const auto& [pair, frequency] : frequencies) {
    EXPECT_NEAR(cos[pair], std::cos(kPosition * frequency), 1e-13) << pair;
    EXPECT_NEAR(sin[pair], std::sin(kPosition * frequency), 1e-13) << pair;
  }
}

}  // namespace heads_test
}  // namespace crosstalk::kernels
