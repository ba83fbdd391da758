#include "crosstalk/kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/kernels/reference/optimizer_step.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace optimizer_step_test {

CROSSTALK_KERNEL_TEST(OptimizerStepTest);

template <typename T>
std::vector<T> Moments(int64_t count, const char* name) {
  std::vector<T> v = RandomValues<T>(count, name, 0.1);
  for (T& x : v) x = x * x + T(1e-6);
  return v;
}

std::vector<AdafactorOptions> AdafactorCases() {
  AdafactorOptions options;
  options.learning_rate = 0.01;
  options.decay = 0.7;
  std::vector<AdafactorOptions> cases = {options};
  options.clip_threshold = 0;  // the update is larger than 1 here: clipping matters
  options.gradient_scale = 0.25;
  cases.push_back(options);
  options.step_scale = AdafactorOptions::StepScale::kAbsolute;
  options.clip_threshold = 0.5;
  options.decay = 0;  // the first step
  cases.push_back(options);
  options.step_scale = AdafactorOptions::StepScale::kParameterRms;
  options.epsilon2 = 5;  // the floor of the parameter's size
  cases.push_back(options);
  return cases;
}

// Every operation is relative (products, quotients, roots, sums of positive terms), except the last subtraction:
// moments and u are within 100 u relative, the parameter within u |p| + 100 u · |step · u|, |step · u| < 1. The
// reference adds count terms in a row, in double: some √count roundings of its own.
template <typename T>
void CheckUnfactored() {
  const double u = kRoundoff<T>;
  std::vector<int64_t> lengths = {20000};
  for (int64_t n = 1; n <= kMaxLength; ++n) lengths.push_back(n);
  for (const AdafactorOptions& options : AdafactorCases()) {
    for (const int64_t n : lengths) {
      std::vector<T> g = RandomValues<T>(n, "g"), v = Moments<T>(n, "v"), p = RandomValues<T>(n, "p");
      g[0] = 0;  // no gradient: no step, no NaN
      std::vector<double> wide_g = ToDouble(g), wide_v = ToDouble(v), wide_p = ToDouble(p);
      reference::AdafactorStep(n, options, wide_g.data(), wide_v.data(), wide_p.data());
      Guarded<T> in_g(g), in_v(v), in_p(p);
      AdafactorStep(n, options, in_g.data(), in_v.data(), in_p.data());
      ASSERT_TRUE(AllClose(in_v.values(), wide_v, {0, 100 * u})) << n;
      const double reference_error = 4 * std::sqrt(static_cast<double>(n)) * kRoundoff<double>;
      ASSERT_TRUE(AllClose(in_p.values(), wide_p, {100 * u + reference_error, 2 * u})) << n;
      ASSERT_TRUE(in_v.GuardsIntact() && in_p.GuardsIntact());
    }
  }
}
TEST_P(OptimizerStepTest, AdafactorMatchesTheReference) {
  CheckUnfactored<float>();
  CheckUnfactored<double>();
}

template <typename T>
void CheckFactored() {
  const double u = kRoundoff<T>;
  struct Sizes {
    int64_t rows, cols;
  };
  std::vector<Sizes> sizes = {{1, 1}, {150, 140}, {2, 5000}};
  for (int64_t n = 1; n <= kMaxLength; ++n) sizes.push_back({5, n});
  for (const AdafactorOptions& options : AdafactorCases()) {
    for (const Sizes& s : sizes) {
      const int64_t count = s.rows * s.cols;
      std::vector<T> g = RandomValues<T>(count, "g"), p = RandomValues<T>(count, "p");
      std::vector<T> row = Moments<T>(s.rows, "row"), col = Moments<T>(s.cols, "col");
      std::vector<double> wide_g = ToDouble(g), wide_row = ToDouble(row), wide_col = ToDouble(col),
                          wide_p = ToDouble(p);
      reference::AdafactorFactoredStep(s.rows, s.cols, options, wide_g.data(), wide_row.data(), wide_col.data(),
                                       wide_p.data());
      Guarded<T> in_g(g), in_row(row), in_col(col), in_p(p), workspace(AdafactorWorkspace(s.rows, s.cols));
      AdafactorFactoredStep(s.rows, s.cols, options, in_g.data(), in_row.data(), in_col.data(), in_p.data(),
                            workspace.data());
      ASSERT_TRUE(AllClose(in_row.values(), wide_row, {0, 100 * u})) << s.rows << " × " << s.cols;
      ASSERT_TRUE(AllClose(in_col.values(), wide_col, {0, 100 * u})) << s.rows << " × " << s.cols;
      const double reference_error = 4 * std::sqrt(static_cast<double>(count)) * kRoundoff<double>;
      ASSERT_TRUE(AllClose(in_p.values(), wide_p, {200 * u + reference_error, 2 * u})) << s.rows << " × " << s.cols;
      ASSERT_TRUE(in_row.GuardsIntact() && in_col.GuardsIntact() && in_p.GuardsIntact() && workspace.GuardsIntact());
    }
  }
}
TEST_P(OptimizerStepTest, FactoredAdafactorMatchesTheReference) {
  CheckFactored<float>();
  CheckFactored<double>();
}

// So large that tiles must grow, as only so many partial sums are kept. With g = p = 1 and v = 0: u = 1, RMS(p) = 1.
TEST_P(OptimizerStepTest, AdafactorOfAsManyElementsAsThereAre) {
  AdafactorOptions options;
  options.learning_rate = 0.25;
  const auto expect = [](const std::vector<float>& p) {
    for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], 0.75, 1e-5) << i;
  };
  constexpr int64_t kCount = 256 * 16384 + 1;
  static const std::vector<float> ones(kCount, 1.0f);
  std::vector<float> p = ones, v(kCount);
  AdafactorStep(kCount, options, ones.data(), v.data(), p.data());
  expect(p);
  constexpr int64_t kRows = 193, kCols = 16411;  // one row would fill a tile
  p.assign(kRows * kCols, 1.0f);
  std::vector<float> row(kRows), col(kCols);
  Guarded<float> workspace(AdafactorWorkspace(kRows, kCols));
  AdafactorFactoredStep(kRows, kCols, options, ones.data(), row.data(), col.data(), p.data(), workspace.data());
  expect(p);
  EXPECT_TRUE(workspace.GuardsIntact());
}

TEST_P(OptimizerStepTest, AdafactorOfAZeroGradientKeepsTheParameter) {
  const std::vector<float> g(12 * 20), p = RandomValues<float>(240, "p");
  std::vector<float> row(12), col(20), v(240), unfactored = p, factored = p;
  std::vector<float> workspace(AdafactorWorkspace(12, 20));
  AdafactorOptions options;
  options.learning_rate = 1;
  AdafactorStep(240, options, g.data(), v.data(), unfactored.data());
  AdafactorFactoredStep(12, 20, options, g.data(), row.data(), col.data(), factored.data(), workspace.data());
  EXPECT_EQ(unfactored, p);
  EXPECT_EQ(factored, p);
}

template <typename T>
using Step = void (*)(int64_t, const AdamWOptions&, const T*, T*, T*, T*);

template <typename T>
void CheckAdam(Step<T> step, Step<double> plain) {
  const double u = kRoundoff<T>;
  AdamWOptions options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.01;
  options.step = 3;
  for (const auto correction : {AdamWOptions::BiasCorrection::kNo, AdamWOptions::BiasCorrection::kYes}) {
    options.bias_correction = correction;
    options.gradient_scale = correction == AdamWOptions::BiasCorrection::kNo ? 1 : 0.5;
    std::vector<int64_t> lengths = {40000};  // several tiles
    options.weight_decay = correction == AdamWOptions::BiasCorrection::kNo ? 0.01 : 0.2;
    for (int64_t n = 0; n <= kMaxLength; ++n) lengths.push_back(n);
    for (const int64_t n : lengths) {
      std::vector<T> g = RandomValues<T>(n, "g"), m = RandomValues<T>(n, "m", 0.1), v = Moments<T>(n, "v");
      std::vector<T> p = RandomValues<T>(n, "p");
      std::vector<double> wide_g = ToDouble(g), wide_m = ToDouble(m), wide_v = ToDouble(v), wide_p = ToDouble(p);
      plain(n, options, wide_g.data(), wide_m.data(), wide_v.data(), wide_p.data());
      Guarded<T> in_g(g), in_m(m), in_v(v), in_p(p);
      step(n, options, in_g.data(), in_m.data(), in_v.data(), in_p.data());
      // m may cancel: its error is absolute, and m / √v ≤ 10³ here magnifies it in the step of 0.1.
      ASSERT_TRUE(AllClose(in_m.values(), wide_m, {8 * u, 0})) << n;
      ASSERT_TRUE(AllClose(in_v.values(), wide_v, {0, 8 * u})) << n;
      ASSERT_TRUE(AllClose(in_p.values(), wide_p, {1000 * u, 4 * u})) << n;
      ASSERT_TRUE(in_m.GuardsIntact() && in_v.GuardsIntact() && in_p.GuardsIntact());
    }
  }
}
TEST_P(OptimizerStepTest, AdamWMatchesTheReference) {
  CheckAdam<float>(AdamWStep<float>, reference::AdamWStep<double>);
  CheckAdam<double>(AdamWStep<double>, reference::AdamWStep<double>);
}
// The ratio of two norms multiplies all of an update, which is of the parameter's size: below 1000 u with its rounding.
TEST_P(OptimizerStepTest, LambMatchesTheReference) {
  CheckAdam<float>(LambStep<float>, reference::LambStep<double>);
  CheckAdam<double>(LambStep<double>, reference::LambStep<double>);
}

TEST_P(OptimizerStepTest, LambsRatioIsOneWhereANormIsZero) {
  AdamWOptions options;
  options.learning_rate = 0.25;
  options.epsilon = 1e-12;
  options.weight_decay = 0.5;
  // A parameter of zeros: u = ±1 is the step.
  std::vector<float> g = {3, -5}, m(2), v(2), p(2);
  LambStep(2, options, g.data(), m.data(), v.data(), p.data());
  EXPECT_NEAR(p[0], -0.25, 1e-6);
  EXPECT_NEAR(p[1], 0.25, 1e-6);
  // An update of zeros: no gradient yet, and nothing that decays.
  options.weight_decay = 0;
  g = m = v = {0, 0};
  p = {2, 1};
  LambStep(2, options, g.data(), m.data(), v.data(), p.data());
  EXPECT_EQ(p, (std::vector<float>{2, 1}));
}

// Any update is as long as the learning rate times the parameter; tiles must grow, as only so many sums are kept.
TEST_P(OptimizerStepTest, LambOfAsManyElementsAsThereAre) {
  constexpr int64_t kCount = 256 * 16384 + 1;
  AdamWOptions options;
  options.weight_decay = 0;
  options.learning_rate = 0.25;
  static const std::vector<float> gradient(kCount, 7.0f);
  std::vector<float> p(kCount, 3.0f), m(kCount), v(kCount);
  LambStep(kCount, options, gradient.data(), m.data(), v.data(), p.data());
  for (size_t i = 0; i < p.size(); ++i) ASSERT_NEAR(p[i], 3 - 0.25 * 3, 1e-5) << i;
}

// From zero moments, the first updates are ratios of small numbers: (1 - beta1) g / √((1 - beta2) g²), each corrected.
// Every factor is rounded once, so an update is within 8 u of that in double (1 - beta2 formed in float is 200 u off).
TEST_P(OptimizerStepTest, EarlyAdamWUpdatesAreThoseOfDouble) {
  AdamWOptions options;
  options.weight_decay = 0;
  options.learning_rate = 1;
  const int64_t n = 33;
  const std::vector<float> g = RandomValues<float>(n, "g", 1, 5);  // of one sign, so that m does not cancel
  const std::vector<double> wide_g = ToDouble(g);
  std::vector<float> m(n), v(n);
  std::vector<double> wide_m(n), wide_v(n);
  for (options.step = 1; options.step <= 5; ++options.step) {
    std::vector<float> p(n);
    std::vector<double> wide_p(n);
    AdamWStep(n, options, g.data(), m.data(), v.data(), p.data());
    reference::AdamWStep(n, options, wide_g.data(), wide_m.data(), wide_v.data(), wide_p.data());
    ASSERT_TRUE(AllClose(p, wide_p, {0, 8 * kRoundoff<float>})) << "step " << options.step;
  }
}

TEST_P(OptimizerStepTest, SameBitsOnAnyThreads) {
  const int64_t rows = 700, cols = 130;
  const std::vector<float> g = RandomValues<float>(rows * cols, "g"), p = RandomValues<float>(rows * cols, "p");
  AdafactorOptions options;
  options.learning_rate = 0.01;
  options.decay = 0.5;
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<float> row(rows, 0.1f), col(cols, 0.1f), v(rows * cols, 0.1f), factored = p, unfactored = p;
    std::vector<float> workspace(AdafactorWorkspace(rows, cols));
    AdafactorFactoredStep(rows, cols, options, g.data(), row.data(), col.data(), factored.data(), workspace.data());
    AdafactorStep(rows * cols, options, g.data(), v.data(), unfactored.data());
    factored.insert(factored.end(), unfactored.begin(), unfactored.end());
    std::vector<float> m(rows * cols, 0.1f), lamb = p;
    LambStep(rows * cols, {.weight_decay = 0.1, .learning_rate = 0.01}, g.data(), m.data(), v.data(), lamb.data());
    factored.insert(factored.end(), lamb.begin(), lamb.end());
    return factored;
  });
}

// Two steps with gradients from 1e-30 to 1e18, the largest whose squares, and their sums, a float holds: parameters and
// steps as in double. The step is relative to the parameter's size in Adafactor, about the learning rate in AdamW.
TEST_P(OptimizerStepTest, GradientsAndParametersOfAnyMagnitude) {
  constexpr int64_t kRows = 3, kCols = 37, kCount = kRows * kCols;
  const double share = 400 * kRoundoff<float>;
  AdafactorOptions adafactor;
  adafactor.learning_rate = 0.01;
  adafactor.decay = 0.5;
  AdamWOptions adamw;
  adamw.weight_decay = 0;
  adamw.learning_rate = 0.01;
  adamw.epsilon = 1e-15;  // well above the root of what v of a tiny gradient loses
  for (const double size : {1e-30, 1e-20, 1e-17, 1e-15, 1e-10, 1e-5, 1.0, 1e5, 1e10, 1e15, 1e18}) {
    for (const double parameter_size : {1e-15, 1.0, 1e15}) {
      const std::vector<float> g = RandomValues<float>(kCount, "g", size);
      const std::vector<float> start = RandomValues<float>(kCount, "p", parameter_size);
      const std::vector<double> wide_g = ToDouble(g);
      std::vector<float> p = start, v(kCount), m(kCount), v_row(kRows), v_col(kCols);
      std::vector<float> workspace(AdafactorWorkspace(kRows, kCols));
      std::vector<double> wide_p = ToDouble(start), wide_v(kCount), wide_m(kCount), wide_row(kRows), wide_col(kCols);
      const auto compare = [&](const char* what) {
        EXPECT_TRUE(CloseToLargest(p, wide_p, share))
            << what << ", gradient " << size << ", parameter " << parameter_size;
        p = start;
        wide_p = ToDouble(start);
        v.assign(kCount, 0.0f), wide_v.assign(kCount, 0.0);
        m.assign(kCount, 0.0f), wide_m.assign(kCount, 0.0);
      };
      for (int step = 0; step < 2; ++step) {
        AdafactorStep(kCount, adafactor, g.data(), v.data(), p.data());
        reference::AdafactorStep(kCount, adafactor, wide_g.data(), wide_v.data(), wide_p.data());
      }
      compare("Adafactor");
      for (int step = 0; step < 2; ++step) {
        AdafactorFactoredStep(kRows, kCols, adafactor, g.data(), v_row.data(), v_col.data(), p.data(),
                              workspace.data());
        reference::AdafactorFactoredStep(kRows, kCols, adafactor, wide_g.data(), wide_row.data(), wide_col.data(),
                                         wide_p.data());
      }
      compare("factored Adafactor");
      for (adamw.step = 1; adamw.step <= 2; ++adamw.step) {
        AdamWStep(kCount, adamw, g.data(), m.data(), v.data(), p.data());
        reference::AdamWStep(kCount, adamw, wide_g.data(), wide_m.data(), wide_v.data(), wide_p.data());
      }
      compare("AdamW");
      for (adamw.step = 1; adamw.step <= 2; ++adamw.step) {
        LambStep(kCount, adamw, g.data(), m.data(), v.data(), p.data());
        reference::LambStep(kCount, adamw, wide_g.data(), wide_m.data(), wide_v.data(), wide_p.data());
      }
      if (size >= 1e-15) compare("LAMB");  // below, the update's squares are 0 in float, and the ratio is 1
    }
  }
}

}  // namespace optimizer_step_test
}  // namespace crosstalk::kernels
