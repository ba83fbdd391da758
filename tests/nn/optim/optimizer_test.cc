#include "crosstalk/nn/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk::optimizer_test {

struct Rates {
  const char* name;
  ScheduleConfig config;
  std::vector<std::pair<int64_t, double>> rates;  // by step
};
using enum ScheduleKind;

// Values worked out by hand; every one is a few roundings from exact.
TEST(ScheduleTest, RatesAreThoseOfItsDefinition) {
  const ScheduleConfig root = {
      .kind = kInverseSquareRoot, .warmup_steps = 10000, .total_steps = 524288, .decay_fraction = 0.1};
  const ScheduleConfig polynomial = {
      .kind = kPolynomial, .scale = 0.5, .warmup_steps = 4, .total_steps = 16, .final_rate = 0.1, .power = 2};
  const auto with_power = [&](double power) {
    ScheduleConfig config = polynomial;
    config.power = power;
    return config;
  };
  const Rates kCases[] = {
      // 0.9 · 524288 = 471859.2: the first step of the decay is 471860, at (524288 - 471860) / 52428.8.
      {"the inverse square root is flat, then falls, then decays over the last tenth",
       root,
       {{0, 0.01},
        {10000, 0.01},
        {40000, 0.005},
        {250000, 0.002},
        {471859, 1 / std::sqrt(471859.0)},
        {471860, 52428 / 52428.8 / std::sqrt(471860.0)},
        {524287, 1 / 52428.8 / std::sqrt(524287.0)}}},
      {"without a total there is no decay",
       {.scale = 2.0, .warmup_steps = 100, .total_steps = 0},
       {{99, 0.2}, {1000000, 0.002}}},
      {"a decay fraction of 0 means none",
       {.warmup_steps = 4, .total_steps = 100, .decay_fraction = 0},
       {{99, 1 / std::sqrt(99.0)}}},
      {"a warm-up of 0 starts at the scale", {.warmup_steps = 0}, {{0, 1}, {1, 1}, {4, 0.5}}},
      {"constant is constant",
       {.kind = kConstant, .scale = 1e-3, .total_steps = 10},
       {{0, 1e-3}, {5, 1e-3}, {9, 1e-3}, {100, 1e-3}}},
      {"linear rises, then falls to one step above zero",
       {.kind = kLinear, .scale = 0.5, .warmup_steps = 4, .total_steps = 12, .decay_fraction = 0},
       {{0, 0.125}, {3, 0.5}, {4, 0.5}, {8, 0.25}, {11, 0.0625}, {1000, 0.0625}}},
      // The values of google-research/bert's optimization.py: polynomial decay of power 1 from step 0, and s / warm-up
      // before.
      {"BERT's linear decay counts from step 0",
       {.kind = kLinearBert, .scale = 0.5, .warmup_steps = 4, .total_steps = 16, .decay_fraction = 0},
       {{0, 0}, {3, 0.375}, {4, 0.375}, {8, 0.25}, {15, 0.03125}}},
      // A quarter of the way: cos(π/4); two thirds: cos(2π/3) = -1/2.
      {"the cosine falls in half a wave to the final rate",
       {.kind = kCosine, .scale = 0.5, .warmup_steps = 4, .total_steps = 16, .final_rate = 0.1},
       {{0, 0.125},
        {3, 0.5},
        {4, 0.5},
        {7, 0.3 + 0.2 * std::sqrt(0.5)},
        {10, 0.3},
        {12, 0.2},
        {15, 0.3 - 0.2 * std::cos(std::acos(-1.0) / 12)}}},
      {"a polynomial falls by its power to the final rate",
       polynomial,
       {{0, 0.125},
        {3, 0.5},
        {4, 0.5},
        {7, 0.1 + 0.4 * 0.5625},
        {10, 0.2},
        {15, 0.1 + 0.4 / 144},
        {99, 0.1 + 0.4 / 144}}},
      {"by its root", with_power(0.5), {{13, 0.3}}},
      {"of power 1 it is linear", with_power(1), {{7, 0.1 + 0.4 * 0.75}, {10, 0.3}, {15, 0.1 + 0.4 / 12}}}};
  for (const Rates& one : kCases) {
    for (const auto& [step, rate] : one.rates) EXPECT_NEAR(LearningRate(one.config, step), rate, 1e-15) << one.name;
  }
}

TEST(ScheduleTest, EachStageOfAContinuedRunIsThatOfARunOfItsLength) {
  for (const ScheduleKind kind : {kInverseSquareRoot, kLinear, kLinearBert, kPolynomial}) {
    ScheduleConfig config = {.kind = kind, .scale = 0.5, .warmup_steps = 4, .total_steps = 40};
    config.earlier_totals = {12, 20};
    config.Validate();
    for (int64_t step = 0; step < 50; ++step) {
      ScheduleConfig alone = config;
      alone.earlier_totals = {};
      alone.total_steps = step < 12 ? 12 : step < 20 ? 20 : 40;
      EXPECT_EQ(LearningRate(config, step), LearningRate(alone, step)) << Name(kind) << ", step " << step;
    }
    config.earlier_totals = {4};
    if (kind == kInverseSquareRoot) continue;
    EXPECT_THROW(config.Validate(), Error);
  }
}

TEST(ScheduleTest, WhatCannotBeIsRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const ScheduleConfig& config :
       std::vector<ScheduleConfig>{{.kind = kLinear, .warmup_steps = 10, .total_steps = 10},
                                   {.kind = kCosine, .warmup_steps = 10, .total_steps = 10},
                                   {.kind = kCosine, .warmup_steps = 1, .total_steps = 9, .final_rate = 2},
                                   {.kind = kPolynomial, .warmup_steps = 1, .total_steps = 9, .power = 0.0},
                                   {.kind = kPolynomial, .warmup_steps = 1, .total_steps = 9, .power = -1.0},
                                   {.kind = kPolynomial, .warmup_steps = 1, .total_steps = 9, .power = kInfinity},
                                   {.kind = kPolynomial, .warmup_steps = 1, .total_steps = 9, .final_rate = 2},
                                   {.kind = kPolynomial, .warmup_steps = 9, .total_steps = 9},
                                   {.scale = -1},
                                   {.decay_fraction = 1.5}}) {
    EXPECT_THROW(LearningRate(config, 0), Error) << Name(config.kind);
  }
  EXPECT_THROW(LearningRate({}, -1), Error);
  EXPECT_THROW(ParseName<ScheduleKind>("schedule", "exponential"), Error);
}

NamedParameter WithGradient(const std::string& name, const std::vector<double>& gradient) {
  const Shape shape = {static_cast<int64_t>(gradient.size())};
  NamedParameter parameter = {
      name, Variable(Tensor::Zeros(shape, DType::kFloat64), Variable::RequiresGrad::kYes), {}, true};
  parameter.value.SetGrad(Tensor::FromValues(shape, gradient));
  return parameter;
}

TEST(GradientNormTest, IsTheRootOfTheSumOfSquaresOverAllTrainable) {
  std::vector<NamedParameter> parameters = {WithGradient("a", {1, 2}), WithGradient("b", {4, 10}),
                                            WithGradient("frozen", {100})};
  parameters[2].trainable = false;
  EXPECT_EQ(GradientNorm(parameters), 11.0);
  EXPECT_EQ(GradientNorm({}), 0.0);
}

TEST(GradientNormTest, BitsDoNotDependOnThreads) {
  NamedParameter parameter = {
      "w", Variable(Tensor::Zeros({100003}, DType::kFloat32), Variable::RequiresGrad::kYes), {}, true};
  Tensor gradient = Tensor::Empty({100003}, DType::kFloat32);
  FillNormal(gradient, {.seed = 1}, 0.0, 1.0);
  parameter.value.SetGrad(gradient);
  const ThreadsScope one_thread(1);
  const double one = GradientNorm({parameter});
  for (const int threads : {2, 3, 5, 8}) {
    const ThreadsScope scope(threads);
    EXPECT_EQ(GradientNorm({parameter}), one) << threads;
  }
}

// Scales down to the largest norm and never up. A norm that is not finite is not hidden, nor a gradient whose square no
// second moment holds: 1e40 is a float's infinity, for good.
TEST(ClipScaleTest, ScalesDownToTheLargestNorm) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double kNaN = std::numeric_limits<double>::quiet_NaN();
  const struct {
    double norm, largest, scale;
  } kCases[] = {{4.0, 1.0, 0.25},  {0.5, 1.0, 1.0},   {0.0, 1.0, 1.0},    {4.0, 0.0, 1.0},  {kInfinity, 1.0, kNaN},
                {kNaN, 0.0, kNaN}, {1e20, 0.0, kNaN}, {1e25, 1e20, kNaN}, {1e18, 0.0, 1.0}, {1e25, 1.0, 1e-25}};
  for (const auto& [norm, largest, scale] : kCases) {
    const double actual = ClipScale(norm, largest);
    EXPECT_TRUE(std::isnan(scale) ? std::isnan(actual) : std::abs(actual - scale) <= 1e-15 * scale)
        << norm << ", " << largest << ": " << actual;
  }
}

TEST(DescribeNonFiniteGradientTest, NamesTheFirst) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(DescribeNonFiniteGradient({WithGradient("a", {1, 2})}), "");
  EXPECT_EQ(DescribeNonFiniteGradient({WithGradient("a", {1, 2}), WithGradient("b", {1, 2, nan, nan})}), "b[2] = nan");
}

TEST(ForEachParameterTest, CallsOnceForEachThatHasElements) {
  for (const int count : {1, 2, 3, 5}) {
    const ThreadsScope threads(count);
    const std::vector<int64_t> elements = {7, 0, 100'000, 1, 3'000, 0, 11};
    std::vector<std::atomic<int>> calls(elements.size());
    ForEachParameter(elements, [&](size_t i) { ++calls[i]; });
    for (size_t i = 0; i < elements.size(); ++i) EXPECT_EQ(calls[i], elements[i] > 0 ? 1 : 0) << i;
    const auto fail = [](size_t i) {
      if (i == 3) throw std::runtime_error("three");
    };
    EXPECT_THROW(ForEachParameter(std::vector<int64_t>(20, 5), fail), std::runtime_error) << "an error is the caller's";
  }
}

TEST(ForEachParameterTest, NothingIsDoneOnAnotherThreadWhereOnlyShapesCount) {
  const ThreadsScope threads(4);
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const std::thread::id own = std::this_thread::get_id();
  int calls = 0;
  ForEachParameter(std::vector<int64_t>(20, 5), [&](size_t) {
    EXPECT_EQ(std::this_thread::get_id(), own);
    ++calls;
  });
  EXPECT_EQ(calls, 20);
}

}  // namespace crosstalk::optimizer_test
