// The descendants of talking-heads against tensors that their authors' published code computed in double: values and
// gradients, composed in double, composed and fused in float. The files' names are those of docs/family.md.

#include <cstdlib>

#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/attention/attention.h"
#include "crosstalk/nn/attention/config.h"
#include "crosstalk/nn/attention/projections.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/safetensors.h"
#include "tests/support/attention_cases.h"
#include "tests/support/family_cases.h"
#include "tests/support/messages.h"

namespace crosstalk::family_test {

struct FamilyCase {
  std::string file;
  AttentionConfig config;  // its sizes come from the tensors
};

AttentionConfig CausalWithRotary(Rotary rotary, double base) {
  AttentionConfig config;
  config.causality = Causality::kCausal;
  config.rotary = rotary;
  config.rotary_frequencies.base = base;
  return config;
}

std::vector<FamilyCase> FamilyCases() {
  FamilyCase dcmha = {"dcmha_five_heads", CausalWithRotary(Rotary::kHalves, 500'000)};
  dcmha.config.dynamic_form = DynamicForm::kLowRank;
  FamilyCase v1 = {"diff_v1_depth5", CausalWithRotary(Rotary::kInterleaved, 10'000)};
  v1.config.differential = Differential::kV1;
  v1.config.depth = 5;
  v1.config.head_norm = HeadNorm::kRmsGain;
  FamilyCase v2 = {"diff_v2_grouped", CausalWithRotary(Rotary::kInterleaved, 10'000)};
  v2.config.differential = Differential::kV2;
  FamilyCase mta = {"mta_full", CausalWithRotary(Rotary::kInterleaved, 100'000)};
  mta.config.mixing.P_l = mta.config.mixing.P_w = true;
  mta.config.head_norm = HeadNorm::kRmsGain;
  mta.config.head_gate = HeadGate::kScalar;
  return {dcmha, v1, v2, mta};
}

class FamilyTest : public ::testing::TestWithParam<FamilyCase> {};

// Y and the gradients of all inputs, of sum(Y·G), by the file's names.
std::vector<NamedTensor> ResultsOf(const FamilyCase& given, const TensorFile& file, DType dtype,
                                   AttentionImplementation implementation) {
  AttentionConfig config = given.config;
  config.implementation = implementation;
  Dims dims("family");
  dims.Bind("X[b, n, d_X]", file.At("X").shape());
  std::vector<std::pair<std::string, Variable>> leaves;
  const auto leaf = [&](std::string_view name) {
    leaves.emplace_back(name, Variable(file.At(name).To(dtype), Variable::RequiresGrad::kYes));
    return leaves.back().second;
  };
  const Variable X = leaf("X");
  AttentionParameters parameters;
  for (const AttentionProjection& projection : kAttentionProjections) {
    if (file.Find(projection.name()) == nullptr) continue;
    dims.Bind(projection.paper, file.At(projection.name()).shape());
    parameters.*projection.parameter = Permute(leaf(projection.name()), PaperToStorage(projection));
  }
  config.d_X = config.d_M = dims["d_X"];
  config.h_v = file.At("P_o").size(2);
  config.h_k = config.h = file.At("P_q").size(2);
  for (const auto& [name, size] :
       {std::pair("d_k", &AttentionConfig::d_k), {"d_v", &AttentionConfig::d_v}, {"d_Y", &AttentionConfig::d_Y}}) {
    config.*size = dims[name];
  }
  for (const OptionalAttentionDim& dim : kOptionalAttentionDims) {
    if (dim.set != nullptr && dims.Has(dim.name)) config.*dim.set = dims[dim.name];
  }
  config.scale = 1 / std::sqrt(static_cast<double>(config.d_k));

  const AttentionResult result = ComputeAttention(config, parameters, X, X, {});
  EXPECT_EQ(result.implementation, implementation);
  Backward(result.Y, file.At("G").To(dtype));
  std::vector<NamedTensor> results = {{"Y", result.Y.value()}};
  for (const auto& [name, variable] : leaves) results.push_back({"d" + name, variable.grad()});
  return results;
}

void ExpectResults(const FamilyCase& given, DType dtype, AttentionImplementation implementation, double tolerance) {
  const TensorFile file = ReadSafetensors(
      StrCat(std::getenv("CROSSTALK_SOURCE"), "/tests/nn/attention/family/", given.file, ".safetensors"));
  std::set<std::string> compared;
  for (const NamedTensor& result : ResultsOf(given, file, dtype, implementation)) {
    EXPECT_TRUE(CloseTo(ToArray(result.tensor), ToArray(file.At("out." + result.name)), tolerance)) << result.name;
    compared.insert("out." + result.name);
  }
  for (const NamedTensor& tensor : file.tensors) {
    if (tensor.name == "out.Y" || tensor.name.starts_with("out.d")) {
      EXPECT_TRUE(compared.contains(tensor.name)) << tensor.name;
    }
  }
}

TEST_P(FamilyTest, ComposedInDouble) {
  ExpectResults(GetParam(), DType::kFloat64, AttentionImplementation::kComposed, 1e-10);
}
TEST_P(FamilyTest, ComposedInFloat) {
  ExpectResults(GetParam(), DType::kFloat32, AttentionImplementation::kComposed, 2e-5);
}
TEST_P(FamilyTest, FusedInFloat) { ExpectResults(GetParam(), DType::kFloat32, AttentionImplementation::kFused, 2e-5); }

INSTANTIATE_TEST_SUITE_P(Published, FamilyTest, ::testing::ValuesIn(FamilyCases()),
                         [](const auto& info) { return info.param.file; });

// The members of the attention family that came after the paper as layers: gradients, counts, the fused
// implementation, masks, and what a step of decoding needs.

Variable Input(int64_t b, int64_t n, int64_t d, DType dtype, uint32_t stream = 1) {
  return Variable(ToTensor(RandomArray({b, n, d}, 1, {.seed = 1, .stream = stream}), dtype),
                  Variable::RequiresGrad::kYes);
}

class FamilyLayerTest : public ::testing::TestWithParam<FamilyLayer> {
 protected:
  AttentionConfig config_ = GetParam().config;
};

TEST_P(FamilyLayerTest, GradientsOfEveryInputAndParameter) {
  config_.causality = Causality::kCausal;
  const AttentionModule layer(config_, Initializer(3, DType::kFloat64).At("layer"));
  std::vector<Tensor> inputs = {Input(2, 7, config_.d_X, DType::kFloat64).value()};
  for (const NamedParameter& parameter : layer.Parameters()) inputs.push_back(parameter.value.value());
  // Norms of small vectors bend sharply: a small step.
  const GradCheckReport report = GradCheck(
      [&](const std::vector<Variable>& variables) {
        AttentionParameters p;
        size_t next = 1;
        for (const AttentionProjection& projection : kAttentionProjections) {
          if (IsPresent(projection, config_)) p.*projection.parameter = variables[next++];
        }
        return ComputeAttention(config_, p, variables[0], variables[0], {}).Y;
      },
      inputs, {.step = 1e-6, .tolerance = 1e-6});
  EXPECT_TRUE(report.ok) << report;
}

TEST_P(FamilyLayerTest, CostsWhatTheTableCounts) {
  for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
    config_.implementation = implementation;
    const AttentionModule layer(config_, Initializer(3).At("layer"));
    EXPECT_EQ(layer.NumParameters(), CostOf(config_, 15, 15).parameters);
    int64_t counted = 0;
    const ContextScope counting(&OpContext::multiplications, &counted);
    const Variable X = Input(3, 15, config_.d_X, DType::kFloat32);
    layer.Forward(X, X, {}, {});
    EXPECT_EQ(counted, 3 * CostOf(config_, 15, 15).multiplications) << Name(implementation);
  }
}

// Y and all gradients, with padding and a bias.
TEST_P(FamilyLayerTest, TheFusedImplementationGivesTheComposedOnesResults) {
  config_.causality = Causality::kCausal;
  const int64_t b = 3, n = 37;
  std::vector<uint8_t> padding(b * n, 1);
  std::fill(padding.begin() + 2 * n + 30, padding.end(), 0);
  const Array<double> bias = RandomArray({config_.h, n, n}, 1, {.seed = 2, .stream = 2});
  std::vector<std::vector<Array<double>>> results;
  std::vector<std::string> names = {"Y", "dX"};
  for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
    config_.implementation = implementation;
    const AttentionModule layer(config_, Initializer(3).At("layer"));
    const Variable X = Input(b, n, config_.d_X, DType::kFloat32);
    AttentionCallOptions options;
    options.key_padding_mask = Tensor::FromValues<uint8_t>({b, n}, padding);
    options.bias = Variable(ToTensor(bias, DType::kFloat32));
    const AttentionResult result = layer.Forward(X, X, options, {});
    EXPECT_EQ(result.implementation, implementation);
    Backward(result.Y, ToTensor(RandomArray({b, n, config_.d_Y}, 1, {.seed = 3, .stream = 3}), DType::kFloat32));
    std::vector<Array<double>>& own = results.emplace_back();
    own = {ToArray(result.Y.value()), ToArray(X.grad())};
    for (const NamedParameter& parameter : layer.Parameters()) {
      own.push_back(ToArray(parameter.value.grad()));
      names.push_back(parameter.name);
    }
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    // λ's is a sum over all pairs, of terms that cancel.
    const bool of_lambda = names[i].find("lambda_") != std::string::npos;
    EXPECT_TRUE(CloseTo(results[1][i], results[0][i], of_lambda ? 1e-3 : 5e-5)) << names[i];
  }
}

// All at once; and a prompt first, then one by one, some rows of a batch in other places after a while.
TEST_P(FamilyLayerTest, DecodingEqualsTheWholePass) {
  config_.causality = Causality::kCausal;
  const AttentionModule layer(config_, Initializer(11, DType::kFloat64).At("layer"));
  const int64_t b = 3, n = 13;
  const Variable X = Input(b, n, config_.d_X, DType::kFloat64);
  const Variable bias(ToTensor(RandomArray({config_.h, n, n}, 1, {.seed = 2, .stream = 2})));
  const Array<double> whole = ToArray(layer.Forward(X, X, {.bias = bias}, {}).Y.value());
  const std::vector<int64_t> moved = {2, 0, 2};
  for (const int64_t prompt : {1, 5}) {
    AttentionCache cache;
    std::vector<int64_t> rows = {0, 1, 2};
    for (int64_t begin = 0, end = prompt; end <= n; begin = end++) {
      if (begin == 9) {
        cache.SelectRows(moved);
        rows = moved;
      }
      std::vector<Variable> x;
      for (const int64_t row : rows) x.push_back(Slice(Slice(X, 1, begin, end), 0, row, row + 1));
      const int64_t first = begin - std::min(begin, config_.earlier_queries());
      const AttentionCallOptions options = {.bias = Slice(Slice(bias, 1, first, end), 2, 0, end)};
      const Array<double> Y = ToArray(layer.Step(Concat(x, 0), cache, options).Y.value());
      for (int64_t row = 0; row < b; ++row)
        for (int64_t i = begin; i < end; ++i)
          for (int64_t d = 0; d < config_.d_Y; ++d) {
            ASSERT_NEAR(Y(row, i - begin, d), whole(rows[static_cast<size_t>(row)], i, d), 1e-11)
                << "position " << i << " after a prompt of " << prompt;
          }
    }
  }
}

TEST_P(FamilyLayerTest, AFileHoldsTheConfiguration) {
  const Json json = ToJson(config_);
  AttentionConfig read;
  SetFields(AttentionConfig::Fields(), json, read);
  EXPECT_EQ(ToJson(read), json);
  EXPECT_EQ(ToString(read), ToString(config_));
  // A field that no row of the table names would be lost, and its tensors with it.
  for (const AttentionProjection& projection : kAttentionProjections) {
    ASSERT_EQ(IsPresent(projection, read), IsPresent(projection, config_)) << projection.bracket;
    if (!IsPresent(projection, read)) continue;
    EXPECT_EQ(ShapeOf(projection, read), ShapeOf(projection, config_));
  }
}

// Roundings of 2^-9 at most, one after the other, add up to some 1e-2 of the largest value, 2e-2 with both
// convolutions. Operands and weights that are rounded already give the same bits.
TEST_P(FamilyLayerTest, ComputesInBFloat16) {
  config_.causality = Causality::kCausal;
  AttentionModule layer(config_, Initializer(3).At("layer"));
  const Variable X = Input(2, 33, config_.d_X, DType::kFloat32);
  const Array<double> exact = ToArray(layer.Forward(X, X, {}, {}).Y.value());
  const ContextScope precision(&OpContext::precision, Precision::kBFloat16);
  const Array<double> rounded = ToArray(layer.Forward(X, X, {}, {}).Y.value());
  EXPECT_TRUE(CloseTo(rounded, exact, 0.025));
  const Variable operand = AsOperand(X);
  EXPECT_EQ(ToArray(layer.Forward(operand, operand, {}, {}).Y.value()).values(), rounded.values());
  layer.RoundWeights();
  EXPECT_EQ(ToArray(layer.Forward(operand, operand, {}, {}).Y.value()).values(), rounded.values());
}

INSTANTIATE_TEST_SUITE_P(Family, FamilyLayerTest, ::testing::ValuesIn(FamilyLayers()),
                         [](const auto& info) { return info.param.name; });

// The composed implementation against a mask that says i - window < j, of all forms; the last window hides nothing.
TEST(FamilyWindowTest, IsAMaskOfTheKeysBeforeIt) {
  const int64_t b = 2, n = 11;
  for (AttentionConfig config : {AttentionConfig::TalkingHeads(15, 3, 5, 7, 4, 6), AttentionConfig::Bilinear(15, 3),
                                 AttentionConfig::DotProduct(15)}) {
    config.causality = Causality::kCausal;
    for (const int64_t window : {1, 3, 10, 11, 20}) {
      std::vector<uint8_t> mask(b * n * n);
      for (int64_t at = 0; at < b * n * n; ++at) mask[static_cast<size_t>(at)] = at / n % n - at % n < window;
      std::vector<std::vector<Array<double>>> results;
      for (const bool by_mask : {false, true}) {
        config.window = by_mask ? 0 : window;
        const AttentionModule layer(config, Initializer(3, DType::kFloat64).At("layer"));
        const Variable X = Input(b, n, config.d_X, DType::kFloat64);
        AttentionCallOptions options;
        if (by_mask) options.attention_mask = Tensor::FromValues<uint8_t>({b, n, n}, mask);
        const Variable Y = layer.Forward(X, X, options, {}).Y;
        Backward(Y, ToTensor(RandomArray({b, n, config.d_Y}, 1, {.seed = 3, .stream = 3})));
        results.push_back({ToArray(Y.value()), ToArray(X.grad())});
      }
      EXPECT_EQ(results[0][0].values(), results[1][0].values()) << ToString(config) << ", " << window;
      EXPECT_EQ(results[0][1].values(), results[1][1].values()) << ToString(config) << ", " << window;
    }
  }
}

// Step by step in float, over several chunks of the kernel.
TEST(FamilyWindowTest, AFusedDecodingSeesTheLastKeys) {
  AttentionConfig config = AttentionConfig::TalkingHeads(15, 6, 5, 9, 4, 6);
  config.g_k = 2, config.g_v = 3;
  config.causality = Causality::kCausal;
  config.window = 37;
  const AttentionModule layer(config, Initializer(3).At("layer"));
  const int64_t n = 101;
  const Variable X = Input(2, n, config.d_X, DType::kFloat32);
  const Array<double> whole = ToArray(layer.Forward(X, X, {}, {}).Y.value());
  AttentionCache cache;
  for (int64_t begin = 0, end = 70; end <= n; begin = end++) {
    const Array<double> Y = ToArray(layer.Step(Slice(X, 1, begin, end), cache, {}).Y.value());
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t d = 0; d < config.d_Y; ++d) ASSERT_NEAR(Y(1, i - begin, d), whole(1, i, d), 1e-5) << i;
    }
  }
}

TEST(FamilyConfigTest, ErrorsNameTheField) {
  using C = AttentionConfig;
  testing::ExpectRefused<void (*)(C&)>(
      {{"groups", [](C& c) { c.g_k = 4; }, {"g_k=4 heads cannot be shared by h_k=6"}},
       {"pairs", [](C& c) { c.g_k = 3, c.key_sharing = KeySharing::kPairs; }, {"both must be even"}},
       {"a mixing group of nothing", [](C& c) { c.mixing_group = 2; }, {"needs P_l or P_w"}},
       {"mixing groups", [](C& c) { c.mixing.P_l = true, c.mixing_group = 4; }, {"groups of 4 heads"}},
       {"low rank", [](C& c) { c.dynamic_form = DynamicForm::kLowRank, c.mixing.P_Xl = true; }, {"replace P_Xl"}},
       {"heads of a difference", [](C& c) { c.differential = Differential::kV1; }, {"h=6 must be 2·h_v"}},
       {"a convolution of no key", [](C& c) { c.c_ql = 3; }, {"c_q=3 queries and c_k=0"}},
       {"rotary of an odd size", [](C& c) { c.rotary = Rotary::kHalves, c.d_k = 5; }, {"d_k=5 must be even"}},
       {"tied", [](C& c) { c.rotary = Rotary::kHalves, c.key_value = KeyValueProjection::kTied; }, {"V = K"}},
       {"a window ahead", [](C& c) { c.window = 3; }, {"window=3", "not causal"}},
       {"a window of less than nothing", [](C& c) { c.window = -1; }, {"window=-1 is negative"}},
       {"a window and convolutions",
        [](C& c) { c.causality = Causality::kCausal, c.window = 3, c.c_kl = c.c_ql = 2; },
        {"window=3 and convolutions (mta, convolution)"}},
       {"bilinear", [](C& c) { c = C::Bilinear(24, 6), c.head_norm = HeadNorm::kRms; }, {"bilinear"}}},
      [](const auto& change) {
        C config = C::MultiHead(24, 6, 4);
        change(config);
        config.Validate();
      });
}

}  // namespace crosstalk::family_test
