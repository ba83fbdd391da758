#include "crosstalk/nn/transformer.h"

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/messages.h"

namespace crosstalk::transformer_test {

TransformerConfig Config(Causality causality) {
  TransformerConfig config;
  config.layers = 3;
  config.self_attention = AttentionConfig::TalkingHeads(8, 2, 3, 4, 5, 6);
  config.self_attention.causality = causality;
  config.feed_forward = {.d_model = 8, .d_ff = 11};
  return config;
}

Tensor Random(const Shape& shape, uint32_t stream) {
  Tensor tensor = Tensor::Empty(shape, DType::kFloat64);
  FillNormal(tensor, {.seed = 41, .stream = stream}, 0.0, 1.0);
  return tensor;
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

// The largest |a - b| over the largest |b|.
double RelativeError(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.To(DType::kFloat64).ToVector<double>(), y = b.To(DType::kFloat64).ToVector<double>();
  double error = 0, largest = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    error = std::max(error, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return error / largest;
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

// The fused attention reads the bias from its table, the composed one is given it whole, in float as well. Both are off
// by the roundings of some 200 operations in a row, of 6e-8 each, that mostly cancel: 2e-5 of the largest.
TEST(TransformerStackTest, TheFusedAttentionEqualsTheComposedInValuesAndGradients) {
  const Variable memory(Random({3, 21, 8}, 2).To(DType::kFloat32), Variable::RequiresGrad::kYes);
  const Tensor x = Random({3, 37, 8}, 1).To(DType::kFloat32), dy = Random({3, 37, 8}, 3).To(DType::kFloat32);
  for (const AttentionConfig& kind : StackKinds()) {
    for (const Causality causality : {Causality::kNone, Causality::kCausal}) {
      SCOPED_TRACE(ToString(kind) + (causality == Causality::kCausal ? ", decoder" : ", encoder"));
      std::vector<NamedParameter> results[2];
      for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
        const FloatStack of(kind, causality, implementation);
        const Variable input(x, Variable::RequiresGrad::kYes);
        memory.ZeroGrad();
        const bool decoder = causality == Causality::kCausal;
        const TransformerMemory to = {.encoded = decoder ? memory : Variable(),
                                      .mask = decoder ? LastKeysHidden(3, 21) : Tensor()};
        const Variable y = of.stack.Forward(input, decoder ? Tensor() : LastKeysHidden(3, 37), to, {});
        Backward(y, dy);
        std::vector<NamedParameter>& result = results[implementation == AttentionImplementation::kFused];
        result = {{.name = "y", .value = y}, {.name = "dx", .value = Variable(input.grad())}};
        if (decoder) result.push_back({.name = "dM", .value = Variable(memory.grad())});
        for (const NamedParameter& parameter : of.stack.Parameters()) {
          result.push_back({.name = parameter.name, .value = Variable(parameter.value.grad())});
        }
      }
      for (size_t i = 0; i < results[0].size(); ++i) {
        const std::string& name = results[0][i].name;
        EXPECT_LE(RelativeError(results[1][i].value.value(), results[0][i].value.value()), 2e-5) << name;
      }
    }
  }
}

// Step t reads the bias of distances -t … 0 from the table; the whole pass that of -36 … 36. Tolerance as above.
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
        EXPECT_LE(RelativeError(y.value(), whole.Slice(1, begin, end)), 2e-5) << "positions " << begin << " … " << end;
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
