#include "crosstalk/kernels/reference/rows.h"
#include "crosstalk/kernels/rows.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace norm_test {

using reference::Mean;

CROSSTALK_KERNEL_TEST(NormTest);

// A norm and its gradient; scale and bias where they are not empty, and mean and the bias's gradient of LayerNorm
// alone.
template <typename T>
struct Problem {
  Problem(Mean kind_, int64_t rows_, int64_t cols_, double size = 1, double shift = 0.5)
      : kind(kind_),
        rows(rows_),
        cols(cols_),
        x(RandomValues<T>(rows * cols, "x", size, shift)),
        dy(RandomValues<T>(rows * cols, "dy")) {}
  Mean kind;
  int64_t rows, cols;
  std::vector<T> x, dy, scale, bias;
  double epsilon = 1e-3;
};
template <typename T>
struct Results {
  std::vector<T> y, mean, rstd, dx, dscale, dbias;
};

template <typename T>
T* Pointer(std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

// The gradient of x takes dy's place, or is added to what is in dx.
template <typename T>
Results<T> Compute(const Problem<T>& p, bool in_place = false, AddsToInput adds = AddsToInput::kNo,
                   const std::vector<T>& before = {}) {
  const int64_t count = p.rows * p.cols;
  Guarded<T> x(p.x), dy(p.dy), scale(p.scale), bias(p.bias), y(count), mean(p.rows), rstd(p.rows);
  Guarded<T> dx = adds == AddsToInput::kYes ? Guarded<T>(before) : Guarded<T>(count);
  Guarded<T> dscale(p.cols), dbias(p.cols), workspace(NormWorkspace(p.rows, p.cols));
  const T* scale_or_null = p.scale.empty() ? nullptr : scale.data();
  Guarded<T>& to = in_place ? dy : dx;
  if (p.kind == Mean::kComputed) {
    LayerNorm<T>(p.rows, p.cols, x.data(), scale_or_null, p.bias.empty() ? nullptr : bias.data(), p.epsilon, y.data(),
                 mean.data(), rstd.data());
    LayerNormGradient<T>(p.rows, p.cols, x.data(), scale_or_null, mean.data(), rstd.data(), dy.data(), to.data(),
                         dscale.data(), dbias.data(), workspace.data(), adds);
  } else {
    RmsNorm<T>(p.rows, p.cols, x.data(), scale_or_null, p.epsilon, y.data(), rstd.data());
    RmsNormGradient<T>(p.rows, p.cols, x.data(), scale_or_null, rstd.data(), dy.data(), to.data(), dscale.data(),
                       workspace.data(), adds);
  }
  for (const Guarded<T>* one : {&dy, &y, &mean, &rstd, &dx, &dscale, &dbias, &workspace}) {
    EXPECT_TRUE(one->GuardsIntact());
  }
  const bool layer = p.kind == Mean::kComputed;
  return {y.values(),      layer ? mean.values() : std::vector<T>(), rstd.values(), to.values(),
          dscale.values(), layer ? dbias.values() : std::vector<T>()};
}

template <typename T>
Results<double> Expected(const Problem<T>& p) {
  const int64_t count = p.rows * p.cols;
  std::vector<double> x = ToDouble(p.x), dy = ToDouble(p.dy), scale = ToDouble(p.scale), bias = ToDouble(p.bias);
  std::vector<double> y(count), mean(p.rows), rstd(p.rows), dx(count), dscale(p.cols), dbias(p.cols);
  reference::Norm<double>(p.kind, p.rows, p.cols, x.data(), Pointer(scale), Pointer(bias), p.epsilon, y.data(),
                          mean.data(), rstd.data());
  reference::NormGradient<double>(p.kind, p.rows, p.cols, x.data(), Pointer(scale), mean.data(), rstd.data(), dy.data(),
                                  dx.data(), dscale.data(), dbias.data());
  if (p.kind == Mean::kZero) mean.clear(), dbias.clear();
  return {y, mean, rstd, dx, dscale, dbias};
}

// All values are of order 1; the statistics are blocked sums, off by at most 40 u of the mean magnitude, and enter
// each result a few times. The largest result bounds what the cancelling terms can be: 200 u of it.
template <typename T>
void ExpectNearReference(const Problem<T>& p) {
  const double share = 200 * kRoundoff<T>;
  const Results<double> expected = Expected(p);
  const Results<T> r = Compute(p);
  SCOPED_TRACE(std::to_string(p.rows) + " × " + std::to_string(p.cols));
  ASSERT_TRUE(CloseToLargest(r.y, expected.y, share));
  ASSERT_TRUE(AllClose(r.mean, expected.mean, {share, 0}));
  // Deviations of a few columns may be small beside their mean: rstd magnifies their rounding.
  const double magnified = share * std::max(1.0, *std::max_element(expected.rstd.begin(), expected.rstd.end()));
  ASSERT_TRUE(AllClose(r.rstd, expected.rstd, {0, magnified}));
  ASSERT_TRUE(AllClose(r.dx, expected.dx, {8 * magnified * magnified / share, 0}));
  ASSERT_TRUE(CloseToLargest(r.dscale, expected.dscale, magnified));
  ASSERT_TRUE(CloseToLargest(r.dbias, expected.dbias, share));
}

// Several row tiles, several blocks of a sum, tiles of more rows than the smallest.
TEST_P(NormTest, MatchesTheReference) {
  std::vector<std::pair<int64_t, int64_t>> sizes = {{70, 130}, {2, 4100}, {2100, 3}};
  for (int64_t n = 1; n <= kMaxLength; ++n) sizes.push_back({3, n});
  for (const Mean kind : {Mean::kZero, Mean::kComputed}) {
    for (const auto& [rows, cols] : sizes) {
      const auto check = [&, rows = rows, cols = cols](auto zero) {
        using T = decltype(zero);
        Problem<T> p(kind, rows, cols);
        ExpectNearReference(p);
        p.scale = RandomValues<T>(cols, "scale", 0.3, 1);
        if (kind == Mean::kComputed) p.bias = RandomValues<T>(cols, "bias");
        ExpectNearReference(p);
      };
      check(0.0f);
      check(0.0);
    }
  }
}

// From rows that ε outweighs to rows whose squares, and at last whose sums, are beyond float: values and gradients as
// in double. At 1e37 rstd is near the smallest normal number.
TEST_P(NormTest, RowsOfAnyMagnitude) {
  const double share = 400 * kRoundoff<float>;
  for (const Mean kind : {Mean::kZero, Mean::kComputed}) {
    for (const double size : {1e-30, 1e-19, 1e-6, 1e3, 1e15, 1e18, 1e19, 1e20, 1e30, 1e37}) {
      Problem<float> p(kind, 3, 37, size, size / 2);
      p.epsilon = 1e-6;
      const Results<double> expected = Expected(p);
      const Results<float> r = Compute(p);
      EXPECT_TRUE(CloseToLargest(r.y, expected.y, share)) << size;
      EXPECT_TRUE(CloseToLargest(r.mean, expected.mean, share)) << size;
      EXPECT_TRUE(CloseToLargest(r.rstd, expected.rstd, share)) << size;
      EXPECT_TRUE(CloseToLargest(r.dx, expected.dx, share)) << size;
      EXPECT_TRUE(CloseToLargest(r.dscale, expected.dscale, share)) << size;
    }
  }
}

TEST_P(NormTest, UnwantedGradientsMayBeNull) {
  Problem<float> p(Mean::kComputed, 40, 9);
  p.scale.assign(9, 2.0f);
  const Results<float> r = Compute(p);
  std::vector<float> dx(360), dscale(9), workspace(NormWorkspace(40, 9));
  LayerNormGradient<float>(40, 9, p.x.data(), p.scale.data(), r.mean.data(), r.rstd.data(), p.dy.data(), dx.data(),
                           nullptr, nullptr, nullptr);
  LayerNormGradient<float>(40, 9, p.x.data(), p.scale.data(), r.mean.data(), r.rstd.data(), p.dy.data(), nullptr,
                           dscale.data(), nullptr, workspace.data());
  EXPECT_EQ(dx, r.dx);
  EXPECT_EQ(dscale, r.dscale);
}

TEST_P(NormTest, TheInputsGradientMayBeAddedToOthersOrTakeTheOutputsPlace) {
  for (const Mean kind : {Mean::kZero, Mean::kComputed}) {
    for (const int64_t cols : {1, 9, 37, 131}) {
      const Problem<float> p(kind, 41, cols);
      const std::vector<float> before = RandomValues<float>(41 * cols, "before");
      const Results<float> alone = Compute(p), added = Compute(p, false, AddsToInput::kYes, before),
                           in_place = Compute(p, true);
      std::vector<float> sum = alone.dx;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
      EXPECT_TRUE(SameBits(added.dx, sum)) << cols;
      EXPECT_EQ(in_place.dx, alone.dx) << cols;
      EXPECT_EQ(in_place.dscale, alone.dscale) << cols;
      EXPECT_EQ(in_place.dbias, alone.dbias) << cols;
    }
  }
}

}  // namespace norm_test
}  // namespace crosstalk::kernels
