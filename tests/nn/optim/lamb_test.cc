#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace lamb_test {

NamedParameter Leaf(const std::string& name, const Shape& shape, const Shape& matrix_shape = {}) {
  Tensor value = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(value, {.seed = 21, .stream = StreamId(name)}, 0.0, 1.0);
  return {name, Variable(value, Variable::RequiresGrad::kYes), matrix_shape, true};
}

void SetRandomGradient(const NamedParameter& parameter, uint32_t step) {
  Tensor gradient = Tensor::Empty(parameter.value.shape(), DType::kFloat32);
  FillNormal(gradient, {.seed = 22, .stream = StreamId(parameter.name), .step = step}, 0.0, 0.3);
  parameter.value.SetGrad(gradient);
}

std::vector<float> Values(const NamedParameter& parameter) { return parameter.value.value().ToVector<float>(); }

double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

TEST(LambTest, AMatrixMovesByTheLearningRateTimesItsNorm) {
  for (const double weight_decay : {0.0, 0.3}) {
    const NamedParameter matrix = Leaf("weight", {37, 53}, {37, 53});
    Lamb optimizer({matrix}, {.weight_decay = weight_decay});
    EXPECT_TRUE(optimizer.Adapts(0));
    for (uint32_t t = 0; t < 3; ++t) {
      const std::vector<float> before = Values(matrix);
      SetRandomGradient(matrix, t);
      optimizer.Step(0.125, 0.5);
      std::vector<float> change = Values(matrix);
      for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
      EXPECT_NEAR(Norm(change), 0.125 * Norm(before), 1e-5 * Norm(before));
    }
  }
}

// Norms, biases, those of heads, and what no_decay names: as AdamW, which leaves the same ones out of decay.
TEST(LambTest, WhatIsLeftOutHasTheUpdateOfAdamW) {
  const auto make = [] {
    return std::vector<NamedParameter>{Leaf("norm.scale", {9}), Leaf("attention.b_q", {3, 4}),
                                       Leaf("positions.table", {3, 5}, {3, 5})};
  };
  const std::vector<NamedParameter> ours = make(), theirs = make();
  const kernels::AdamWOptions config = {.bias_correction = kernels::AdamWOptions::BiasCorrection::kNo};
  Lamb lamb(ours, config, {"positions"});
  AdamW adamw(theirs, config, {"positions"});
  for (uint32_t t = 0; t < 3; ++t) {
    for (const auto* parameters : {&ours, &theirs}) {
      for (const NamedParameter& parameter : *parameters) SetRandomGradient(parameter, t);
    }
    lamb.Step(0.1);
    adamw.Step(0.1);
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_FALSE(lamb.Adapts(i)) << ours[i].name;
    EXPECT_EQ(Values(ours[i]), Values(theirs[i])) << ours[i].name;
  }
}

TEST(LambTest, StateIsTwoSlotsAParameter) {
  const NamedParameter parameter = Leaf("w", {5, 3}, {5, 3});
  Lamb optimizer({parameter});
  SetRandomGradient(parameter, 0);
  optimizer.Step(0.1);
  const std::vector<NamedTensor> state = optimizer.State();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[1].name, "w.m");
  EXPECT_EQ(state[2].name, "w.v");
}

TEST(LambTest, RefusesImpossibleConstants) {
  const std::vector<NamedParameter> parameters = {Leaf("w", {5, 3}, {5, 3})};
  EXPECT_EQ(testing::MessageOf([&] { Lamb(parameters, {.beta1 = 1.0}); }),
            "LAMB: beta1 = 1 and beta2 = 0.999 must be in [0, 1)");
  EXPECT_THROW(Lamb(parameters, {.epsilon = 0.0}), Error);
  EXPECT_THROW(Lamb(parameters, {.weight_decay = -1.0}), Error);
}

TEST(LambTest, BitsDoNotDependOnThreads) {
  const auto run = [](int threads) {
    const ThreadsScope scope(threads);
    const NamedParameter parameter = Leaf("a", {517, 333}, {517, 333});
    Lamb optimizer({parameter});
    for (uint32_t t = 0; t < 2; ++t) {
      SetRandomGradient(parameter, t);
      optimizer.Step(0.01);
    }
    return Values(parameter);
  };
  const std::vector<float> one = run(1);
  for (const int threads : {2, 3, 5, 8}) EXPECT_EQ(run(threads), one) << threads << " threads";
}

}  // namespace lamb_test
}  // namespace crosstalk
