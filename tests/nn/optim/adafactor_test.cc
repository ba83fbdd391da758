#include "crosstalk/nn/optim/adafactor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace adafactor_test {

NamedParameter Leaf(const std::string& name, const Shape& shape, const Shape& matrix, DType dtype = DType::kFloat64,
                    double stddev = 1.0) {
  Tensor value = Tensor::Empty(shape, dtype);
  FillNormal(value, {.seed = 11, .stream = StreamId(name)}, 0.0, stddev);
  return {name, Variable(value, Variable::RequiresGrad::kYes), matrix, true};
}

Tensor RandomGradient(const NamedParameter& parameter, uint32_t step) {
  Tensor gradient = Tensor::Empty(parameter.value.shape(), parameter.value.dtype());
  FillNormal(gradient, {.seed = 12, .stream = StreamId(parameter.name), .step = step}, 0.0, 0.3);
  return gradient;
}

double Rms(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// Adafactor for one parameter written out from the publishers' code, in plain loops. cols = 0: not factored.
struct PlainAdafactor {
  int64_t rows = 0, cols = 0;
  std::vector<double> p, v, row, col;

  void Step(int64_t t, double learning_rate, double scale, const std::vector<double>& raw) {
    const double decay = 1.0 - std::pow(static_cast<double>(t) + 1.0, -0.8);
    std::vector<double> g(raw), u(raw.size());
    for (double& value : g) value *= scale;
    if (cols == 0) {
      v.resize(p.size(), 0.0);
      for (size_t i = 0; i < p.size(); ++i) {
        v[i] = decay * v[i] + (1 - decay) * (g[i] * g[i] + 1e-30);
        u[i] = g[i] / std::sqrt(v[i]);
      }
    } else {
      row.resize(static_cast<size_t>(rows), 0.0);
      col.resize(static_cast<size_t>(cols), 0.0);
      std::vector<double> row_mean(row.size(), 0.0), col_mean(col.size(), 0.0);
      for (size_t i = 0; i < row.size(); ++i) {
        for (size_t j = 0; j < col.size(); ++j) {
          const double square = g[i * col.size() + j] * g[i * col.size() + j] + 1e-30;
          row_mean[i] += square / static_cast<double>(cols);
          col_mean[j] += square / static_cast<double>(rows);
        }
      }
      double mean = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = decay * row[i] + (1 - decay) * row_mean[i];
        mean += row[i] / static_cast<double>(rows);
      }
      for (size_t j = 0; j < col.size(); ++j) col[j] = decay * col[j] + (1 - decay) * col_mean[j];
      for (size_t i = 0; i < row.size(); ++i) {
        for (size_t j = 0; j < col.size(); ++j) {
          const size_t at = i * col.size() + j;
          u[at] = g[at] / std::sqrt(row[i] / mean) / std::sqrt(col[j]);
        }
      }
    }
    const double clip = std::max(1.0, Rms(u) / 1.0);
    const double size = learning_rate * std::max(Rms(p), 1e-3);
    for (size_t i = 0; i < p.size(); ++i) p[i] -= size * u[i] / clip;
  }
};

TEST(AdafactorTest, MatchesThePlainAlgorithmStepByStep) {
  // Factored and not, on both sides of the threshold of 128, a projection of rank 3 seen as its matrix, a vector, a
  // parameter so small that the floor of its RMS holds.
  const std::vector<NamedParameter> parameters = {Leaf("square", {130, 129}, {130, 129}),
                                                  Leaf("at_threshold", {128, 128}, {128, 128}),
                                                  Leaf("below", {127, 300}, {127, 300}),
                                                  Leaf("projection", {128, 12, 11}, {128, 132}),
                                                  Leaf("no_matrix", {128, 12, 11}, {}),
                                                  Leaf("vector", {301}, {}),
                                                  Leaf("tiny", {7, 5}, {7, 5}, DType::kFloat64, 1e-5)};
  const std::vector<bool> factored = {true, true, false, true, false, false, false};
  Adafactor optimizer(parameters);
  std::vector<PlainAdafactor> plain(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(optimizer.IsFactored(i), factored[i]) << parameters[i].name;
    plain[i].p = parameters[i].value.value().ToVector<double>();
    if (factored[i]) {
      plain[i].rows = parameters[i].matrix_shape[0];
      plain[i].cols = parameters[i].matrix_shape[1];
    }
  }
  for (uint32_t t = 0; t < 4; ++t) {
    const double learning_rate = 0.01 / (t + 1), scale = t == 2 ? 0.25 : 1.0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor gradient = RandomGradient(parameters[i], t);
      parameters[i].value.SetGrad(gradient);
      plain[i].Step(t, learning_rate, scale, gradient.ToVector<double>());
    }
    optimizer.Step(learning_rate, scale);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<double> values = parameters[i].value.value().ToVector<double>();
      for (size_t k = 0; k < values.size(); ++k) {
        // Both in double; sums of up to 40,000 squares in another order differ by a few 1e-13 of themselves.
        ASSERT_NEAR(values[k], plain[i].p[k], 1e-12 * std::max(1.0, std::abs(plain[i].p[k])))
            << parameters[i].name << " element " << k << " step " << t;
      }
    }
  }
  EXPECT_EQ(optimizer.step(), 4);
}

TEST(AdafactorTest, FirstUpdateHasTheRmsOfParameterTimesLearningRate) {
  const NamedParameter parameter = Leaf("w", {40, 50}, {40, 50});
  const std::vector<double> before = parameter.value.value().ToVector<double>();
  Adafactor optimizer({parameter});
  parameter.value.SetGrad(RandomGradient(parameter, 0));
  optimizer.Step(0.01);
  std::vector<double> change = parameter.value.value().ToVector<double>();
  for (size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
  EXPECT_NEAR(Rms(change), 0.01 * Rms(before), 1e-12);  // decay is 0 at t = 0: u = ±1
}

TEST(AdafactorTest, StateGoesOutAndComesBackToTheSameBits) {
  const auto make = [] {
    return std::vector<NamedParameter>{Leaf("a", {130, 140}, {130, 140}, DType::kFloat32),
                                       Leaf("b", {33}, {}, DType::kFloat32)};
  };
  const auto train = [](Adafactor& optimizer, const std::vector<NamedParameter>& parameters, uint32_t begin,
                        uint32_t end) {
    for (uint32_t t = begin; t < end; ++t) {
      for (const NamedParameter& parameter : parameters) parameter.value.SetGrad(RandomGradient(parameter, t));
      optimizer.Step(0.01);
    }
  };
  const std::vector<NamedParameter> straight = make(), resumed = make();
  Adafactor optimizer(straight);
  train(optimizer, straight, 0, 3);
  std::vector<NamedTensor> state = optimizer.State();
  for (NamedTensor& entry : state) entry.tensor = entry.tensor.Clone();
  Adafactor second(resumed);
  for (size_t i = 0; i < resumed.size(); ++i) resumed[i].value.SetValue(straight[i].value.value().Clone());
  std::reverse(state.begin(), state.end());
  second.LoadState(state);
  EXPECT_EQ(second.step(), 3);
  train(optimizer, straight, 3, 6);
  train(second, resumed, 3, 6);
  for (size_t i = 0; i < resumed.size(); ++i) {
    EXPECT_EQ(straight[i].value.value().ToVector<float>(), resumed[i].value.value().ToVector<float>());
  }
  EXPECT_EQ(optimizer.StateBytes(), 4 * (130 + 140 + 33));
}

TEST(AdafactorTest, RefusesAStateThatDoesNotFitAndChangesNothing) {
  Adafactor optimizer({Leaf("a", {5}, {})});
  const std::vector<NamedTensor> good = optimizer.State();
  ASSERT_EQ(good.size(), 2u);
  EXPECT_EQ(good[0].name, "step");
  EXPECT_EQ(good[1].name, "a.v");
  const NamedTensor step = {"step", Tensor::FromValues<int64_t>({1}, std::vector<int64_t>{9})};
  const auto rejects = [&](const std::vector<NamedTensor>& state, const std::string& named) {
    testing::ExpectError([&] { optimizer.LoadState(state); }, ErrorKind::kData, {named});
    EXPECT_EQ(optimizer.step(), 0);
  };
  rejects({step}, "a.v");
  rejects({good[1]}, "step");
  rejects({step, {"a.v", Tensor::Zeros({6}, DType::kFloat64)}}, "a.v");
  rejects({step, {"a.v", Tensor::Zeros({5}, DType::kFloat32)}}, "a.v");
  rejects({step, good[1], {"b.v", Tensor::Zeros({5}, DType::kFloat64)}}, "b.v");
  rejects({step, good[1], good[1]}, "a.v");
}

TEST(AdafactorTest, LeavesFrozenParametersAndThoseWithoutGradient) {
  std::vector<NamedParameter> parameters = {Leaf("frozen", {5}, {}), Leaf("unreached", {5}, {})};
  parameters[0].trainable = false;
  const std::vector<double> frozen = parameters[0].value.value().ToVector<double>();
  const std::vector<double> unreached = parameters[1].value.value().ToVector<double>();
  parameters[0].value.SetGrad(RandomGradient(parameters[0], 0));
  Adafactor optimizer(parameters);
  optimizer.Step(0.1);
  EXPECT_EQ(parameters[0].value.value().ToVector<double>(), frozen);
  EXPECT_EQ(parameters[1].value.value().ToVector<double>(), unreached);
}

TEST(AdafactorTest, RefusesAScaleThatIsNotFinite) {
  const NamedParameter parameter = Leaf("w", {5}, {});
  Adafactor optimizer({parameter});
  parameter.value.SetGrad(RandomGradient(parameter, 0));
  const std::vector<double> before = parameter.value.value().ToVector<double>();
  testing::MessageOf([&] { optimizer.Step(0.1, std::numeric_limits<double>::quiet_NaN()); }, ErrorKind::kNumerical);
  EXPECT_EQ(parameter.value.value().ToVector<double>(), before);
  EXPECT_EQ(optimizer.step(), 0);
}

TEST(AdafactorTest, RefusesAnEpsilonThatMakesAZeroGradientNaN) {
  EXPECT_EQ(testing::MessageOf([&] { Adafactor optimizer({Leaf("w", {5}, {})}, {.epsilon1 = 0}); }),
            "Adafactor: epsilon1 = 0 must be positive");
}

TEST(AdafactorTest, BitsDoNotDependOnThreads) {
  const auto run = [](int threads) {
    const ThreadsScope scope(threads);
    const std::vector<NamedParameter> parameters = {Leaf("a", {517, 333}, {517, 333}, DType::kFloat32),
                                                    Leaf("b", {90001}, {}, DType::kFloat32)};
    Adafactor optimizer(parameters);
    std::vector<float> bits;
    for (uint32_t t = 0; t < 2; ++t) {
      for (const NamedParameter& parameter : parameters) parameter.value.SetGrad(RandomGradient(parameter, t));
      optimizer.Step(0.01);
    }
    for (const NamedParameter& parameter : parameters) {
      const std::vector<float> values = parameter.value.value().ToVector<float>();
      bits.insert(bits.end(), values.begin(), values.end());
    }
    return bits;
  };
  const std::vector<float> one = run(1);
  for (const int threads : {2, 3, 5, 8}) EXPECT_EQ(run(threads), one) << threads << " threads";
}

// A run that takes over another's state makes the steps that the other would have made next.
TEST(AdafactorTest, GoesOnFromAStateThatIsCarriedOver) {
  const Shape shape({130, 140});
  const NamedParameter a = Leaf("weight", shape, shape), b = Leaf("weight", shape, shape);
  const auto step = [](Adafactor& optimizer, const NamedParameter& parameter, uint32_t number) {
    parameter.value.SetGrad(RandomGradient(parameter, number));
    optimizer.Step(0.01);
  };
  Adafactor whole({a});
  for (uint32_t i = 0; i < 3; ++i) step(whole, a, i);
  b.value.value().CopyFrom(a.value.value());
  Adafactor carried({b});
  std::vector<NamedTensor> state = whole.State();
  for (NamedTensor& one : state) one.tensor = one.tensor.Clone();
  state.push_back({"frozen.v", Tensor::Zeros({3}, DType::kFloat64)});  // of a parameter that is not trained here
  carried.CarryOver(state);
  EXPECT_EQ(carried.step(), 0);
  for (uint32_t i = 3; i < 5; ++i) {
    step(whole, a, i);
    step(carried, b, i);
  }
  EXPECT_EQ(carried.step(), 2);
  EXPECT_EQ(a.value.value().ToVector<double>(), b.value.value().ToVector<double>());
  // The age goes with the state.
  Adafactor again({b});
  again.LoadState(carried.State());
  EXPECT_EQ(again.step(), 2);
  EXPECT_EQ(again.State().size(), carried.State().size());
  EXPECT_EQ(again.State()[1].name, "carried_steps");
  EXPECT_EQ(again.State()[1].tensor.ToVector<int64_t>(), std::vector<int64_t>{3});
  EXPECT_THROW(again.CarryOver(state), Error);
}

}  // namespace adafactor_test
}  // namespace crosstalk
