// Decoding one position at a time against the full forward pass.

#include "crosstalk/autograd/ops.h"
#include "crosstalk/nn/attention/attention.h"
#include "tests/support/attention_cases.h"
#include "tests/support/messages.h"

namespace crosstalk::decode_test {

AttentionCallOptions WithWeights() { return {.outputs = AttentionOutputs::kWithWeights}; }

// A causal layer over X[b, n, d_X] at once, and with a cache: some positions first, then one by one.
void ExpectDecodingEqualsForward(const AttentionConfig& config, const Variable& bias) {
  const AttentionModule layer(config, Initializer(11, DType::kFloat64).At("layer"));
  const int64_t b = 3, n = 13;
  const Variable X(ToTensor(RandomArray({b, n, config.d_X}, 1, {.seed = 1, .stream = 1})));
  // The last positions of example 2 are padding.
  std::vector<uint8_t> padding(b * n, 1);
  for (int64_t i = n - 4; i < n; ++i) padding[2 * n + i] = 0;
  const Tensor memory_mask = Tensor::FromValues<uint8_t>({b, n}, padding);

  AttentionCallOptions options = WithWeights();
  options.key_padding_mask = memory_mask;
  options.bias = bias;
  const AttentionResult full = layer.Forward(X, X, options, {});

  for (const int64_t prompt : {1, 5}) {
    AttentionCache cache;
    for (int64_t begin = 0, end = prompt; end <= n; begin = end++) {
      options.key_padding_mask = memory_mask.Slice(1, 0, end);
      if (bias.defined()) options.bias = Slice(Slice(bias, 1, begin, end), 2, 0, end);
      const AttentionResult step = layer.Step(Slice(X, 1, begin, end), cache, options);
      EXPECT_EQ(cache.length(), end);
      EXPECT_TRUE(CloseTo(ToArray(step.Y.value()), ToArray(full.Y.value().Slice(1, begin, end)), 1e-12))
          << "positions " << begin << " … " << end;
      EXPECT_TRUE(
          CloseTo(ToArray(step.W.value()), ToArray(full.W.value().Slice(1, begin, end).Slice(2, 0, end)), 1e-12))
          << "positions " << begin << " … " << end;
    }
  }
}

// Every subset of the mixings, the other kinds, and a bias, of which a step has its row.
TEST(AttentionDecodeTest, EveryKindEqualsTheFullForward) {
  std::vector<AttentionConfig> configs;
  for (int subset = 0; subset < 64; ++subset) {
    HeadMixing mixing = DynamicSubset(subset % 16);
    mixing.P_l = subset & 16;
    mixing.P_w = subset & 32;
    configs.push_back(SelfConfig(MixingConfig(mixing)));
  }
  AttentionConfig tied = SelfConfig(MixingConfig({}));
  tied.key_value = KeyValueProjection::kTied;
  tied.d_v = tied.d_k;
  for (AttentionConfig config : {AttentionConfig::DotProduct(19), SelfConfig(BilinearConfig()), tied}) {
    config.scale = 0.375;
    configs.push_back(config);
  }
  for (AttentionConfig& config : configs) {
    SCOPED_TRACE(ToString(config));
    config.causality = Causality::kCausal;
    ExpectDecodingEqualsForward(config, Variable());
    if (config.mixing != HeadMixing{.P_l = true, .P_w = true, .P_Ml = true}) continue;
    ExpectDecodingEqualsForward(config,
                                Variable(ToTensor(RandomArray({config.h, 13, 13}, 1, {.seed = 2, .stream = 2}))));
  }
}

TEST(AttentionDecodeTest, CrossAttentionOverAPrecomputedMemoryEqualsForward) {
  for (const AttentionCase& c : AttentionCases()) {
    if (c.self || c.dropout || c.config.causality == Causality::kCausal) continue;
    SCOPED_TRACE(::testing::Message() << c);
    const AttentionModule layer(c.config, Initializer(11, DType::kFloat64).At("layer"));
    const AttentionInputs<double> in = MakeInputs(c);
    const Variable X(ToTensor(in.X)), M(ToTensor(in.M));
    const AttentionCallOptions options = ExtrasOf(c, in, in.bias.present() ? Variable(ToTensor(in.bias)) : Variable());
    const AttentionCache cache = layer.Precompute(M);
    EXPECT_EQ(cache.length(), c.m);
    EXPECT_TRUE(CloseTo(ToArray(layer.Attend(X, cache, options).Y.value()),
                        ToArray(layer.Forward(X, M, options, {}).Y.value()), 1e-12));
  }
}

// Kept where they are, moved in place, fewer, and more: each row goes on as what it was taken from.
TEST(AttentionDecodeTest, SelectedRowsGoOnAsThoseRows) {
  const AttentionConfig config =
      SelfConfig(MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}));
  const AttentionModule layer(config, Initializer(11, DType::kFloat64).At("layer"));
  const Variable X(ToTensor(RandomArray({4, 6, config.d_X}, 1, {.seed = 1, .stream = 1})));
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{
           {0, 1, 2, 3}, {0, 0, 2, 2}, {3, 1, 1, 3}, {1, 0, 3, 2}, {0, 3}, {3, 1}, {1, 0}, {2}, {0, 0, 1, 1, 2, 3}}) {
    AttentionCache cache;
    for (int64_t i = 0; i < 3; ++i) layer.Step(Slice(X, 1, i, i + 1), cache, {});
    AttentionCache selected = cache;
    selected.SelectRows(rows);
    EXPECT_EQ(selected.rows(), std::ssize(rows));
    const auto select = [&](const Variable& x) {
      std::vector<Variable> parts;
      for (const int64_t row : rows) parts.push_back(Slice(x, 0, row, row + 1));
      return Concat(parts, 0);
    };
    for (int64_t i = 3; i < 6; ++i) {  // beyond what the buffers have room for
      const Variable x = Slice(X, 1, i, i + 1);
      const Variable expected = select(layer.Step(x, cache, {}).Y);
      EXPECT_TRUE(CloseTo(ToArray(layer.Step(select(x), selected, {}).Y.value()), ToArray(expected.value()), 1e-12));
    }
    EXPECT_THROW(cache.SelectRows({4}), Error);
  }
}

TEST(AttentionDecodeTest, CopiesOfACacheGoTheirOwnWays) {
  const AttentionConfig config =
      SelfConfig(MixingConfig({.P_l = true, .P_w = true, .P_Xl = true, .P_Ml = true, .P_Xw = true, .P_Mw = true}));
  const AttentionModule layer(config, Initializer(11, DType::kFloat64).At("layer"));
  const Variable X(ToTensor(RandomArray({3, 8, config.d_X}, 1, {.seed = 1, .stream = 1})));
  const auto position = [&](int64_t i) { return Slice(X, 1, i, i + 1); };
  AttentionCache alone, cache;
  for (int64_t i = 0; i < 5; ++i) {  // its buffers have room for three more
    layer.Step(position(i), alone, {});
    layer.Step(position(i), cache, {});
  }
  AttentionCache copy = cache;
  layer.Step(position(5), alone, {});
  layer.Step(position(5), cache, {});
  layer.Step(position(7), copy, {});
  EXPECT_TRUE(CloseTo(ToArray(layer.Step(position(6), cache, {}).Y.value()),
                      ToArray(layer.Step(position(6), alone, {}).Y.value()), 0));
}

TEST(AttentionDecodeTest, MisuseIsRefused) {
  const AttentionConfig config = SelfConfig(MixingConfig({}));
  const AttentionModule layer(config, Initializer(11).At("layer"));
  AttentionCache empty, cache;
  const Variable two(Tensor::Zeros({3, 2, config.d_X}, DType::kFloat32));
  const Variable other(Tensor::Zeros({2, 1, config.d_X}, DType::kFloat32));
  layer.Step(Slice(two, 1, 0, 1), cache, {});
  testing::ExpectRefused({{"nothing in the cache", [&] { layer.Attend(two, empty, {}); }, {}},
                          {"two positions after others", [&] { layer.Step(two, cache, {}); }, {}},
                          {"another batch size", [&] { layer.Step(other, cache, {}); }, {}}});
}

}  // namespace crosstalk::decode_test
