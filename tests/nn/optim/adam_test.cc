#include "crosstalk/nn/optim/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace adam_test {

NamedParameter LeafOf(DType dtype, const std::string& name, const Shape& shape, const Shape& matrix_shape) {
  Tensor value = Tensor::Empty(shape, dtype);
  FillNormal(value, {.seed = 21, .stream = StreamId(name)}, 0.0, 1.0);
  return {name, Variable(value, Variable::RequiresGrad::kYes), matrix_shape, true};
}

NamedParameter Leaf(const std::string& name, const Shape& shape, const Shape& matrix_shape = {}) {
  return LeafOf(DType::kFloat64, name, shape, matrix_shape);
}

NamedParameter FloatLeaf(const std::string& name, const Shape& shape, const Shape& matrix_shape = {}) {
  return LeafOf(DType::kFloat32, name, shape, matrix_shape);
}

Tensor RandomGradient(const NamedParameter& parameter, uint32_t step) {
  Tensor gradient = Tensor::Empty(parameter.value.shape(), parameter.value.dtype());
  FillNormal(gradient, {.seed = 22, .stream = StreamId(parameter.name), .step = step}, 0.0, 0.3);
  return gradient;
}

void ExpectMatchesPlain(kernels::AdamWOptions::BiasCorrection correction) {
  const std::vector<NamedParameter> parameters = {Leaf("dense.weight", {7, 9}, {7, 9}), Leaf("dense.bias", {9}),
                                                  Leaf("layer_norm.table", {3, 5}, {3, 5}),
                                                  Leaf("attention.b_q", {3, 4})};  // a bias per head is no matrix
  kernels::AdamWOptions config;
  config.beta1 = 0.8;
  config.beta2 = 0.95;
  config.epsilon = 1e-3;
  config.weight_decay = 0.1;
  config.bias_correction = correction;
  const std::vector<double> decay = {0.1, 0.0, 0.0, 0.0};
  AdamW optimizer(parameters, config, {"layer_norm"});
  std::vector<std::vector<double>> p, m, v;
  for (const NamedParameter& parameter : parameters) {
    p.push_back(parameter.value.value().ToVector<double>());
    m.emplace_back(p.back().size(), 0.0);
    v.emplace_back(p.back().size(), 0.0);
  }
  for (uint32_t t = 1; t <= 5; ++t) {
    const double learning_rate = 0.1 / t, scale = t == 3 ? 0.5 : 1.0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(optimizer.Decays(i), decay[i] > 0) << parameters[i].name;
      const Tensor gradient = RandomGradient(parameters[i], t);
      parameters[i].value.SetGrad(gradient);
      const std::vector<double> g = gradient.ToVector<double>();
      for (size_t k = 0; k < g.size(); ++k) {
        const double scaled = scale * g[k];
        m[i][k] = 0.8 * m[i][k] + 0.2 * scaled;
        v[i][k] = 0.95 * v[i][k] + 0.05 * scaled * scaled;
        double m_hat = m[i][k], v_hat = v[i][k];
        if (correction == kernels::AdamWOptions::BiasCorrection::kYes) {
          m_hat /= 1 - std::pow(0.8, t);
          v_hat /= 1 - std::pow(0.95, t);
        }
        p[i][k] -= learning_rate * (m_hat / (std::sqrt(v_hat) + 1e-3) + decay[i] * p[i][k]);
      }
    }
    optimizer.Step(learning_rate, scale);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<double> values = parameters[i].value.value().ToVector<double>();
      // A dozen roundings of numbers of order 1 in double.
      for (size_t k = 0; k < values.size(); ++k) ASSERT_NEAR(values[k], p[i][k], 1e-13) << parameters[i].name << k;
    }
  }
}

TEST(AdamWTest, MatchesThePlainAlgorithmWithBiasCorrection) {
  ExpectMatchesPlain(kernels::AdamWOptions::BiasCorrection::kYes);
}

TEST(AdamWTest, MatchesThePlainAlgorithmWithoutBiasCorrection) {
  ExpectMatchesPlain(kernels::AdamWOptions::BiasCorrection::kNo);
}

TEST(AdamWTest, StateIsBothMomentsAndTheStep) {
  const NamedParameter parameter = Leaf("w", {2, 3});
  AdamW optimizer({parameter});
  parameter.value.SetGrad(RandomGradient(parameter, 0));
  optimizer.Step(0.1);
  const std::vector<NamedTensor> state = optimizer.State();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[0].tensor.Item(), 1);
  EXPECT_EQ(state[1].name, "w.m");
  EXPECT_EQ(state[2].name, "w.v");
}

TEST(AdamWTest, RefusesImpossibleConstants) {
  EXPECT_THROW(AdamW({}, {.beta1 = 1.0}), Error);
  EXPECT_THROW(AdamW({}, {.epsilon = 0.0}), Error);
  EXPECT_THROW(AdamW({}, {.weight_decay = -1.0}), Error);
}

TEST(AdamWTest, WithoutParametersThereIsNothingToTrain) { EXPECT_THROW(AdamW({}), Error); }

TEST(AdamWTest, WhatIsNotTrainableHasNoStateAndDoesNotDecay) {
  std::vector<NamedParameter> parameters = {Leaf("frozen", {7, 9}, {7, 9}), Leaf("trained", {3, 5}, {3, 5})};
  parameters[0].trainable = false;
  const std::vector<double> frozen = parameters[0].value.value().ToVector<double>();
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  std::vector<std::string> names;
  for (const NamedTensor& slot : optimizer.State()) names.push_back(slot.name);
  EXPECT_EQ(names, (std::vector<std::string>{"step", "trained.m", "trained.v"}));
  for (const NamedParameter& parameter : parameters) parameter.value.SetGrad(RandomGradient(parameter, 1));
  optimizer.Step(0.1);
  EXPECT_EQ(parameters[0].value.value().ToVector<double>(), frozen);
}

void SetRandomGradient(const NamedParameter& parameter, uint32_t step) {
  parameter.value.SetGrad(RandomGradient(parameter, step));
}

std::vector<float> Values(const NamedParameter& parameter) { return parameter.value.value().ToVector<float>(); }

double Norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return std::sqrt(sum);
}

TEST(LambTest, AMatrixMovesByTheLearningRateTimesItsNorm) {
  for (const double weight_decay : {0.0, 0.3}) {
    const NamedParameter matrix = FloatLeaf("weight", {37, 53}, {37, 53});
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
    return std::vector<NamedParameter>{FloatLeaf("norm.scale", {9}), FloatLeaf("attention.b_q", {3, 4}),
                                       FloatLeaf("positions.table", {3, 5}, {3, 5})};
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
  const NamedParameter parameter = FloatLeaf("w", {5, 3}, {5, 3});
  Lamb optimizer({parameter});
  SetRandomGradient(parameter, 0);
  optimizer.Step(0.1);
  const std::vector<NamedTensor> state = optimizer.State();
  ASSERT_EQ(state.size(), 3u);
  EXPECT_EQ(state[1].name, "w.m");
  EXPECT_EQ(state[2].name, "w.v");
}

TEST(LambTest, RefusesImpossibleConstants) {
  const std::vector<NamedParameter> parameters = {FloatLeaf("w", {5, 3}, {5, 3})};
  EXPECT_EQ(testing::MessageOf([&] { Lamb(parameters, {.beta1 = 1.0}); }),
            "LAMB: beta1 = 1 and beta2 = 0.999 must be in [0, 1)");
  EXPECT_THROW(Lamb(parameters, {.epsilon = 0.0}), Error);
  EXPECT_THROW(Lamb(parameters, {.weight_decay = -1.0}), Error);
}

TEST(LambTest, BitsDoNotDependOnThreads) {
  const auto run = [](int threads) {
    const ThreadsScope scope(threads);
    const NamedParameter parameter = FloatLeaf("a", {517, 333}, {517, 333});
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

}  // namespace adam_test
}  // namespace crosstalk
