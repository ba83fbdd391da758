// What a TransformerConfig can say beside T5's form: post-norm, layer norm, biases, GELU, shared blocks, no positions,
// no final norm, decoder-only. Values against ops, gradients against differences, decoding against the whole
// pass.

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/close.h"

namespace crosstalk::transformer_config_test {

using Vector = std::vector<double>;

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

// BERT's blocks by ops: each layer is added to its input, and the sum normalised.
Variable BertByOps(const TransformerStack& stack, const TransformerConfig& config, Variable x, const Tensor& mask) {
  std::map<std::string, Variable> p;
  for (const NamedParameter& parameter : stack.Parameters()) p[parameter.name] = parameter.value;
  const int64_t n = x.size(1);
  const auto affine = [&](const Variable& in, const std::string& weight, const std::string& bias) {
    return MatMulAdd(in, Reshape(p.at(weight), {in.size(-1), -1}), Reshape(p.at(bias), {-1}));
  };
  const auto add_and_norm = [&](const std::string& norm, const Variable& y) {
    return LayerNorm(Add(x, y), p.at(norm + "scale"), p.at(norm + "bias"), 1e-12);
  };
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string block = StrCat("block_", i, "."), layer = block + "self_attention.", ff = block + "feed_forward.";
    const auto heads = [&](const char* of) {
      return Reshape(affine(x, layer + "P_" + of, layer + "b_" + of), {1, n, kHeads, -1});
    };
    const Variable J = Einsum("J[b,h,n,m] = einsum(Q[b,n,h,d], K[b,m,h,d])", {heads("q"), heads("k")});
    const Variable L = MaskedFillUnless(Scale(J, config.self_attention.scale), mask.Reshape({1, 1, 1, n}), -HUGE_VAL);
    const Variable O = Einsum("O[b,n,h,d] = einsum(W[b,h,n,m], V[b,m,h,d])", {Softmax(L), heads("v")});
    x = add_and_norm(block + "self_attention_norm.", affine(Reshape(O, {1, n, -1}), layer + "P_o", layer + "b_o"));
    const Variable hidden = Gelu(affine(x, ff + "wi", ff + "wi_bias"));
    x = add_and_norm(block + "feed_forward_norm.", affine(hidden, ff + "wo", ff + "wo_bias"));
  }
  return x;
}

TEST(TransformerConfigTest, BertsBlocksFollowTheEquations) {
  const TransformerStack stack(Bert(), Initializer(1, DType::kFloat64));
  FillParameters(stack);
  const Variable x(Random({1, 5, kD}, 1));
  Tensor mask = Tensor::Full({1, 5}, 1, DType::kBool);
  mask.data<bool>()[4] = false;
  // Values of order 1 after two blocks of sums of some ten terms in double.
  EXPECT_TRUE(testing::AllClose(stack.Forward(x, mask, {}, {}).value().ToVector<double>(),
                                BertByOps(stack, Bert(), x, mask).value().ToVector<double>(), {1e-12, 0}));
}

TransformerMemory MemoryOf(const TransformerConfig& config, DType dtype = DType::kFloat64) {
  if (!config.cross_attention.has_value()) return {};
  Tensor mask = Tensor::Full({2, 3}, 1, DType::kBool);
  mask.data<bool>()[5] = false;
  return {.encoded = Variable(Random({2, 3, kD}, 7, dtype), Variable::RequiresGrad::kYes), .mask = mask};
}

// The derivative along a random direction of all parameters, input and memory at once.
TEST(TransformerConfigTest, GradientsAgreeWithDifferences) {
  for (const auto& [name, config] : Configurations()) {
    SCOPED_TRACE(name);
    const TransformerStack stack(config, Initializer(1, DType::kFloat64));
    FillParameters(stack);
    const TransformerMemory memory = MemoryOf(config);
    std::vector<Variable> leaves = {Variable(Random({2, 5, kD}, 1), Variable::RequiresGrad::kYes)};
    if (memory.encoded.defined()) leaves.push_back(memory.encoded);
    for (const NamedParameter& parameter : stack.Parameters()) leaves.push_back(parameter.value);
    const Variable weights(Random({2, 5, kD}, 2));
    const auto loss = [&] { return Sum(stack.Forward(leaves[0], Tensor(), memory, {}) * weights); };
    Backward(loss());
    std::vector<Tensor> directions, starts;
    double expected = 0;
    for (size_t i = 0; i < leaves.size(); ++i) {
      directions.push_back(Random(leaves[i].shape(), 200 + static_cast<uint32_t>(i)));
      starts.push_back(leaves[i].value().Clone());
      ASSERT_TRUE(leaves[i].grad().defined()) << i;
      const Vector gradient = leaves[i].grad().Contiguous().ToVector<double>();
      const Vector direction = directions[i].ToVector<double>();
      for (size_t j = 0; j < gradient.size(); ++j) expected += gradient[j] * direction[j];
    }
    const auto at = [&](double step) {
      for (size_t i = 0; i < leaves.size(); ++i) {
        double* const value = leaves[i].value().data<double>();
        for (int64_t j = 0; j < starts[i].num_elements(); ++j) {
          value[j] = starts[i].data<double>()[j] + step * directions[i].data<double>()[j];
        }
      }
      const ContextScope no_grad = NoGrad();
      return loss().value().Item();
    };
    // The error of the difference is some h² = 1e-10 of the third derivative, that of rounding 1e-16 / h = 1e-11.
    const double h = 1e-5;
    EXPECT_NEAR((at(h) - at(-h)) / (2 * h), expected, 1e-6 * std::max(1.0, std::abs(expected)));
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

}  // namespace crosstalk::transformer_config_test
