#include "crosstalk/kernels/reference/rows.h"
#include "crosstalk/kernels/rows.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace norm_test {

using reference::Mean;

CROSSTALK_KERNEL_TEST(NormTest);

struct Sizes {
  int64_t rows, cols;
};

std::vector<Sizes> AllSizes() {
  std::vector<Sizes> sizes;
  for (int64_t n = 1; n <= kMaxLength; ++n) sizes.push_back({3, n});
  sizes.push_back({70, 130});  // several row tiles
  sizes.push_back({2, 4100});  // several blocks of a sum
  sizes.push_back({2100, 3});  // tiles of more rows than the smallest
  return sizes;
}

// All values are of order 1; the statistics are blocked sums, off by at most 40 u of the mean magnitude, and enter
// each result a few times. The largest result bounds what the cancelling terms can be: 200 u of it.
template <typename T>
void CheckNorm(Mean kind) {
  const double share = 200 * kRoundoff<T>;
  for (const Sizes& s : AllSizes()) {
    const int64_t count = s.rows * s.cols;
    const std::vector<T> x = RandomValues<T>(count, "x", 1, 0.5), dy = RandomValues<T>(count, "dy");
    const std::vector<T> scale = RandomValues<T>(s.cols, "scale", 0.3, 1), bias = RandomValues<T>(s.cols, "bias");
    const auto wide_x = ToDouble(x), wide_dy = ToDouble(dy), wide_scale = ToDouble(scale), wide_bias = ToDouble(bias);
    const bool layer = kind == Mean::kComputed;
    for (const bool scaled : {true, false}) {
      std::vector<double> y(count), mean(s.rows), rstd(s.rows), dx(count), dscale(s.cols), dbias(s.cols);
      const double* bias_or_null = layer && scaled ? wide_bias.data() : nullptr;
      reference::Norm(kind, s.rows, s.cols, wide_x.data(), scaled ? wide_scale.data() : nullptr, bias_or_null, 1e-3,
                      y.data(), mean.data(), rstd.data());
      reference::NormGradient(kind, s.rows, s.cols, wide_x.data(), scaled ? wide_scale.data() : nullptr, mean.data(),
                              rstd.data(), wide_dy.data(), dx.data(), dscale.data(), dbias.data());
      Guarded<T> in(x), in_dy(dy), in_scale(scale), in_bias(bias);
      Guarded<T> out(count), out_mean(s.rows), out_rstd(s.rows), out_dx(count), out_dscale(s.cols), out_dbias(s.cols);
      Guarded<T> workspace(NormWorkspace(s.rows, s.cols));
      T* scale_or_null = scaled ? in_scale.data() : nullptr;
      if (layer) {
        LayerNorm(s.rows, s.cols, in.data(), scale_or_null, scaled ? in_bias.data() : nullptr, 1e-3, out.data(),
                  out_mean.data(), out_rstd.data());
        LayerNormGradient(s.rows, s.cols, in.data(), scale_or_null, out_mean.data(), out_rstd.data(), in_dy.data(),
                          out_dx.data(), out_dscale.data(), out_dbias.data(), workspace.data());
        ASSERT_TRUE(CloseToLargest(out_dbias.values(), dbias, share)) << s.rows << " × " << s.cols;
        ASSERT_TRUE(AllClose(out_mean.values(), mean, {share, 0}));
      } else {
        RmsNorm(s.rows, s.cols, in.data(), scale_or_null, 1e-3, out.data(), out_rstd.data());
        RmsNormGradient(s.rows, s.cols, in.data(), scale_or_null, out_rstd.data(), in_dy.data(), out_dx.data(),
                        out_dscale.data(), workspace.data());
      }
      ASSERT_TRUE(CloseToLargest(out.values(), y, share)) << s.rows << " × " << s.cols;
      // Deviations of a few columns may be small beside their mean: rstd magnifies their rounding.
      const double magnified = share * std::max(1.0, *std::max_element(rstd.begin(), rstd.end()));
      ASSERT_TRUE(AllClose(out_rstd.values(), rstd, {0, magnified})) << s.rows << " × " << s.cols;
      ASSERT_TRUE(AllClose(out_dx.values(), dx, {8 * magnified * magnified / share, 0})) << s.rows << " × " << s.cols;
      ASSERT_TRUE(CloseToLargest(out_dscale.values(), dscale, magnified)) << s.rows << " × " << s.cols;
      ASSERT_TRUE(out.GuardsIntact() && out_dx.GuardsIntact() && out_dscale.GuardsIntact() &&
                  out_dbias.GuardsIntact() && workspace.GuardsIntact() && out_rstd.GuardsIntact());
    }
  }
}

TEST_P(NormTest, RmsNormMatchesTheReference) {
  CheckNorm<float>(Mean::kZero);
  CheckNorm<double>(Mean::kZero);
}
TEST_P(NormTest, LayerNormMatchesTheReference) {
  CheckNorm<float>(Mean::kComputed);
  CheckNorm<double>(Mean::kComputed);
}

TEST_P(NormTest, UnwantedGradientsMayBeNull) {
  const std::vector<float> x = RandomValues<float>(40 * 9, "x"), dy = RandomValues<float>(40 * 9, "dy");
  const std::vector<float> scale(9, 2.0f);
  std::vector<float> y(360), mean(40), rstd(40), dx(360), alone(360), dscale(9), dbias(9), dscale_alone(9);
  std::vector<float> workspace(NormWorkspace(40, 9));
  LayerNorm<float>(40, 9, x.data(), scale.data(), nullptr, 1e-6, y.data(), mean.data(), rstd.data());
  LayerNormGradient(40, 9, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                    dbias.data(), workspace.data());
  LayerNormGradient<float>(40, 9, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), alone.data(), nullptr,
                           nullptr, nullptr);
  LayerNormGradient<float>(40, 9, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), nullptr,
                           dscale_alone.data(), nullptr, workspace.data());
  EXPECT_EQ(alone, dx);
  EXPECT_EQ(dscale_alone, dscale);
}

TEST_P(NormTest, TheInputsGradientMayBeAddedToOthers) {
  for (const int64_t cols : {1, 9, 37, 131}) {
    const int64_t rows = 41;
    const std::vector<float> x = RandomValues<float>(rows * cols, "x"), dy = RandomValues<float>(rows * cols, "dy");
    const std::vector<float> before = RandomValues<float>(rows * cols, "before");
    std::vector<float> y(x.size()), mean(rows), rstd(rows), dx(x.size()), dscale(cols),
        workspace(NormWorkspace(rows, cols));
    LayerNorm<float>(rows, cols, x.data(), nullptr, nullptr, 1e-3, y.data(), mean.data(), rstd.data());
    const auto gradient = [&](AddsToInput adds, std::vector<float> sum) {
      LayerNormGradient<float>(rows, cols, x.data(), nullptr, mean.data(), rstd.data(), dy.data(), sum.data(),
                               dscale.data(), nullptr, workspace.data(), adds);
      return sum;
    };
    std::vector<float> expected = gradient(AddsToInput::kNo, before);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
    EXPECT_TRUE(SameBits(gradient(AddsToInput::kYes, before), expected)) << cols;
  }
}

// From rows that ε outweighs to rows whose squares, and at last whose sums, are beyond float: values and gradients as
// in double. At 1e37 rstd is near the smallest normal number.
TEST_P(NormTest, RowsOfAnyMagnitude) {
  const int64_t rows = 3, cols = 37;
  const double share = 400 * kRoundoff<float>;
  for (const Mean kind : {Mean::kZero, Mean::kComputed}) {
    for (const double size : {1e-30, 1e-19, 1e-6, 1e3, 1e15, 1e18, 1e19, 1e20, 1e30, 1e37}) {
      const std::vector<float> x = RandomValues<float>(rows * cols, "x", size, size / 2);
      const std::vector<float> dy = RandomValues<float>(rows * cols, "dy");
      const std::vector<double> wide_x = ToDouble(x), wide_dy = ToDouble(dy);
      std::vector<double> y(rows * cols), mean(rows), rstd(rows), dx(rows * cols), dscale(cols), dbias(cols);
      reference::Norm<double>(kind, rows, cols, wide_x.data(), nullptr, nullptr, 1e-6, y.data(), mean.data(),
                              rstd.data());
      reference::NormGradient<double>(kind, rows, cols, wide_x.data(), nullptr, mean.data(), rstd.data(),
                                      wide_dy.data(), dx.data(), dscale.data(), dbias.data());
      std::vector<float> out(rows * cols), out_mean(rows), out_rstd(rows), out_dx(rows * cols), out_dscale(cols);
      std::vector<float> workspace(NormWorkspace(rows, cols));
      if (kind == Mean::kComputed) {
        LayerNorm<float>(rows, cols, x.data(), nullptr, nullptr, 1e-6, out.data(), out_mean.data(), out_rstd.data());
        LayerNormGradient<float>(rows, cols, x.data(), nullptr, out_mean.data(), out_rstd.data(), dy.data(),
                                 out_dx.data(), out_dscale.data(), nullptr, workspace.data());
        EXPECT_TRUE(CloseToLargest(out_mean, mean, share)) << size;
      } else {
        RmsNorm<float>(rows, cols, x.data(), nullptr, 1e-6, out.data(), out_rstd.data());
        RmsNormGradient<float>(rows, cols, x.data(), nullptr, out_rstd.data(), dy.data(), out_dx.data(),
                               out_dscale.data(), workspace.data());
      }
      EXPECT_TRUE(CloseToLargest(out, y, share)) << size;
      EXPECT_TRUE(CloseToLargest(out_rstd, rstd, share)) << size;
      EXPECT_TRUE(CloseToLargest(out_dx, dx, share)) << size;
      EXPECT_TRUE(CloseToLargest(out_dscale, dscale, share)) << size;
    }
  }
}

TEST_P(NormTest, TheInputsGradientMayTakeTheOutputsPlace) {
  for (const int64_t cols : {1, 9, 37}) {
    const std::vector<float> x = RandomValues<float>(40 * cols, "x"), dy = RandomValues<float>(40 * cols, "dy");
    std::vector<float> y(x.size()), mean(40), rstd(40), dx(x.size()), in_place = dy, dscale(cols), dbias(cols);
    std::vector<float> dscale_in_place(cols), dbias_in_place(cols), workspace(NormWorkspace(40, cols));
    LayerNorm<float>(40, cols, x.data(), nullptr, nullptr, 1e-3, y.data(), mean.data(), rstd.data());
    LayerNormGradient<float>(40, cols, x.data(), nullptr, mean.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                             dbias.data(), workspace.data());
    LayerNormGradient<float>(40, cols, x.data(), nullptr, mean.data(), rstd.data(), in_place.data(), in_place.data(),
                             dscale_in_place.data(), dbias_in_place.data(), workspace.data());
    EXPECT_EQ(in_place, dx) << cols;
    EXPECT_EQ(dscale_in_place, dscale) << cols;
    EXPECT_EQ(dbias_in_place, dbias) << cols;
  }
}

TEST_P(NormTest, SameBitsOnAnyThreads) {
  const int64_t rows = 300, cols = 101;
  const std::vector<float> x = RandomValues<float>(rows * cols, "x"), dy = RandomValues<float>(rows * cols, "dy");
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<float> y(rows * cols), mean(rows), rstd(rows), dx(rows * cols), dscale(cols), dbias(cols);
    std::vector<float> workspace(NormWorkspace(rows, cols));
    LayerNorm<float>(rows, cols, x.data(), nullptr, nullptr, 1e-6, y.data(), mean.data(), rstd.data());
    LayerNormGradient<float>(rows, cols, x.data(), nullptr, mean.data(), rstd.data(), dy.data(), dx.data(),
                             dscale.data(), dbias.data(), workspace.data());
    for (const auto* part : {&rstd, &dx, &dscale, &dbias}) y.insert(y.end(), part->begin(), part->end());
    return y;
  });
}

}  // namespace norm_test
}  // namespace crosstalk::kernels
