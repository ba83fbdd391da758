#include "crosstalk/nn/attention/attention.h"

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/attention_cases.h"
#include "tests/support/messages.h"

namespace crosstalk::attention_test {

constexpr HeadMixing kStatic = {.P_l = true, .P_w = true};
constexpr HeadMixing kAll = {.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true};

// Expects the same values, and the same gradients of all inputs that both sides name.
void ExpectSameResults(const std::vector<NamedArray>& actual, const std::vector<NamedArray>& expected,
                       const std::vector<std::string>& names) {
  std::map<std::string, Array<double>> by_name;
  for (const NamedArray& result : actual) by_name[result.name] = result.array;
  for (const NamedArray& result : expected) {
    if (std::find(names.begin(), names.end(), result.name) == names.end()) continue;
    EXPECT_TRUE(CloseTo(by_name[result.name], result.array, 1e-12)) << result.name;
  }
}

Array<double> Identity(int64_t size) {
  Array<double> identity({size, size});
  for (int64_t i = 0; i < size; ++i) identity(i, i) = 1;
  return identity;
}

Array<double> EinsumArrays(const char* equation, const std::vector<Array<double>>& operands) {
  std::vector<Variable> variables;
  for (const Array<double>& operand : operands) variables.emplace_back(ToTensor(operand));
  return ToArray(Einsum(equation, variables).value());
}

// Equalities of the paper: `left` of changed inputs gives what `right` gives of its own.
TEST(AttentionTest, OneKindIsACaseOfAnother) {
  const AttentionConfig multi_head = MixingConfig({}), talking = MixingConfig(kStatic);
  AttentionConfig bilinear = BilinearConfig(), scaled = MixingConfig(kAll), folded = MixingConfig(kAll);
  bilinear.h = multi_head.h;
  scaled.scale = 1 / std::sqrt(11.0);
  using Inputs = AttentionInputs<double>;
  // The two products of two projections each as one.
  const auto compose = [](Inputs& in, const char* of_P, const std::vector<Array<double>>& for_P, const char* of_Q,
                          const std::vector<Array<double>>& for_Q) {
    const Array<double> P = EinsumArrays(of_P, for_P), Q = EinsumArrays(of_Q, for_Q);
    in = {.X = in.X, .M = in.M, .P = P, .Q = Q, .mask = in.mask};
  };
  AttentionConfig square = MixingConfig({});
  square.mixing = kStatic;
  AttentionConfig dynamic = talking;
  dynamic.mixing = kAll;
  const std::vector<std::string> of_layer = {"Y", "W", "U", "dX", "dM", "dP_q", "dP_k", "dP_v", "dP_o", "dbias"};
  const struct {
    const char* name;
    AttentionConfig left, right;
    bool bias;
    std::function<void(Inputs&)> change;
    std::vector<std::string> results;
  } kCases[] = {
      {"identity projections make talking-heads multi-head", square, multi_head, true,
       [&](Inputs& in) { in.P_l = in.P_w = Identity(square.h); }, of_layer},
      {"generators of zero make dynamic projections static", dynamic, talking, true,
       [c = talking](Inputs& in) {
         in.P_Xl = Array<double>({c.d_X, c.h_k, c.h}), in.P_Ml = Array<double>({c.d_M, c.h_k, c.h});
         in.P_Xw = Array<double>({c.d_X, c.h, c.h_v}), in.P_Mw = Array<double>({c.d_M, c.h, c.h_v});
       },
       of_layer},
      {"multi-head is general bilinear",
       bilinear,
       multi_head,
       false,
       [&](Inputs& in) {
         compose(in, "P[d_X,d_M,h] = einsum(P_q[d_X,d_k,h], P_k[d_M,d_k,h])", {in.P_q, in.P_k},
                 "Q[d_M,d_Y,h] = einsum(P_v[d_M,d_v,h], P_o[d_Y,d_v,h])", {in.P_v, in.P_o});
       },
       {"Y", "W", "dX", "dM"}},
      {"talking-heads is general bilinear",
       bilinear,
       talking,
       false,
       [&](Inputs& in) {
         compose(in, "P[d_X,d_M,h] = einsum(P_q[d_X,d_k,h_k], P_k[d_M,d_k,h_k], P_l[h_k,h])", {in.P_q, in.P_k, in.P_l},
                 "Q[d_M,d_Y,h] = einsum(P_v[d_M,d_v,h_v], P_o[d_Y,d_v,h_v], P_w[h,h_v])", {in.P_v, in.P_o, in.P_w});
       },
       {"Y", "W", "dX", "dM"}},
      {"a scale may be folded into the queries",
       folded,
       scaled,
       false,
       [&](Inputs& in) {
         for (double& value : in.P_q.values()) value *= scaled.scale;
       },
       {"Y", "W", "U", "dX", "dM", "dP_k", "dP_v", "dP_o", "dP_l", "dP_Xl", "dP_Mw"}}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    const AttentionCase right{.name = c.name, .config = c.right, .pairs = true, .bias = c.bias};
    AttentionCase left = right;
    left.config = c.left;
    AttentionInputs<double> in = MakeInputs(right), changed = in;
    c.change(changed);
    changed.scale = c.left.scale;
    ExpectSameResults(LayerResults(left, changed, DType::kFloat64), LayerResults(right, in, DType::kFloat64),
                      c.results);
  }
}

TEST(AttentionTest, DropoutIsOfUAndInTrainingOnly) {
  AttentionConfig config = MixingConfig(kStatic);
  config.dropout_rate = 0.5;
  const AttentionModule layer(config, Initializer(3, DType::kFloat64).At("layer"));
  const AttentionModule same(config, Initializer(3, DType::kFloat64).At("layer"));
  const Variable X(ToTensor(RandomArray({3, 5, config.d_X}, 1, {.seed = 1, .stream = 1})));
  const Variable M(ToTensor(RandomArray({3, 7, config.d_M}, 1, {.seed = 1, .stream = 2})));
  const AttentionCallOptions options = {.outputs = AttentionOutputs::kWithWeights};
  const ForwardContext evaluation;
  const ForwardContext training = {.phase = ForwardContext::Phase::kTraining, .seed = 9, .step = 4};
  ForwardContext next_step = training;
  next_step.step = 5;

  const AttentionResult plain = layer.Forward(X, M, options, evaluation);
  const AttentionResult dropped = layer.Forward(X, M, options, training);
  EXPECT_TRUE(CloseTo(ToArray(dropped.W.value()), ToArray(plain.W.value()), 0));  // the weights are as they were
  int64_t zeros = 0, kept = 0;
  const Array<double> U = ToArray(plain.U.value()), dropped_U = ToArray(dropped.U.value());
  for (size_t i = 0; i < U.values().size(); ++i) {
    if (dropped_U.values()[i] == 0) {
      ++zeros;
    } else {
      ++kept;
      EXPECT_NEAR(dropped_U.values()[i], 2 * U.values()[i], 1e-12);
    }
  }
  // 945 draws at 1/2: six standard deviations are 92.
  EXPECT_NEAR(static_cast<double>(zeros), static_cast<double>(zeros + kept) / 2, 92);
  EXPECT_TRUE(CloseTo(ToArray(same.Forward(X, M, options, training).Y.value()), ToArray(dropped.Y.value()), 0));
  EXPECT_FALSE(CloseTo(ToArray(layer.Forward(X, M, options, next_step).Y.value()), ToArray(dropped.Y.value()), 1e-3));
}

std::map<std::string, NamedParameter> ByName(const AttentionModule& layer) {
  std::map<std::string, NamedParameter> parameters;
  for (const NamedParameter& parameter : layer.Parameters()) parameters[parameter.name] = parameter;
  return parameters;
}

double StandardDeviation(const NamedParameter& parameter) {
  double sum = 0;
  const std::vector<double> values = ToArray(parameter.value.value()).values();
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// A normal cut at two standard deviations has 0.8796 of the whole one's.
TEST(AttentionTest, InitialValuesAreTheAuthors) {
  const auto expect = [](const AttentionConfig& config, const std::map<std::string, double>& stddevs) {
    const auto p = ByName(AttentionModule(config, Initializer(3).At("layer")));
    for (const auto& [name, stddev] : stddevs) {
      EXPECT_NEAR(StandardDeviation(p.at(name)) / (0.8796 * stddev), 1, 0.04) << name;
      for (const double value : ToArray(p.at(name).value.value()).values()) {
        ASSERT_LE(std::abs(value), 2.0001 * stddev) << name;
      }
    }
  };
  AttentionConfig config = MixingConfig(kAll), bilinear = BilinearConfig();
  config.d_X = 200, config.d_M = 300, config.d_Y = 100;
  config.h_k = 40, config.h = 60, config.h_v = 50;
  expect(config, {{"P_q", 1 / std::sqrt(200.0 * 11)},
                  {"P_k", 1 / std::sqrt(300.0)},
                  {"P_v", 1 / std::sqrt(300.0)},
                  {"P_o", 1 / std::sqrt(50.0 * 13)},
                  {"P_l", 1 / std::sqrt(40.0)},
                  {"P_w", 1 / std::sqrt(60.0)},
                  {"P_Xl", 0.1 / std::sqrt(200.0 * 40)},
                  {"P_Ml", 0.1 / std::sqrt(300.0 * 40)},
                  {"P_Xw", 0.1 / std::sqrt(200.0 * 60)},
                  {"P_Mw", 0.1 / std::sqrt(300.0 * 60)}});
  config.scale = 1 / std::sqrt(11.0);
  expect(config, {{"P_q", 1 / std::sqrt(200.0)}});
  bilinear.h = 30;
  expect(bilinear, {{"P", 1 / std::sqrt(19.0 * 21)}, {"Q", 1 / std::sqrt(30.0 * 21)}});
}

TEST(AttentionTest, IdentityInitialisationStartsAsMultiHead) {
  AttentionConfig config = MixingConfig({});
  const AttentionModule multi_head(config, Initializer(3, DType::kFloat64).At("layer"));
  config.mixing = kStatic;
  config.mixing_init = MixingInit::kIdentity;
  const AttentionModule talking(config, Initializer(3, DType::kFloat64).At("layer"));
  const Variable X(ToTensor(RandomArray({3, 5, config.d_X}, 1, {.seed = 1, .stream = 1})));
  const Variable M(ToTensor(RandomArray({3, 7, config.d_M}, 1, {.seed = 1, .stream = 2})));
  EXPECT_TRUE(CloseTo(ToArray(talking.Forward(X, M, {}, {}).Y.value()),
                      ToArray(multi_head.Forward(X, M, {}, {}).Y.value()), 1e-12));
}

TEST(AttentionTest, MatricesOfOptimizersDoNotDependOnTheNumberOfHeads) {
  for (const int64_t heads : {4, 8, 32}) {
    auto p = ByName(AttentionModule(AttentionConfig::TalkingHeads(128, heads, heads, heads, 128 / heads, 128 / heads),
                                    Initializer(3).At("layer")));
    for (const char* name : {"P_q", "P_k", "P_v", "P_o"}) EXPECT_EQ(p.at(name).matrix_shape, Shape({128, 128})) << name;
  }
}

TEST(AttentionTest, ParametersAreThoseThatTheCostCounts) {
  for (const AttentionCase& c : AttentionCases()) {
    const AttentionModule layer(c.config, Initializer(3).At("layer"));
    EXPECT_EQ(layer.NumParameters(), CostOf(c.config, c.n, c.m).parameters) << c;
  }
}

TEST(AttentionTest, ErrorsNameTheDimension) {
  const AttentionConfig config = MixingConfig(kStatic);
  const AttentionModule layer(config, Initializer(3).At("layer"));
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::Zeros(shape, DType::kFloat32)); };
  AttentionConfig causal = SelfConfig(config);
  causal.causality = Causality::kCausal;
  const AttentionModule decoder(causal, Initializer(3).At("layer"));
  const Variable X = zeros({3, 5, 19}), M = zeros({3, 7, 21});
  struct Call {
    const AttentionModule* of;
    Variable X, M;
    AttentionCallOptions options;
  };
  testing::ExpectRefused<Call>(
      {{"another width of X", {&layer, zeros({3, 5, 20}), M, {}}, {"d_X=20"}},
       {"another width of M", {&layer, X, zeros({3, 7, 19}), {}}, {"d_M=19"}},
       {"another batch", {&layer, X, zeros({2, 7, 21}), {}}, {"b=2"}},
       {"a bias of another size", {&layer, X, M, {.bias = zeros({7, 5, 9})}}, {"m=9"}},
       {"a mask of another size", {&layer, X, M, {.key_padding_mask = Tensor::Zeros({3, 5}, DType::kBool)}}, {"m=5"}},
       {"a mask of numbers", {&layer, X, M, {.attention_mask = Tensor::Zeros({3, 5, 7}, DType::kInt32)}}, {"not bool"}},
       {"causal over another memory", {&decoder, X, zeros({3, 7, 19}), {}}, {"causal"}}},
      [](const Call& call) { call.of->Forward(call.X, call.M, call.options, {}); });
}

}  // namespace crosstalk::attention_test
