#include "crosstalk/nn/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/attention_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace attention_test {

using testing::MessageOf;

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

// ---- Equalities of the paper -------------------------------------------------------------------------------------
TEST(AttentionTest, IdentityProjectionsMakeTalkingHeadsMultiHead) {
  const AttentionCase multi_head{.name = "multi-head", .config = MixingConfig({}), .pairs = true, .bias = true};
  AttentionCase talking = multi_head;
  talking.config.mixing = kStatic;
  const AttentionInputs<double> in = MakeInputs(multi_head);
  AttentionInputs<double> with_identity = in;
  with_identity.P_l = Identity(talking.config.h);
  with_identity.P_w = Identity(talking.config.h);
  ExpectSameResults(LayerResults(talking, with_identity, DType::kFloat64),
                    LayerResults(multi_head, in, DType::kFloat64),
                    {"Y", "W", "U", "dX", "dM", "dP_q", "dP_k", "dP_v", "dP_o", "dbias"});
}

TEST(AttentionTest, ZeroGeneratorsMakeDynamicStatic) {
  const AttentionCase fixed{.name = "static", .config = MixingConfig(kStatic), .pairs = true, .bias = true};
  AttentionCase dynamic = fixed;
  dynamic.config.mixing = kAll;
  const AttentionInputs<double> in = MakeInputs(fixed);
  AttentionInputs<double> with_zeros = in;
  const AttentionConfig& c = fixed.config;
  with_zeros.P_Xl = Array<double>({c.d_X, c.h_k, c.h});
  with_zeros.P_Ml = Array<double>({c.d_M, c.h_k, c.h});
  with_zeros.P_Xw = Array<double>({c.d_X, c.h, c.h_v});
  with_zeros.P_Mw = Array<double>({c.d_M, c.h, c.h_v});
  ExpectSameResults(LayerResults(dynamic, with_zeros, DType::kFloat64), LayerResults(fixed, in, DType::kFloat64),
                    {"Y", "W", "U", "dX", "dM", "dP_q", "dP_k", "dP_v", "dP_o", "dP_l", "dP_w", "dbias"});
}

Array<double> EinsumArrays(const char* equation, const std::vector<Array<double>>& operands) {
  std::vector<Variable> variables;
  for (const Array<double>& operand : operands) variables.emplace_back(ToTensor(operand));
  return ToArray(Einsum(equation, variables).value());
}

TEST(AttentionTest, MultiHeadIsGeneralBilinear) {
  const AttentionCase multi_head{.name = "multi-head", .config = MixingConfig({}), .pairs = true};
  AttentionInputs<double> in = MakeInputs(multi_head);
  AttentionCase bilinear = multi_head;
  bilinear.config = BilinearConfig();
  bilinear.config.h = multi_head.config.h;
  AttentionInputs<double> composed;
  composed.X = in.X;
  composed.M = in.M;
  composed.mask = in.mask;
  composed.P = EinsumArrays("P[d_X,d_M,h] = einsum(P_q[d_X,d_k,h], P_k[d_M,d_k,h])", {in.P_q, in.P_k});
  composed.Q = EinsumArrays("Q[d_M,d_Y,h] = einsum(P_v[d_M,d_v,h], P_o[d_Y,d_v,h])", {in.P_v, in.P_o});
  ExpectSameResults(LayerResults(bilinear, composed, DType::kFloat64), LayerResults(multi_head, in, DType::kFloat64),
                    {"Y", "W", "dX", "dM"});
}

TEST(AttentionTest, TalkingHeadsIsGeneralBilinear) {
  const AttentionCase talking{.name = "talking", .config = MixingConfig(kStatic), .pairs = true};
  const AttentionInputs<double> in = MakeInputs(talking);
  AttentionCase bilinear = talking;
  bilinear.config = BilinearConfig();
  bilinear.config.h = talking.config.h;
  AttentionInputs<double> composed;
  composed.X = in.X;
  composed.M = in.M;
  composed.mask = in.mask;
  composed.P =
      EinsumArrays("P[d_X,d_M,h] = einsum(P_q[d_X,d_k,h_k], P_k[d_M,d_k,h_k], P_l[h_k,h])", {in.P_q, in.P_k, in.P_l});
  composed.Q =
      EinsumArrays("Q[d_M,d_Y,h] = einsum(P_v[d_M,d_v,h_v], P_o[d_Y,d_v,h_v], P_w[h,h_v])", {in.P_v, in.P_o, in.P_w});
  ExpectSameResults(LayerResults(bilinear, composed, DType::kFloat64), LayerResults(talking, in, DType::kFloat64),
                    {"Y", "W", "dX", "dM"});
}

TEST(AttentionTest, AnExplicitScaleEqualsOneFoldedIntoTheQueries) {
  AttentionCase explicit_scale{.name = "explicit", .config = MixingConfig(kAll)};
  explicit_scale.config.scale = 1 / std::sqrt(11.0);
  AttentionInputs<double> in = MakeInputs(explicit_scale);
  AttentionCase folded = explicit_scale;
  folded.config.scale = 1;
  AttentionInputs<double> folded_in = in;
  for (double& value : folded_in.P_q.values()) value *= explicit_scale.config.scale;
  ExpectSameResults(LayerResults(explicit_scale, in, DType::kFloat64), LayerResults(folded, folded_in, DType::kFloat64),
                    {"Y", "W", "U", "dX", "dM", "dP_k", "dP_v", "dP_o", "dP_l", "dP_Xl", "dP_Mw"});
}

// ---- Masks -------------------------------------------------------------------------------------------------------
TEST(AttentionTest, MaskedPositionsChangeNothing) {
  for (const AttentionConfig& config : {DotProductConfig(), MixingConfig({}), MixingConfig(kAll), BilinearConfig()}) {
    SCOPED_TRACE(ToString(config));
    const AttentionCase c{.name = "padding", .config = config, .padding = true};
    const AttentionInputs<double> in = MakeInputs(c);
    AttentionInputs<double> other = in;  // with other vectors at the masked positions
    for (int64_t b = 0; b < c.b; ++b)
      for (int64_t j = 0; j < c.m; ++j)
        for (int64_t d = 0; d < config.d_M; ++d)
          if (!in.mask(b, int64_t{0}, j)) other.M(b, j, d) = 100 * (d + 1);
    const std::vector<NamedArray> expected = LayerResults(c, in, DType::kFloat64);
    const std::vector<NamedArray> actual = LayerResults(c, other, DType::kFloat64);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(CloseTo(actual[i].array, expected[i].array, 1e-12)) << expected[i].name;
      if (expected[i].name != "dM") continue;
      for (int64_t b = 0; b < c.b; ++b)
        for (int64_t j = 0; j < c.m; ++j)
          for (int64_t d = 0; d < config.d_M; ++d)
            EXPECT_TRUE(in.mask(b, int64_t{0}, j) || actual[i].array(b, j, d) == 0) << b << " " << j;
    }
  }
}

// A bias in P_w's place, or a mask before P_l, would break this.
TEST(AttentionTest, AWhollyMaskedQueryGivesZerosAndNoGradient) {
  for (const AttentionConfig& config : {DotProductConfig(), MixingConfig({}), MixingConfig(kAll), BilinearConfig()}) {
    SCOPED_TRACE(ToString(config));
    const AttentionCase c{.name = "masked", .config = config, .padding = true, .pairs = true, .bias = true};
    const int64_t masked_query = c.n / 2;
    for (const NamedArray& result : LayerResults(c, MakeInputs(c), DType::kFloat32)) {
      for (const double value : result.array.values()) ASSERT_TRUE(std::isfinite(value)) << result.name;
      if (result.name != "Y" && result.name != "W" && result.name != "U" && result.name != "dX") continue;
      const int64_t row = static_cast<int64_t>(result.array.values().size()) / (c.b * c.n);
      for (int64_t i = 0; i < row; ++i) {
        EXPECT_EQ(result.array.values()[(0 * c.n + masked_query) * row + i], 0) << result.name;
        EXPECT_EQ(result.array.values()[(1 * c.n + 0) * row + i], 0) << result.name;  // example 1 is all padding
      }
    }
  }
}

TEST(AttentionTest, CausalQueriesSeeNothingLater) {
  AttentionConfig config = SelfConfig(MixingConfig(kAll));
  config.causality = Causality::kCausal;
  const AttentionModule layer(config, Initializer(3, DType::kFloat64).At("layer"));
  const Tensor X = ToTensor(RandomArray({3, 9, config.d_X}, 1, {.seed = 1, .stream = 1}));
  const Tensor changed = X.Clone();
  changed.Slice(1, 5, 9).Fill(7);
  const Tensor before = layer.Forward(Variable(X), Variable(X), {}, {}).Y.value();
  const Tensor after = layer.Forward(Variable(changed), Variable(changed), {}, {}).Y.value();
  EXPECT_TRUE(CloseTo(ToArray(after.Slice(1, 0, 5)), ToArray(before.Slice(1, 0, 5)), 1e-12));
  EXPECT_FALSE(CloseTo(ToArray(after.Slice(1, 5, 9)), ToArray(before.Slice(1, 5, 9)), 1e-3));
}

// ---- Gradients, independent of the plain loops -------------------------------------------------------------------
TEST(AttentionTest, GradientsOfEveryInputAndParameter) {
  for (const AttentionConfig& full : {MixingConfig({}), MixingConfig(kAll), BilinearConfig()}) {
    AttentionConfig config = full;
    config.scale = 0.75;
    SCOPED_TRACE(ToString(config));
    const AttentionCase c{.name = "gradients", .config = config, .n = 5, .m = 7, .pairs = true, .bias = true};
    const AttentionInputs<double> in = MakeInputs(c);
    const AttentionModule layer(config, Initializer(3, DType::kFloat64).At("layer"));
    std::vector<Tensor> inputs = {ToTensor(in.X), ToTensor(in.M), ToTensor(in.bias)};
    for (const NamedParameter& parameter : layer.Parameters()) inputs.push_back(parameter.value.value());
    const AttentionCallOptions masks = ExtrasOf(c, in, Variable());

    const GradCheckReport report = GradCheck(
        [&](const std::vector<Variable>& variables) {
          AttentionCallOptions options = masks;
          options.bias = variables[2];
          AttentionParameters p;
          size_t next = 3;
          if (config.form == AttentionForm::kBilinear) {
            p.P = variables[next++];
            p.Q = variables[next++];
          } else {
            p.P_q = variables[next++];
            p.P_k = variables[next++];
            p.P_v = variables[next++];
            p.P_o = variables[next++];
          }
          if (config.mixing == kAll) {
            p.P_l = variables[next++];
            p.P_w = variables[next++];
            p.P_Xl = variables[next++];
            p.P_Ml = variables[next++];
            p.P_Xw = variables[next++];
            p.P_Mw = variables[next++];
          }
          return ComputeAttention(config, p, variables[0], variables[1], options).Y;
        },
        inputs);
    EXPECT_TRUE(report.ok) << report;
  }
}

TEST(AttentionTest, TheModuleTrainsItsOwnParameters) {
  const AttentionConfig config = SelfConfig(MixingConfig(kAll));
  const AttentionModule layer(config, Initializer(3).At("layer"));
  const Variable X(ToTensor(RandomArray({3, 5, config.d_X}, 1, {.seed = 1, .stream = 1}), DType::kFloat32));
  const Variable Y = layer.Forward(X, X, {}, {}).Y;
  Backward(Y, Tensor::Full(Y.shape(), 1, DType::kFloat32));
  for (const NamedParameter& parameter : layer.Parameters()) {
    ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
    double largest = 0;
    for (const double value : ToArray(parameter.value.grad()).values()) largest = std::max(largest, std::abs(value));
    EXPECT_GT(largest, 0) << parameter.name;
  }
}

// ---- Dropout -----------------------------------------------------------------------------------------------------
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

// ---- Parameters --------------------------------------------------------------------------------------------------
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
  AttentionConfig config = MixingConfig(kAll);
  config.d_X = 200;
  config.d_M = 300;
  config.d_Y = 100;
  config.h_k = 40;
  config.h = 60;
  config.h_v = 50;
  auto p = ByName(AttentionModule(config, Initializer(3).At("layer")));
  const auto expect = [&](const char* name, double stddev) {
    EXPECT_NEAR(StandardDeviation(p.at(name)) / (0.8796 * stddev), 1, 0.04) << name;
    for (const double value : ToArray(p.at(name).value.value()).values()) {
      ASSERT_LE(std::abs(value), 2.0001 * stddev) << name;
    }
  };
  expect("P_q", 1 / std::sqrt(200.0 * 11));
  expect("P_k", 1 / std::sqrt(300.0));
  expect("P_v", 1 / std::sqrt(300.0));
  expect("P_o", 1 / std::sqrt(50.0 * 13));
  expect("P_l", 1 / std::sqrt(40.0));
  expect("P_w", 1 / std::sqrt(60.0));
  expect("P_Xl", 0.1 / std::sqrt(200.0 * 40));
  expect("P_Ml", 0.1 / std::sqrt(300.0 * 40));
  expect("P_Xw", 0.1 / std::sqrt(200.0 * 60));
  expect("P_Mw", 0.1 / std::sqrt(300.0 * 60));

  config.scale = 1 / std::sqrt(11.0);
  p = ByName(AttentionModule(config, Initializer(3).At("layer")));
  expect("P_q", 1 / std::sqrt(200.0));

  AttentionConfig bilinear = BilinearConfig();
  bilinear.h = 30;
  p = ByName(AttentionModule(bilinear, Initializer(3).At("layer")));
  expect("P", 1 / std::sqrt(19.0 * 21));
  expect("Q", 1 / std::sqrt(30.0 * 21));
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
    EXPECT_EQ(p.at("P_q").matrix_shape, Shape({128, 128}));
    EXPECT_EQ(p.at("P_k").matrix_shape, Shape({128, 128}));
    EXPECT_EQ(p.at("P_v").matrix_shape, Shape({128, 128}));
    EXPECT_EQ(p.at("P_o").matrix_shape, Shape({128, 128}));
  }
}

TEST(AttentionTest, ParametersAreThoseThatTheCostCounts) {
  for (const AttentionCase& c : AttentionCases()) {
    const AttentionModule layer(c.config, Initializer(3).At("layer"));
    EXPECT_EQ(layer.NumParameters(), CostOf(c.config, c.n, c.m).parameters) << c;
  }
}

// ---- Errors ------------------------------------------------------------------------------------------------------
TEST(AttentionTest, ErrorsNameTheDimension) {
  AttentionConfig config = MixingConfig(kStatic);
  const AttentionModule layer(config, Initializer(3).At("layer"));
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::Zeros(shape, DType::kFloat32)); };
  const auto message = [&](const Variable& X, const Variable& M, const AttentionCallOptions& options) {
    return MessageOf([&] { layer.Forward(X, M, options, {}); });
  };
  const Variable X = zeros({3, 5, 19}), M = zeros({3, 7, 21});
  const auto expect = [&](const std::string& actual, const char* part) {
    EXPECT_NE(actual.find(part), std::string::npos) << actual;
  };
  expect(message(zeros({3, 5, 20}), M, {}), "d_X=20");
  expect(message(X, zeros({3, 7, 19}), {}), "d_M=19");
  expect(message(X, zeros({2, 7, 21}), {}), "b=2");
  expect(message(X, M, {.bias = zeros({7, 5, 9})}), "m=9");
  expect(message(X, M, {.key_padding_mask = Tensor::Zeros({3, 5}, DType::kBool)}), "m=5");
  expect(message(X, M, {.attention_mask = Tensor::Zeros({3, 5, 7}, DType::kInt32)}), "not bool");
  AttentionConfig causal = SelfConfig(config);
  causal.causality = Causality::kCausal;
  const AttentionModule decoder(causal, Initializer(3).At("layer"));
  EXPECT_THROW(decoder.Forward(X, zeros({3, 7, 19}), {}, {}), Error);
}

}  // namespace attention_test
}  // namespace crosstalk
