// What a TransformerConfig can say beside T5's form (post-norm, layer norm, biases, GELU, shared blocks, no positions,
// no final norm, decoder-only): gradients against differences, decoding against the whole pass.
// Then T5's form: decoding by the fused attention, dropout, memory.
#include "crosstalk/nn/transformer.h"

#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/close.h"
#include "tests/support/gradient_differences.h"
#include "tests/support/messages.h"

namespace crosstalk::transformer_test {

constexpr int64_t kD = 6, kDff = 7, kHeads = 2, kKey = 4, kValue = 3;

Tensor Random(const Shape& shape, uint32_t stream, DType dtype = DType::kFloat64) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 43, .stream = stream}, 0.0, 1.0);
  return tensor.To(dtype);
}

// BERT's block.
TransformerConfig Bert() {
  AttentionConfig attention = AttentionConfig::MultiHead(kD, kHeads, kKey);
  attention.d_v = kValue;
  attention.scale = 1 / std::sqrt(static_cast<double>(kKey));
  attention.projection_biases = true;
  return {.layers = 2,
          .self_attention = attention,
          .feed_forward = {.d_model = kD, .d_ff = kDff, .kind = FeedForwardKind::kGelu, .bias = LinearBias::kYes},
          .norm = {.kind = NormKind::kLayer, .epsilon = 1e-12},
          .placement = NormPlacement::kPost,
          .final_norm = FinalNorm::kNo,
          .positions = PositionScheme::kNone};
}

// A language model's: causal, no cross-attention, a pre-norm with layer norm.
TransformerConfig LanguageModel() {
  TransformerConfig config = Bert();
  config.self_attention.causality = Causality::kCausal;
  config.feed_forward.kind = FeedForwardKind::kGeluTanh;
  config.placement = NormPlacement::kPre;
  config.final_norm = FinalNorm::kYes;
  return config;
}

// One of every kind.
std::map<std::string, TransformerConfig> Configurations() {
  std::map<std::string, TransformerConfig> configs = {{"bert", Bert()}, {"language model", LanguageModel()}};
  TransformerConfig& albert = configs["albert"] = Bert();
  albert.groups = 1;
  TransformerConfig& decoder = configs["post-norm decoder with a relative bias"] = Bert();
  decoder.self_attention = AttentionConfig::TalkingHeads(kD, 2, 3, 4, kKey, kValue);
  decoder.self_attention.projection_biases = true;
  decoder.self_attention.causality = Causality::kCausal;
  decoder.cross_attention = Bert().self_attention;
  decoder.positions = PositionScheme::kRelativeBias;
  decoder.feed_forward.kind = FeedForwardKind::kGatedGelu;
  decoder.groups = 1;
  TransformerConfig& rms = configs["post-norm with rms"] = LanguageModel();
  rms.norm = {.kind = NormKind::kRms, .epsilon = 1e-6};
  rms.placement = NormPlacement::kPost;
  rms.feed_forward.kind = FeedForwardKind::kRelu;
  rms.layers = 4;
  rms.groups = 2;
  return configs;
}

// Gives the parameters that start at 0 or 1 values that show.
void FillParameters(const TransformerStack& stack) {
  uint32_t stream = 100;
  for (const NamedParameter& parameter : stack.Parameters()) {
    const Tensor value = parameter.value.value();
    if (parameter.matrix_shape.rank() == 0) value.CopyFrom(Random(value.shape(), ++stream, value.dtype()));
  }
}

TransformerMemory MemoryOf(const TransformerConfig& config, DType dtype = DType::kFloat64) {
  if (!config.cross_attention.has_value()) return {};
  Tensor mask = Tensor::Full({2, 3}, 1, DType::kBool);
  mask.data<bool>()[5] = false;
  return {.encoded = Variable(Random({2, 3, kD}, 7, dtype), Variable::RequiresGrad::kYes), .mask = mask};
}

TEST(TransformerConfigTest, GradientsAgreeWithDifferences) {
  for (const auto& [name, config] : Configurations()) {
    SCOPED_TRACE(name);
    const TransformerStack stack(config, Initializer(1, DType::kFloat64));
    FillParameters(stack);
    const TransformerMemory memory = MemoryOf(config);
    const Variable x(Random({2, 5, kD}, 1)), weights(Random({2, 5, kD}, 2));
    testing::ExpectGradientsOfDifferences(
        stack, [&] { return Sum(stack.Forward(x, Tensor(), memory, {}) * weights); }, 1e-6, 12);
  }
}

TEST(TransformerConfigTest, DecodingEqualsTheWholePass) {
  for (const auto& [name, config] : Configurations()) {
    if (config.self_attention.causality != Causality::kCausal) continue;
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      SCOPED_TRACE(name);
      const TransformerStack stack(config, Initializer(1, dtype));
      FillParameters(stack);
      const TransformerMemory memory = MemoryOf(config, dtype);
      const Variable x(Random({2, 5, kD}, 1, dtype));
      const Tensor whole = stack.Forward(x, Tensor(), memory, {}).value();
      TransformerCache cache = stack.StartDecoding(memory);
      for (int64_t i = 0; i < 5; ++i) {
        const std::vector<double> y =
            stack.Step(Slice(x, 1, i, i + 1), cache).value().To(DType::kFloat64).ToVector<double>();
        const std::vector<double> expected = whole.Slice(1, i, i + 1).To(DType::kFloat64).ToVector<double>();
        EXPECT_TRUE(testing::AllClose(y, expected, {dtype == DType::kFloat64 ? 1e-12 : 2e-5, 0})) << i;
      }
    }
  }
}

TEST(TransformerConfigTest, RecomputationGivesTheSameBits) {
  for (const auto& [name, config] : Configurations()) {
    SCOPED_TRACE(name);
    TransformerConfig dropped = config;
    dropped.dropout_rate = 0.25;
    std::vector<std::vector<float>> bits[2];
    for (const bool recompute : {false, true}) {
      TransformerStack stack(dropped, Initializer(1));
      if (recompute) stack.SetActivations(Activations::kRecompute);
      const ForwardContext training = {.phase = ForwardContext::Phase::kTraining, .seed = 1};
      const TransformerMemory memory = MemoryOf(config, DType::kFloat32);
      Backward(Sum(stack.Forward(Variable(Random({2, 5, kD}, 1, DType::kFloat32)), Tensor(), memory, training)));
      for (const NamedParameter& p : stack.Parameters()) bits[recompute].push_back(p.value.grad().ToVector<float>());
    }
    EXPECT_EQ(bits[0], bits[1]);
  }
}

// Groups of 2 and 1 layers, each layer two blocks: the same as a stack of six blocks that are copies of theirs.
TEST(TransformerConfigTest, LayersOfUnequalGroupsPassTheirBlocksInOrder) {
  TransformerConfig config = Bert();
  config.layers = 3;
  config.groups = 2;
  config.inner_layers = 2;
  const TransformerStack shared(config, Initializer(7, DType::kFloat64));
  config.layers = 6;
  config.groups = 0;
  config.inner_layers = 1;
  const TransformerStack whole(config, Initializer(8, DType::kFloat64));
  std::map<std::string, Tensor> values;
  for (const NamedParameter& parameter : shared.Parameters()) values[parameter.name] = parameter.value.value();
  const int order[] = {0, 1, 0, 1, 2, 3};
  for (const NamedParameter& parameter : whole.Parameters()) {
    const std::string rest = parameter.name.substr(7);  // after "block_i"
    const int block = order[parameter.name[6] - '0'];
    parameter.value.value().CopyFrom(values.at(StrCat("block_", block, rest)));
  }
  const Variable x(Random({2, 5, kD}, 1));
  const ForwardContext context;
  TransformerRecord record;
  const Variable y = shared.Forward(x, {}, {}, context, &record);
  const Variable expected = whole.Forward(x, {}, {}, context);
  EXPECT_EQ(y.value().ToVector<double>(), expected.value().ToVector<double>());
  EXPECT_EQ(record.hidden_states.size(), 4u);  // after each layer, not each block
  EXPECT_EQ(record.self_attention.size(), 6u);
  EXPECT_EQ(record.self_attention[5].shape(), Shape({2, kHeads, 5, 5}));
  EXPECT_EQ(record.hidden_states[0].value().ToVector<double>(), x.value().ToVector<double>());
  EXPECT_EQ(record.hidden_states[3].value().ToVector<double>(), y.value().ToVector<double>());
  double sum = 0;  // of a query's weights
  for (int64_t j = 0; j < 5; ++j) sum += record.self_attention[5].value().At({1, 1, 2, j});
  EXPECT_NEAR(sum, 1, 1e-15);
}

TEST(TransformerConfigTest, GroupsAreCutWhereAlbertCutsThem) {
  TransformerConfig config;
  config.layers = 12;
  config.groups = 5;  // 2.4 layers each
  std::vector<int64_t> groups;
  for (int64_t i = 0; i < config.layers; ++i) groups.push_back(config.GroupOf(i));
  EXPECT_EQ(groups, (std::vector<int64_t>{0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4}));
}

TEST(TransformerConfigTest, RefusesAMemoryThatNothingAttendsToAndMoreGroupsThanLayers) {
  const TransformerStack stack(LanguageModel(), Initializer(1, DType::kFloat64));
  const TransformerMemory memory = {.encoded = Variable(Random({2, 3, kD}, 7)), .mask = Tensor()};
  EXPECT_THROW(stack.StartDecoding(memory), Error);
  TransformerConfig config = Bert();
  config.groups = config.layers + 1;
  EXPECT_THROW(TransformerStack(config, Initializer(1)), Error);
}

// ---- T5's form ----

TransformerConfig Config(Causality causality) {
  TransformerConfig config;
  config.layers = 3;
  config.self_attention = AttentionConfig::TalkingHeads(8, 2, 3, 4, 5, 6);
  config.self_attention.causality = causality;
  config.feed_forward = {.d_model = 8, .d_ff = 11};
  return config;
}

TEST(TransformerStackTest, ATracedNonFiniteValueNamesItsLayer) {
  for (const auto activations : {Activations::kKeep, Activations::kRecompute}) {
    TransformerStack stack(Config(Causality::kNone), Initializer(1, DType::kFloat64));
    stack.SetActivations(activations);
    for (const NamedParameter& parameter : stack.Parameters()) {
      if (parameter.name == "block_1.feed_forward.wo") {
        parameter.value.value().data<double>()[3] = std::numeric_limits<double>::infinity();
      }
    }
    const ContextScope check(&OpContext::finite_checks, true);
    const ContextScope scope = InLayer("encoder");
    testing::ExpectError(
        [&] {
          Backward(Sum(stack.Forward(Variable(Random({2, 5, 8}, 1)), Tensor(), {}, {})));
        },
        ErrorKind::kNumerical, {"encoder.block_1.feed_forward"});
  }
}

// Outputs of a stack with dropout of 1/2 that are zero, which half of them are; without blocks an element survives two
// draws (the norm between keeps zeros).
TEST(TransformerStackTest, DropsInputLayersAndOutputEachOnTheirOwnInTraining) {
  for (const int64_t layers : {0, 3}) {
    TransformerConfig config = Config(Causality::kNone);
    config.layers = layers;
    config.dropout_rate = 0.5;
    const TransformerStack stack(config, Initializer(1, DType::kFloat64, "encoder"));
    const Variable x(Random({20, 10, 8}, 1));
    const auto forward = [&](const ForwardContext& context) {
      return stack.Forward(x, Tensor(), {}, context).value().ToVector<double>();
    };
    const ForwardContext training = {.phase = ForwardContext::Phase::kTraining, .seed = 1};
    ForwardContext later = training;
    later.micro_batch = 1;
    const std::vector<double> y = forward(training);
    EXPECT_EQ(y, forward(training));
    EXPECT_NE(y, forward({}));
    EXPECT_NE(y, forward(later));
    const double share = layers == 0 ? 0.75 : 0.5;
    EXPECT_NEAR(std::count(y.begin(), y.end(), 0.0), 1600 * share, 4 * std::sqrt(1600 * share * (1 - share)));
  }
}

TEST(TransformerStackTest, RefusesWhatDoesNotFit) {
  TransformerConfig config = Config(Causality::kCausal);
  config.cross_attention = AttentionConfig::MultiHead(8, 2, 4);
  const TransformerStack decoder(config, Initializer(1, DType::kFloat64));
  const TransformerStack encoder(Config(Causality::kNone), Initializer(1, DType::kFloat64));
  const Variable x(Random({2, 5, 8}, 1));
  const TransformerMemory other_batch = {.encoded = Variable(Random({3, 4, 8}, 2)), .mask = Tensor()};
  testing::ExpectRefused({{"no memory", [&] { decoder.Forward(x, Tensor(), {}, {}); }, {}},
                          {"another batch", [&] { decoder.Forward(x, Tensor(), other_batch, {}); }, {}},
                          {"an encoder decodes", [&] { encoder.StartDecoding({}); }, {}}});
}

// A stack of 2 blocks in float, by `implementation`, with the bias table's entries spread over [-1, 1] or so.
struct FloatStack {
  TransformerConfig config;
  TransformerStack stack;

  static TransformerConfig Configure(AttentionConfig attention, Causality causality,
                                     AttentionImplementation implementation) {
    TransformerConfig config;
    config.layers = 2;
    attention.implementation = implementation;
    config.self_attention = attention;
    config.self_attention.causality = causality;
    if (causality == Causality::kCausal) config.cross_attention = attention;
    config.feed_forward = {.d_model = 8, .d_ff = 11};
    return config;
  }
  FloatStack(const AttentionConfig& attention, Causality causality, AttentionImplementation implementation)
      : config(Configure(attention, causality, implementation)), stack(config, Initializer(3)) {}
};

Tensor LastKeysHidden(int64_t b, int64_t n) {
  Tensor mask = Tensor::Full({b, n}, 1, DType::kBool);
  for (int64_t row = 0; row < b; ++row) mask.Select(0, row).Slice(0, n - 3 * row, n).Fill(0);
  return mask;
}

const std::vector<AttentionConfig>& StackKinds() {
  static const std::vector<AttentionConfig> kinds = [] {
    AttentionConfig dynamic = AttentionConfig::TalkingHeads(8, 2, 3, 4, 5, 6);
    dynamic.mixing.P_Xl = dynamic.mixing.P_Ml = dynamic.mixing.P_Xw = dynamic.mixing.P_Mw = true;
    return std::vector<AttentionConfig>{AttentionConfig::MultiHead(8, 2, 5),
                                        AttentionConfig::TalkingHeads(8, 2, 3, 4, 5, 6), dynamic,
                                        AttentionConfig::Bilinear(8, 3)};
  }();
  return kinds;
}

// Step t reads the bias of distances -t … 0 from the table; the whole pass that of -36 … 36. In float, 2e-5 of the
// largest: some 200 roundings in a row, of 6e-8 each, that mostly cancel.
TEST(TransformerStackTest, FusedDecodingEqualsTheWholePassByTheComposedAttention) {
  const int64_t b = 3, n = 37;
  const TransformerMemory memory = {.encoded = Variable(Random({b, 21, 8}, 2).To(DType::kFloat32)),
                                    .mask = LastKeysHidden(b, 21)};
  const Variable x(Random({b, n, 8}, 1).To(DType::kFloat32));
  for (const AttentionConfig& kind : StackKinds()) {
    SCOPED_TRACE(ToString(kind));
    const FloatStack fused(kind, Causality::kCausal, AttentionImplementation::kFused);
    const FloatStack composed(kind, Causality::kCausal, AttentionImplementation::kComposed);
    const Tensor whole = composed.stack.Forward(x, Tensor(), memory, {}).value();
    for (const int64_t prompt : {1, 19}) {
      TransformerCache cache = fused.stack.StartDecoding(memory);
      for (int64_t begin = 0, end = prompt; end <= n; begin = end++) {
        const Variable y = fused.stack.Step(Slice(x, 1, begin, end), cache);
        const std::vector<float> expected = whole.Slice(1, begin, end).Contiguous().ToVector<float>();
        EXPECT_TRUE(testing::CloseToLargest(y.value().ToVector<float>(), expected, 2e-5)) << begin << " … " << end;
      }
    }
  }
}

TEST(TransformerStackTest, TheFusedAttentionHoldsNothingOfTheSizeOfTheDenseBias) {
  constexpr int64_t n = 1024;
  const auto peak_bytes = [&](AttentionImplementation implementation) {
    const FloatStack of(AttentionConfig::MultiHead(8, 8, 2), Causality::kNone, implementation);
    const Variable x(Random({1, n, 8}, 1).To(DType::kFloat32));
    const int64_t before = GetMemoryStats().live_bytes;
    ResetPeakMemory();
    Backward(Sum(of.stack.Forward(x, Tensor(), {}, {})));
    return GetMemoryStats().peak_bytes - before;
  };
  constexpr int64_t dense_bytes = 8 * n * n * 4;
  EXPECT_GT(peak_bytes(AttentionImplementation::kComposed), dense_bytes);
  // Some 30 activations of [n, 8] to [n, 11], and the kernel's workspace, which are all n times a number.
  EXPECT_LT(peak_bytes(AttentionImplementation::kFused), dense_bytes / 4);
}

}  // namespace crosstalk::transformer_test
