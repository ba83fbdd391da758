#include "crosstalk/kernels/optimizer_step.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/kernels/reference/optimizer_step.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace optimizer_step_test {

CROSSTALK_KERNEL_TEST(OptimizerStepTest);

struct Algorithm {
  const char* name;
  enum Which { kAdafactor, kFactored, kAdamW, kLamb } which;
  double v_bound, p_bound;  // in units of roundoff, as CheckStep says
};
constexpr Algorithm kAlgorithms[] = {{"Adafactor", Algorithm::kAdafactor, 100, 100},
                                     {"factored Adafactor", Algorithm::kFactored, 100, 200},
                                     {"AdamW", Algorithm::kAdamW, 8, 1000},
                                     {"LAMB", Algorithm::kLamb, 8, 1000}};

struct Options {
  AdafactorOptions adafactor;
  AdamWOptions adam;
};

// A parameter of rows × cols, its gradient and what an algorithm keeps of it.
template <typename T>
struct State {
  State(int64_t rows_, int64_t cols_)
      : rows(rows_), cols(cols_), g(rows * cols), p(g.size()), m(g.size()), v(g.size()), row(rows), col(cols) {}
  int64_t rows, cols;
  std::vector<T> g, p, m, v, row, col;
};

template <typename T>
void Step(const Algorithm& algorithm, const Options& options, State<T>& s) {
  const int64_t n = s.rows * s.cols;
  Guarded<T> g(s.g), p(s.p), m(s.m), v(s.v), row(s.row), col(s.col);
  Guarded<T> workspace(algorithm.which == Algorithm::kFactored ? AdafactorWorkspace(s.rows, s.cols) : 0);
  switch (algorithm.which) {
    case Algorithm::kAdafactor:
      AdafactorStep(n, options.adafactor, g.data(), v.data(), p.data());
      break;
    case Algorithm::kFactored:
      AdafactorFactoredStep(s.rows, s.cols, options.adafactor, g.data(), row.data(), col.data(), p.data(),
                            workspace.data());
      break;
    case Algorithm::kAdamW:
      AdamWStep(n, options.adam, g.data(), m.data(), v.data(), p.data());
      break;
    case Algorithm::kLamb:
      LambStep(n, options.adam, g.data(), m.data(), v.data(), p.data());
      break;
  }
  for (const Guarded<T>* one : {&g, &p, &m, &v, &row, &col, &workspace}) EXPECT_TRUE(one->GuardsIntact());
  s.p = p.values(), s.m = m.values(), s.v = v.values(), s.row = row.values(), s.col = col.values();
}
void ReferenceStep(const Algorithm& algorithm, const Options& options, State<double>& s) {
  const int64_t n = s.rows * s.cols;
  switch (algorithm.which) {
    case Algorithm::kAdafactor:
      return reference::AdafactorStep(n, options.adafactor, s.g.data(), s.v.data(), s.p.data());
    case Algorithm::kFactored:
      return reference::AdafactorFactoredStep(s.rows, s.cols, options.adafactor, s.g.data(), s.row.data(), s.col.data(),
                                              s.p.data());
    case Algorithm::kAdamW:
      return reference::AdamWStep(n, options.adam, s.g.data(), s.m.data(), s.v.data(), s.p.data());
    case Algorithm::kLamb:
      return reference::LambStep(n, options.adam, s.g.data(), s.m.data(), s.v.data(), s.p.data());
  }
}

template <typename T>
State<double> Wide(const State<T>& s) {
  State<double> wide(s.rows, s.cols);
  wide.g = ToDouble(s.g), wide.p = ToDouble(s.p), wide.m = ToDouble(s.m), wide.v = ToDouble(s.v);
  wide.row = ToDouble(s.row), wide.col = ToDouble(s.col);
  return wide;
}

template <typename T>
State<T> RandomState(int64_t rows, int64_t cols) {
  State<T> s(rows, cols);
  const auto squares = [](std::vector<T>& to, const char* name) {
    to = RandomValues<T>(std::ssize(to), name, 0.1);
    for (T& x : to) x = x * x + T(1e-6);
  };
  s.g = RandomValues<T>(rows * cols, "g"), s.p = RandomValues<T>(rows * cols, "p");
  s.m = RandomValues<T>(rows * cols, "m", 0.1);
  squares(s.v, "v"), squares(s.row, "row"), squares(s.col, "col");
  if (!s.g.empty()) s.g[0] = 0;  // no gradient: no step, no NaN
  return s;
}

std::vector<Options> AllOptions() {
  std::vector<Options> all(4);
  for (Options& one : all) one.adafactor.learning_rate = 0.01, one.adafactor.decay = 0.7, one.adam.learning_rate = 0.1;
  for (size_t i = 1; i < 4; ++i) all[i].adafactor.gradient_scale = 0.25;
  all[1].adafactor.clip_threshold = 0;  // the update is larger than 1 here: clipping matters
  all[2].adafactor.step_scale = AdafactorOptions::StepScale::kAbsolute;
  all[2].adafactor.clip_threshold = all[3].adafactor.clip_threshold = 0.5;
  all[2].adafactor.decay = all[3].adafactor.decay = 0;  // the first step
  all[3].adafactor.epsilon2 = 5;                        // the floor of the parameter's size
  for (size_t i = 0; i < 2; ++i) {
    all[i].adam.step = 3;
    all[i].adam.bias_correction = i == 0 ? AdamWOptions::BiasCorrection::kNo : AdamWOptions::BiasCorrection::kYes;
    all[i].adam.gradient_scale = i == 0 ? 1 : 0.5;
    all[i].adam.weight_decay = i == 0 ? 0.01 : 0.2;
  }
  return all;
}

// In Adafactor every operation is relative (products, quotients, roots, sums of positive terms), except the last
// subtraction: moments and u are within 100 u relative, the parameter within u |p| + 100 u · |step · u|, |step · u|
// < 1. The reference adds count terms in a row, in double: some √count roundings of its own. In AdamW m may cancel: its
// error is absolute, and m / √v ≤ 10³ here magnifies it in the step of 0.1. LAMB's ratio of two norms multiplies all of
// an update, which is of the parameter's size: below 1000 u with its rounding.
template <typename T>
void CheckStep(const Algorithm& algorithm, const Options& options, int64_t rows, int64_t cols) {
  const double u = kRoundoff<T>;
  State<T> s = RandomState<T>(rows, cols);
  State<double> expected = Wide(s);
  ReferenceStep(algorithm, options, expected);
  Step(algorithm, options, s);
  const double reference_error = 4 * std::sqrt(static_cast<double>(rows * cols)) * kRoundoff<double>;
  SCOPED_TRACE(std::string(algorithm.name) + " " + std::to_string(rows) + " × " + std::to_string(cols));
  ASSERT_TRUE(AllClose(s.m, expected.m, {8 * u, 0}));
  ASSERT_TRUE(AllClose(s.v, expected.v, {0, algorithm.v_bound * u}));
  ASSERT_TRUE(AllClose(s.row, expected.row, {0, 100 * u}));
  ASSERT_TRUE(AllClose(s.col, expected.col, {0, 100 * u}));
  ASSERT_TRUE(AllClose(s.p, expected.p, {algorithm.p_bound * u + reference_error, 4 * u}));
}

TEST_P(OptimizerStepTest, MatchesTheReference) {
  std::vector<std::pair<int64_t, int64_t>> sizes = {{150, 140}, {2, 5000}, {2, 20000}};
  for (int64_t n = 0; n <= kMaxLength; ++n) sizes.insert(sizes.end(), {{1, n}, {5, n}});
  const std::vector<Options> all = AllOptions();
  for (const Algorithm& algorithm : kAlgorithms) {
    const bool adafactor = algorithm.which <= Algorithm::kFactored;
    for (size_t i = 0; i < (adafactor ? 4u : 2u); ++i) {
      for (const auto& [rows, cols] : sizes) {
        if (adafactor && cols == 0) continue;
        CheckStep<float>(algorithm, all[i], rows, cols);
        CheckStep<double>(algorithm, all[i], rows, cols);
      }
    }
  }
}

// So large that tiles must grow, as only so many partial sums are kept. Of ones each algorithm's update is 1, and the
// size of the parameter too. A row of 16411 would fill a tile.
TEST_P(OptimizerStepTest, HoldsForAsManyElementsAsThereAre) {
  Options options;
  options.adafactor.learning_rate = options.adam.learning_rate = 0.25;
  options.adam.weight_decay = 0;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.which == Algorithm::kAdamW) continue;  // has no sums
    const bool factored = algorithm.which == Algorithm::kFactored;
    State<float> s = factored ? State<float>(193, 16411) : State<float>(1, 256 * 16384 + 1);
    s.g.assign(s.g.size(), 1.0f), s.p.assign(s.p.size(), 1.0f);
    if (algorithm.which <= Algorithm::kFactored) s.m.clear();  // is not read
    if (factored) s.v.clear();
    Step(algorithm, options, s);
    EXPECT_TRUE(std::all_of(s.p.begin(), s.p.end(), [](float x) { return std::abs(x - 0.75f) <= 1e-5f; }))
        << algorithm.name;
  }
}

TEST_P(OptimizerStepTest, AZeroGradientKeepsTheParameterThatDoesNotDecay) {
  Options options;
  options.adafactor.learning_rate = options.adam.learning_rate = 1;
  options.adam.weight_decay = 0;
  for (const Algorithm& algorithm : kAlgorithms) {
    State<float> s(12, 20);
    const std::vector<float> before = s.p = RandomValues<float>(240, "p");
    Step(algorithm, options, s);
    EXPECT_EQ(s.p, before) << algorithm.name;
  }
}

// A parameter of zeros: u = ±1 is the step.
TEST_P(OptimizerStepTest, LambsRatioIsOneWhereANormIsZero) {
  State<float> s(1, 2);
  s.g = {3, -5};
  Step(kAlgorithms[3], {.adafactor = {}, .adam = {.epsilon = 1e-12, .weight_decay = 0.5, .learning_rate = 0.25}}, s);
  EXPECT_NEAR(s.p[0], -0.25, 1e-6);
  EXPECT_NEAR(s.p[1], 0.25, 1e-6);
}

// From zero moments, the first updates are ratios of small numbers: (1 - beta1) g / √((1 - beta2) g²), each corrected.
// Every factor is rounded once, so an update is within 8 u of that in double (1 - beta2 formed in float is 200 u off).
TEST_P(OptimizerStepTest, EarlyAdamWUpdatesAreThoseOfDouble) {
  Options options = {.adafactor = {}, .adam = {.weight_decay = 0, .learning_rate = 1}};
  State<float> s(1, 33);
  s.g = RandomValues<float>(33, "g", 1, 5);  // of one sign, so that m does not cancel
  State<double> expected = Wide(s);
  for (options.adam.step = 1; options.adam.step <= 5; ++options.adam.step) {
    s.p.assign(33, 0.0f), expected.p.assign(33, 0.0);
    Step(kAlgorithms[2], options, s);
    ReferenceStep(kAlgorithms[2], options, expected);
    ASSERT_TRUE(AllClose(s.p, expected.p, {0, 8 * kRoundoff<float>})) << "step " << options.adam.step;
  }
}

TEST_P(OptimizerStepTest, SameBitsOnAnyThreads) {
  for (const Algorithm& algorithm : kAlgorithms) {
    const State<float> start = RandomState<float>(700, 130);
    ExpectSameBitsOnAnyThreads([&] {
      State<float> s = start;
      Step(algorithm, AllOptions()[0], s);
      return s.p;
    });
  }
}

// Two steps with gradients from 1e-30 to 1e18, the largest whose squares, and their sums, a float holds: parameters and
// steps as in double. The step is relative to the parameter's size in Adafactor, about the learning rate in AdamW.
TEST_P(OptimizerStepTest, GradientsAndParametersOfAnyMagnitude) {
  Options options;
  options.adafactor.learning_rate = options.adam.learning_rate = 0.01;
  options.adafactor.decay = 0.5;
  options.adam.weight_decay = 0;
  options.adam.epsilon = 1e-15;  // well above the root of what v of a tiny gradient loses
  for (const double size : {1e-30, 1e-20, 1e-17, 1e-15, 1e-10, 1e-5, 1.0, 1e5, 1e10, 1e15, 1e18}) {
    for (const double parameter_size : {1e-15, 1.0, 1e15}) {
      for (const Algorithm& algorithm : kAlgorithms) {
        // The update's squares are 0 in float, and the ratio is 1.
        if (algorithm.which == Algorithm::kLamb && size < 1e-15) continue;
        State<float> s(3, 37);
        s.g = RandomValues<float>(3 * 37, "g", size), s.p = RandomValues<float>(3 * 37, "p", parameter_size);
        State<double> expected = Wide(s);
        for (options.adam.step = 1; options.adam.step <= 2; ++options.adam.step) {
          Step(algorithm, options, s);
          ReferenceStep(algorithm, options, expected);
        }
        EXPECT_TRUE(CloseToLargest(s.p, expected.p, 400 * kRoundoff<float>))
            << algorithm.name << ", gradient " << size << ", parameter " << parameter_size;
      }
    }
  }
}

}  // namespace optimizer_step_test
}  // namespace crosstalk::kernels
