#include "crosstalk/nn/optim/optimizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace optimizer_test {

// Values worked out by hand; every one is a few roundings from exact.
constexpr double kTolerance = 1e-15;

TEST(ScheduleTest, InverseSquareRootIsFlatThenFallsThenDecaysOverTheLastTenth) {
  const ScheduleConfig config = {.kind = ScheduleKind::kInverseSquareRoot,
                                 .scale = 1.0,
                                 .warmup_steps = 10000,
                                 .total_steps = 524288,
                                 .decay_fraction = 0.1};
  EXPECT_NEAR(LearningRate(config, 0), 0.01, kTolerance);
  EXPECT_NEAR(LearningRate(config, 10000), 0.01, kTolerance);
  EXPECT_NEAR(LearningRate(config, 40000), 0.005, kTolerance);
  EXPECT_NEAR(LearningRate(config, 250000), 0.002, kTolerance);
  // 0.9 · 524288 = 471859.2: the first step of the decay is 471860, at (524288 - 471860) / 52428.8.
  EXPECT_NEAR(LearningRate(config, 471859), 1 / std::sqrt(471859.0), kTolerance);
  EXPECT_NEAR(LearningRate(config, 471860), 52428 / 52428.8 / std::sqrt(471860.0), kTolerance);
  EXPECT_NEAR(LearningRate(config, 524287), 1 / 52428.8 / std::sqrt(524287.0), kTolerance);
}

TEST(ScheduleTest, WithoutATotalThereIsNoDecay) {
  const ScheduleConfig config = {.scale = 2.0, .warmup_steps = 100, .total_steps = 0};
  EXPECT_NEAR(LearningRate(config, 99), 0.2, kTolerance);
  EXPECT_NEAR(LearningRate(config, 1000000), 0.002, kTolerance);
}

TEST(ScheduleTest, DecayFractionZeroMeansNone) {
  const ScheduleConfig config = {.warmup_steps = 4, .total_steps = 100, .decay_fraction = 0};
  EXPECT_NEAR(LearningRate(config, 99), 1 / std::sqrt(99.0), kTolerance);
}

TEST(ScheduleTest, WarmupZeroStartsAtScale) {
  const ScheduleConfig config = {.warmup_steps = 0};
  EXPECT_EQ(LearningRate(config, 0), 1.0);
  EXPECT_EQ(LearningRate(config, 1), 1.0);
  EXPECT_NEAR(LearningRate(config, 4), 0.5, kTolerance);
}

TEST(ScheduleTest, OfAContinuedRunEachStageIsThatOfARunOfItsLength) {
  for (const ScheduleKind kind : {ScheduleKind::kInverseSquareRoot, ScheduleKind::kLinear, ScheduleKind::kLinearBert,
                                  ScheduleKind::kPolynomial}) {
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
    if (kind != ScheduleKind::kInverseSquareRoot) {
      EXPECT_THROW(config.Validate(), Error);
    }
  }
}

TEST(ScheduleTest, ConstantIsConstant) {
  const ScheduleConfig config = {.kind = ScheduleKind::kConstant, .scale = 1e-3, .total_steps = 10};
  for (int64_t step : {0, 5, 9, 100}) EXPECT_EQ(LearningRate(config, step), 1e-3);
}

TEST(ScheduleTest, LinearRisesThenFallsToOneStepAboveZero) {
  const ScheduleConfig config = {
      .kind = ScheduleKind::kLinear, .scale = 0.5, .warmup_steps = 4, .total_steps = 12, .decay_fraction = 0};
  EXPECT_NEAR(LearningRate(config, 0), 0.125, kTolerance);
  EXPECT_NEAR(LearningRate(config, 3), 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(config, 4), 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(config, 8), 0.25, kTolerance);
  EXPECT_NEAR(LearningRate(config, 11), 0.0625, kTolerance);
  EXPECT_NEAR(LearningRate(config, 1000), 0.0625, kTolerance);
}

// The values of google-research/bert's optimization.py: polynomial decay of power 1 from step 0, and s / warm-up
// before.
TEST(ScheduleTest, BertsLinearDecayCountsFromStepZero) {
  const ScheduleConfig config = {
      .kind = ScheduleKind::kLinearBert, .scale = 0.5, .warmup_steps = 4, .total_steps = 16, .decay_fraction = 0};
  EXPECT_EQ(LearningRate(config, 0), 0);
  EXPECT_NEAR(LearningRate(config, 3), 0.375, kTolerance);
  EXPECT_NEAR(LearningRate(config, 4), 0.375, kTolerance);
  EXPECT_NEAR(LearningRate(config, 8), 0.25, kTolerance);
  EXPECT_NEAR(LearningRate(config, 15), 0.03125, kTolerance);
}

TEST(ScheduleTest, CosineFallsInHalfAWaveToTheFinalRate) {
  const ScheduleConfig config = {
      .kind = ScheduleKind::kCosine, .scale = 0.5, .warmup_steps = 4, .total_steps = 16, .final_rate = 0.1};
  EXPECT_NEAR(LearningRate(config, 0), 0.125, kTolerance);
  EXPECT_NEAR(LearningRate(config, 3), 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(config, 4), 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(config, 7), 0.3 + 0.2 * std::sqrt(0.5), kTolerance);  // a quarter of the way: cos(π/4)
  EXPECT_NEAR(LearningRate(config, 10), 0.3, kTolerance);
  EXPECT_NEAR(LearningRate(config, 12), 0.2, kTolerance);  // two thirds: cos(2π/3) = -1/2
  EXPECT_GT(LearningRate(config, 15), 0.1);
}

TEST(ScheduleTest, PolynomialFallsByItsPowerToTheFinalRate) {
  ScheduleConfig config = {.kind = ScheduleKind::kPolynomial,
                           .scale = 0.5,
                           .warmup_steps = 4,
                           .total_steps = 16,
                           .final_rate = 0.1,
                           .power = 2};
  EXPECT_NEAR(LearningRate(config, 0), 0.125, kTolerance);
  EXPECT_NEAR(LearningRate(config, 3), 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(config, 4), 0.5, kTolerance);
  EXPECT_NEAR(LearningRate(config, 7), 0.1 + 0.4 * 0.5625, kTolerance);  // three quarters are left
  EXPECT_NEAR(LearningRate(config, 10), 0.2, kTolerance);                // a half
  EXPECT_NEAR(LearningRate(config, 15), 0.1 + 0.4 / 144, kTolerance);
  EXPECT_EQ(LearningRate(config, 99), LearningRate(config, 15));
  config.power = 0.5;
  EXPECT_NEAR(LearningRate(config, 13), 0.3, kTolerance);  // √(1/4)
}

TEST(ScheduleTest, PolynomialOfPowerOneIsLinear) {
  for (int64_t step = 0; step < 20; ++step) {
    ScheduleConfig config = {.kind = ScheduleKind::kLinear, .scale = 0.7, .warmup_steps = 3, .total_steps = 17};
    const double linear = LearningRate(config, step);
    config.kind = ScheduleKind::kPolynomial;
    EXPECT_NEAR(LearningRate(config, step), linear, kTolerance) << step;
  }
}

TEST(ScheduleTest, NamesParse) {
  for (const ScheduleKind kind : {ScheduleKind::kInverseSquareRoot, ScheduleKind::kConstant, ScheduleKind::kLinear,
                                  ScheduleKind::kLinearBert, ScheduleKind::kCosine, ScheduleKind::kPolynomial}) {
    EXPECT_EQ(ParseName<ScheduleKind>("schedule", Name(kind)), kind);
  }
  EXPECT_THROW(ParseName<ScheduleKind>("schedule", "exponential"), Error);
}

TEST(ScheduleTest, RefusesWhatCannotBe) {
  EXPECT_THROW(LearningRate({.kind = ScheduleKind::kLinear, .warmup_steps = 10, .total_steps = 10}, 0), Error);
  EXPECT_THROW(LearningRate({.kind = ScheduleKind::kCosine, .warmup_steps = 10, .total_steps = 10}, 0), Error);
  EXPECT_THROW(LearningRate({.kind = ScheduleKind::kCosine, .warmup_steps = 1, .total_steps = 9, .final_rate = 2}, 0),
               Error);
  const ScheduleConfig polynomial = {.kind = ScheduleKind::kPolynomial, .warmup_steps = 1, .total_steps = 9};
  for (const double power : {0.0, -1.0, std::numeric_limits<double>::infinity()}) {
    ScheduleConfig config = polynomial;
    config.power = power;
    EXPECT_THROW(config.Validate(), Error) << power;
  }
  ScheduleConfig rises = polynomial;
  rises.final_rate = 2;
  EXPECT_THROW(rises.Validate(), Error);
  rises = polynomial;
  rises.warmup_steps = 9;
  EXPECT_THROW(rises.Validate(), Error);
  EXPECT_THROW(LearningRate({.scale = -1}, 0), Error);
  EXPECT_THROW(LearningRate({.decay_fraction = 1.5}, 0), Error);
  EXPECT_THROW(LearningRate({}, -1), Error);
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

TEST(ClipScaleTest, ScalesDownToTheLargestNormAndNeverUp) {
  EXPECT_EQ(ClipScale(4.0, 1.0), 0.25);
  EXPECT_EQ(ClipScale(0.5, 1.0), 1.0);
  EXPECT_EQ(ClipScale(0.0, 1.0), 1.0);
  EXPECT_EQ(ClipScale(4.0, 0.0), 1.0);
}

TEST(ClipScaleTest, DoesNotHideANormThatIsNotFinite) {
  EXPECT_TRUE(std::isnan(ClipScale(std::numeric_limits<double>::infinity(), 1.0)));
  EXPECT_TRUE(std::isnan(ClipScale(std::numeric_limits<double>::quiet_NaN(), 0.0)));
}

// A second moment of 1e40 is a float's infinity, for good.
TEST(ClipScaleTest, RefusesAGradientWhoseSquareNoMomentHolds) {
  EXPECT_TRUE(std::isnan(ClipScale(1e20, 0.0)));
  EXPECT_TRUE(std::isnan(ClipScale(1e25, 1e20)));
  EXPECT_EQ(ClipScale(1e18, 0.0), 1.0);
  EXPECT_DOUBLE_EQ(ClipScale(1e25, 1.0), 1e-25);
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

TEST(ForEachParameterTest, AnErrorIsTheCallers) {
  const ThreadsScope threads(2);
  EXPECT_THROW(ForEachParameter(std::vector<int64_t>(20, 5),
                                [](size_t i) {
                                  if (i == 3) throw std::runtime_error("three");
                                }),
               std::runtime_error);
}

}  // namespace optimizer_test
}  // namespace crosstalk
