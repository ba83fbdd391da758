// What AdamW, LAMB and Adafactor share and where they differ, beside their equations (published_equations_test.cc).
#include <algorithm>
#include <cmath>
#include <limits>

#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/nn/optim/adam.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/messages.h"

namespace crosstalk::optimizers_test {

using Parameters = std::vector<NamedParameter>;

NamedParameter Leaf(const std::string& name, const Shape& shape, const Shape& matrix = {},
                    DType dtype = DType::kFloat32) {
  const Tensor value = Tensor::Empty(shape, dtype);
  FillNormal(value, {.seed = 11, .stream = StreamId(name)}, 0.0, 1.0);
  return {name, Variable(value, Variable::RequiresGrad::kYes), matrix, true};
}

void SetGradients(const Parameters& parameters, uint32_t step) {
  for (const NamedParameter& parameter : parameters) {
    const Tensor gradient = Tensor::Empty(parameter.value.shape(), parameter.value.dtype());
    FillNormal(gradient, {.seed = 12, .stream = StreamId(parameter.name), .step = step}, 0.0, 0.3);
    parameter.value.SetGrad(gradient);
  }
}
void Train(Optimizer& optimizer, const Parameters& parameters, uint32_t begin, uint32_t end) {
  for (uint32_t t = begin; t < end; ++t) {
    SetGradients(parameters, t);
    optimizer.Step(0.01);
  }
}
std::vector<std::vector<double>> Values(const Parameters& parameters) {
  std::vector<std::vector<double>> all;
  for (const NamedParameter& one : parameters) all.push_back(one.value.value().To(DType::kFloat64).ToVector<double>());
  return all;
}
std::vector<NamedTensor> CopyOfState(const Optimizer& optimizer) {
  std::vector<NamedTensor> state = optimizer.State();
  for (NamedTensor& entry : state) entry.tensor = entry.tensor.Clone();
  return state;
}

// Each optimizer, with the names of what it keeps of a matrix, "m" of 130 × 140, and of a vector, "v" of 33.
struct Case {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(Parameters)> make;
  std::vector<std::string> state;
  int64_t state_bytes;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class EveryOptimizerTest : public ::testing::TestWithParam<Case> {
 protected:
  static Parameters Two() { return {Leaf("m", {130, 140}, {130, 140}), Leaf("v", {33})}; }
  static std::unique_ptr<Optimizer> Make(const Parameters& parameters) { return GetParam().make(parameters); }
};
INSTANTIATE_TEST_SUITE_P(All, EveryOptimizerTest,
                         ::testing::Values(Case{"AdamW",
                                                [](Parameters p) { return std::make_unique<AdamW>(std::move(p)); },
                                                {"step", "m.m", "m.v", "v.m", "v.v"},
                                                8 * (130 * 140 + 33)},
                                           Case{"LAMB",
                                                [](Parameters p) { return std::make_unique<Lamb>(std::move(p)); },
                                                {"step", "m.m", "m.v", "v.m", "v.v"},
                                                8 * (130 * 140 + 33)},
                                           Case{"Adafactor",
                                                [](Parameters p) { return std::make_unique<Adafactor>(std::move(p)); },
                                                {"step", "m.v_row", "m.v_col", "v.v"},
                                                4 * (130 + 140 + 33)}),
                         [](const auto& info) { return info.param.name; });

TEST_P(EveryOptimizerTest, StateGoesOutAndComesBackToTheSameBits) {
  const Parameters straight = Two(), resumed = Two();
  const auto first = Make(straight), second = Make(resumed);
  Train(*first, straight, 0, 3);
  std::vector<NamedTensor> state = CopyOfState(*first);
  std::vector<std::string> names;
  for (const NamedTensor& entry : state) names.push_back(entry.name);
  EXPECT_EQ(names, GetParam().state);
  EXPECT_EQ(first->StateBytes(), GetParam().state_bytes);
  for (size_t i = 0; i < resumed.size(); ++i) resumed[i].value.SetValue(straight[i].value.value().Clone());
  std::reverse(state.begin(), state.end());
  second->LoadState(state);
  EXPECT_EQ(second->step(), 3);
  Train(*first, straight, 3, 6);
  Train(*second, resumed, 3, 6);
  EXPECT_EQ(Values(resumed), Values(straight));
}

// A run that takes over another's state makes the steps that the other would have made next.
TEST_P(EveryOptimizerTest, GoesOnFromAStateThatIsCarriedOver) {
  const Parameters a = Two(), b = Two();
  const auto whole = Make(a), carried = Make(b), again = Make(b);
  Train(*whole, a, 0, 3);
  for (size_t i = 0; i < b.size(); ++i) b[i].value.value().CopyFrom(a[i].value.value());
  std::vector<NamedTensor> state = CopyOfState(*whole);
  state.push_back({"frozen.v", Tensor::Zeros({3}, DType::kFloat32)});  // of a parameter that is not trained here
  carried->CarryOver(state);
  EXPECT_EQ(carried->step(), 0);
  Train(*whole, a, 3, 5);
  Train(*carried, b, 3, 5);
  EXPECT_EQ(carried->step(), 2);
  EXPECT_EQ(Values(a), Values(b));
  // The age goes with the state.
  again->LoadState(carried->State());
  EXPECT_EQ(again->step(), 2);
  ASSERT_EQ(again->State().size(), carried->State().size());
  EXPECT_EQ(again->State()[1].name, "carried_steps");
  EXPECT_EQ(again->State()[1].tensor.ToVector<int64_t>(), std::vector<int64_t>{3});
  EXPECT_THROW(again->CarryOver(state), Error);
}

TEST_P(EveryOptimizerTest, AStateThatDoesNotFitIsRefusedAndChangesNothing) {
  const auto optimizer = Make(Two());
  const std::vector<NamedTensor> good = CopyOfState(*optimizer);
  const std::string& last = good.back().name;
  const auto with = [&](const auto& change) {
    std::vector<NamedTensor> state = good;
    state[0].tensor = Tensor::Full({1}, 9, DType::kInt64);
    change(state);
    return state;
  };
  using State = std::vector<NamedTensor>;
  testing::ExpectRefused<State>(
      {{"a part missing", with([](State& s) { s.pop_back(); }), {last}},
       {"the step missing", with([](State& s) { s.erase(s.begin()); }), {"step"}},
       {"another shape", with([](State& s) { s.back().tensor = Tensor::Zeros({34}, DType::kFloat32); }), {last}},
       {"another type", with([](State& s) { s.back().tensor = Tensor::Zeros({33}, DType::kFloat64); }), {last}},
       {"one too many",
        with([](State& s) {
          s.push_back({"b.v", s.back().tensor});
        }),
        {"b.v"}},
       {"one twice", with([](State& s) { s.push_back(s.back()); }), {last}}},
      [&](const State& state) { optimizer->LoadState(state); }, ErrorKind::kData);
  EXPECT_EQ(optimizer->step(), 0);
}

TEST_P(EveryOptimizerTest, WhatIsFrozenHasNoStateAndWhatHasNoGradientStays) {
  Parameters parameters = {Leaf("frozen", {7, 9}, {7, 9}), Leaf("unreached", {5}), Leaf("trained", {3})};
  parameters[0].trainable = false;
  const auto before = Values(parameters);
  const auto optimizer = Make(parameters);
  for (const NamedTensor& slot : optimizer->State()) EXPECT_FALSE(slot.name.starts_with("frozen")) << slot.name;
  SetGradients({parameters[0], parameters[2]}, 1);
  optimizer->Step(0.1);
  const auto after = Values(parameters);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[1], before[1]);
  EXPECT_NE(after[2], before[2]);
}

TEST_P(EveryOptimizerTest, RatesAndScalesThatCannotBeAndNoParametersAreRefused) {
  EXPECT_THROW(Make({}), Error);
  const Parameters parameters = Two();
  const auto optimizer = Make(parameters);
  SetGradients(parameters, 0);
  const auto before = Values(parameters);
  testing::MessageOf([&] { optimizer->Step(0.1, std::numeric_limits<double>::quiet_NaN()); }, ErrorKind::kNumerical);
  testing::ExpectError([&] { optimizer->Step(-1); }, ErrorKind::kUsage, {"learning_rate", "-1 is negative"});
  testing::ExpectError([&] { optimizer->Step(0.1, -2); }, ErrorKind::kUsage, {"gradient_scale", "-2 is negative"});
  EXPECT_EQ(Values(parameters), before);
  EXPECT_EQ(optimizer->step(), 0);
}

TEST(OptimizerConstantsTest, ImpossibleOnesAreRefused) {
  const auto adam = [](const kernels::AdamWOptions& options) {
    return [options] { AdamW({Leaf("w", {5})}, options); };
  };
  const auto lamb = [](const kernels::AdamWOptions& options) { return [options] { Lamb({Leaf("w", {5})}, options); }; };
  const std::string betas = " beta1 = 1 and beta2 = 0.999 must be in [0, 1)";
  testing::ExpectRefused(
      {{"AdamW's beta1", adam({.beta1 = 1.0}), {betas}},
       {"AdamW's epsilon", adam({.epsilon = 0.0}), {"epsilon"}},
       {"AdamW's decay", adam({.weight_decay = -1.0}), {"weight_decay"}},
       {"an endless decay", adam({.weight_decay = std::numeric_limits<double>::infinity()}), {"weight_decay = inf"}},
       {"LAMB's beta1", lamb({.beta1 = 1.0}), {"LAMB:" + betas}},
       {"LAMB's epsilon", lamb({.epsilon = 0.0}), {"epsilon"}},
       {"LAMB's decay", lamb({.weight_decay = -1.0}), {"weight_decay"}},
       {"Adafactor's epsilon, of which a zero gradient becomes NaN",
        [] { Adafactor({Leaf("w", {5})}, {.epsilon1 = 0}); },
        {"Adafactor: epsilon1 = 0 must be positive"}}});
}

// Norms, biases, those of heads, and what no_decay names do not decay, and LAMB does not adapt them: it is AdamW there.
TEST(LambTest, WhatIsLeftOutHasTheUpdateOfAdamW) {
  const auto make = [] {
    return Parameters{Leaf("norm.scale", {9}), Leaf("attention.b_q", {3, 4}), Leaf("positions.table", {3, 5}, {3, 5}),
                      Leaf("dense.weight", {7, 9}, {7, 9})};
  };
  const Parameters ours = make(), theirs = make();
  const kernels::AdamWOptions config = {.bias_correction = kernels::AdamWOptions::BiasCorrection::kNo};
  Lamb lamb(ours, config, {"positions"});
  AdamW adamw(theirs, config, {"positions"});
  Train(lamb, ours, 0, 3);
  Train(adamw, theirs, 0, 3);
  const auto a = Values(ours), b = Values(theirs);
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(lamb.Adapts(i), i == 3) << ours[i].name;
    EXPECT_EQ(adamw.Decays(i), i == 3) << ours[i].name;
    EXPECT_EQ(a[i] == b[i], i < 3) << ours[i].name;
  }
}

// On both sides of the threshold of 128, and a projection of rank 3 seen as its matrix.
TEST(AdafactorTest, FactorsMatricesOfAtLeast128) {
  const std::pair<NamedParameter, bool> kCases[] = {
      {Leaf("square", {130, 129}, {130, 129}), true}, {Leaf("at_threshold", {128, 128}, {128, 128}), true},
      {Leaf("below", {127, 300}, {127, 300}), false}, {Leaf("projection", {128, 12, 11}, {128, 132}), true},
      {Leaf("no_matrix", {128, 12, 11}), false},      {Leaf("vector", {301}), false}};
  for (const auto& [parameter, factored] : kCases) {
    EXPECT_EQ(Adafactor({parameter}).IsFactored(0), factored) << parameter.name;
  }
}

}  // namespace crosstalk::optimizers_test
