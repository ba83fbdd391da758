#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace schedule_test {

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

}  // namespace schedule_test
}  // namespace crosstalk
