// Every optimizer over hundreds of steps beside its published equations, evaluated here in double, line by line, by
// loops that share nothing with the kernels or their reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk::published_equations_test {

constexpr int kSteps = 250;
using Values = std::vector<double>;

struct Case {
  std::string name;
  Shape shape;
  Shape matrix;          // as the optimizers see it; of rank 0: none
  double size;           // standard deviation of the initial values
  double gradient_size;  // and of the gradients, whose mean is half of that
  bool is_matrix() const { return matrix.rank() == 2; }
};

// Matrices, vectors, some that begin as zeros, and some of which no gradient is ever other than zero.
const std::vector<Case> kCases = {{"small", {7, 9}, {7, 9}, 1, 3},   {"flat", {1, 70}, {1, 70}, 0.1, 1e-2},
                                  {"vector", {33}, {}, 1, 1e-3},     {"zeros", {5, 11}, {5, 11}, 0, 0.1},
                                  {"zero_vector", {11}, {}, 0, 0.1}, {"still", {5, 3}, {5, 3}, 1, 0},
                                  {"still_vector", {5}, {}, 1, 0},   {"all_zero", {4, 4}, {4, 4}, 0, 0}};

// Numbers that float holds, so that both precisions begin alike.
Tensor Random(const Case& one, uint64_t seed, uint32_t step, double mean, double size, DType dtype) {
  const Tensor values = Tensor::Empty(one.shape, DType::kFloat32);
  FillNormal(values, {.seed = seed, .stream = StreamId(one.name), .step = step}, mean, size);
  return values.To(dtype);
}

double Norm(const Values& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

// What the equations keep of one parameter.
struct State {
  Values p, m, v, v_row, v_col;
};
// One step of one parameter: t = 1, 2, …
using Equations = std::function<void(const Case& one, State& state, const Values& g, int t, double learning_rate)>;

struct Constants {
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-6, weight_decay = 0.05;
};

// Adam's update with decoupled decay: Loshchilov and Hutter 2019, algorithm 2, or, uncorrected, BERT's optimization.py.
Values AdamUpdate(const Constants& c, bool corrected, bool decays, State& s, const Values& g, int t) {
  s.m.resize(g.size());
  s.v.resize(g.size());
  Values u(g.size());
  for (size_t i = 0; i < g.size(); ++i) {
    s.m[i] = c.beta1 * s.m[i] + (1 - c.beta1) * g[i];
    s.v[i] = c.beta2 * s.v[i] + (1 - c.beta2) * g[i] * g[i];
    const double m_hat = corrected ? s.m[i] / (1 - std::pow(c.beta1, t)) : s.m[i];
    const double v_hat = corrected ? s.v[i] / (1 - std::pow(c.beta2, t)) : s.v[i];
    u[i] = m_hat / (std::sqrt(v_hat) + c.epsilon) + (decays ? c.weight_decay * s.p[i] : 0);
  }
  return u;
}

Equations AdamWEquations(const Constants& c, bool corrected) {
  return [=](const Case& one, State& s, const Values& g, int t, double learning_rate) {
    const Values u = AdamUpdate(c, corrected, one.is_matrix(), s, g, t);
    for (size_t i = 0; i < g.size(); ++i) s.p[i] -= learning_rate * u[i];
  };
}

// You et al. 2020, algorithm 2 (corrected), and ALBERT's lamb_optimizer.py (not).
Equations LambEquations(const Constants& c, bool corrected) {
  return [=](const Case& one, State& s, const Values& g, int t, double learning_rate) {
    const Values u = AdamUpdate(c, corrected, one.is_matrix(), s, g, t);
    const double of_parameter = Norm(s.p), of_update = Norm(u);
    const double ratio = one.is_matrix() && of_parameter > 0 && of_update > 0 ? of_parameter / of_update : 1;
    for (size_t i = 0; i < g.size(); ++i) s.p[i] -= learning_rate * ratio * u[i];
  };
}

// Shazeer and Stern 2018, algorithms 4 and 5, without momentum and with Mesh TensorFlow's constants.
void AdafactorEquations(const Case& one, State& s, const Values& g, int t, double learning_rate) {
  const double decay = 1 - std::pow(t, -0.8);
  Values u(g.size());
  if (one.is_matrix() && one.matrix[0] >= 128 && one.matrix[1] >= 128) {
    const size_t rows = static_cast<size_t>(one.matrix[0]), cols = static_cast<size_t>(one.matrix[1]);
    s.v_row.resize(rows);
    s.v_col.resize(cols);
    Values row(rows), col(cols);
    for (size_t i = 0; i < g.size(); ++i) {
      row[i / cols] += (g[i] * g[i] + 1e-30) / static_cast<double>(cols);
      col[i % cols] += (g[i] * g[i] + 1e-30) / static_cast<double>(rows);
    }
    double mean = 0;
    for (size_t i = 0; i < rows; ++i) s.v_row[i] = decay * s.v_row[i] + (1 - decay) * row[i];
    for (size_t j = 0; j < cols; ++j) s.v_col[j] = decay * s.v_col[j] + (1 - decay) * col[j];
    for (const double v : s.v_row) mean += v / static_cast<double>(rows);
    for (size_t i = 0; i < g.size(); ++i) u[i] = g[i] / std::sqrt(s.v_row[i / cols] * s.v_col[i % cols] / mean);
  } else {
    s.v.resize(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      s.v[i] = decay * s.v[i] + (1 - decay) * (g[i] * g[i] + 1e-30);
      u[i] = g[i] / std::sqrt(s.v[i]);
    }
  }
  const double root = std::sqrt(static_cast<double>(g.size()));
  const double step = learning_rate * std::max(Norm(s.p) / root, 1e-3) / std::max(1.0, Norm(u) / root);
  for (size_t i = 0; i < g.size(); ++i) s.p[i] -= step * u[i];
}

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<NamedParameter>)>;

void ExpectTheEquations(const std::vector<Case>& cases, const Make& make, const Equations& equations, DType dtype) {
  std::vector<NamedParameter> parameters;
  std::vector<State> states(cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& one = cases[i];
    const Tensor value = Random(one, 1, 0, 0, one.size, dtype);
    states[i].p = value.To(DType::kFloat64).ToVector<double>();
    parameters.push_back({one.name, Variable(value.Clone(), Variable::RequiresGrad::kYes), one.matrix, true});
  }
  const std::unique_ptr<Optimizer> optimizer = make(parameters);
  std::vector<double> largest(cases.size(), 1e-3);
  for (int t = 1; t <= kSteps; ++t) {
    const double learning_rate = 0.01 * t / kSteps, scale = t % 3 == 0 ? 0.25 : 1;  // of the gradients
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& one = cases[i];
      const Tensor gradient = Random(one, 2, static_cast<uint32_t>(t), one.gradient_size / 2, one.gradient_size, dtype);
      parameters[i].value.SetGrad(gradient);
      Values g = gradient.To(DType::kFloat64).ToVector<double>();
      for (double& v : g) v *= scale;
      equations(one, states[i], g, t, learning_rate);
      for (const double v : states[i].p) largest[i] = std::max(largest[i], std::abs(v));
    }
    optimizer->Step(learning_rate, scale);
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    // In each step the parameter is rounded once, which errs by 2^-24 of it at most and now up, now down; its update is
    // a hundredth of it and has a few roundings of its own.
    const double bound = dtype == DType::kFloat64 ? 1e-12 : 4 * std::sqrt(kSteps) * 0x1p-24 * largest[i];
    const Values actual = parameters[i].value.value().To(DType::kFloat64).ToVector<double>();
    for (size_t k = 0; k < actual.size(); ++k) {
      ASSERT_NEAR(actual[k], states[i].p[k], bound) << cases[i].name << "[" << k << "] " << dtype;
    }
  }
}

void ExpectTheEquations(const std::vector<Case>& cases, const Make& make, const Equations& equations) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) ExpectTheEquations(cases, make, equations, dtype);
}

kernels::AdamWOptions ConfigOf(const Constants& c, bool corrected) {
  return {.beta1 = c.beta1,
          .beta2 = c.beta2,
          .epsilon = c.epsilon,
          .weight_decay = c.weight_decay,
          .bias_correction =
              corrected ? kernels::AdamWOptions::BiasCorrection::kYes : kernels::AdamWOptions::BiasCorrection::kNo};
}

TEST(PublishedEquationsTest, AdamWAndLamb) {
  for (const bool corrected : {false, true}) {
    const Constants c;
    const kernels::AdamWOptions config = ConfigOf(c, corrected);
    ExpectTheEquations(
        kCases, [&](auto parameters) { return std::make_unique<AdamW>(std::move(parameters), config); },
        AdamWEquations(c, corrected));
    ExpectTheEquations(
        kCases, [&](auto parameters) { return std::make_unique<Lamb>(std::move(parameters), config); },
        LambEquations(c, corrected));
  }
}

TEST(PublishedEquationsTest, Adafactor) {
  std::vector<Case> cases = kCases;
  cases.push_back({"factored", {131, 128}, {131, 128}, 0.1, 1e-2});
  cases.push_back({"projection", {128, 12, 11}, {128, 132}, 0.1, 1e-2});
  cases.push_back({"no matrix", {130, 13, 11}, {}, 0.1, 1e-2});
  ExpectTheEquations(
      cases, [](auto parameters) { return std::make_unique<Adafactor>(std::move(parameters)); }, AdafactorEquations);
}

}  // namespace crosstalk::published_equations_test
