// What a TransformerConfig can say beside T5's form: post-norm, layer norm, biases, GELU, shared blocks, no positions,
// no final norm, decoder-only. Values against plain loops, gradients against differences, decoding against the whole
// pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace transformer_config_test {

using Vector = std::vector<double>;
using Sequence = std::vector<Vector>;  // [position][d]

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

// Of every kind, with the parameters that start at 0 or 1 given values that show.
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

void FillParameters(const TransformerStack& stack) {
  uint32_t stream = 100;
  for (const NamedParameter& parameter : stack.Parameters()) {
    const Tensor value = parameter.value.value();
    if (parameter.matrix_shape.rank() == 0) value.CopyFrom(Random(value.shape(), ++stream, value.dtype()));
  }
}

class PlainBert {
 public:
  explicit PlainBert(const TransformerStack& stack) {
    for (const NamedParameter& p : stack.Parameters()) weights_[p.name] = p.value.value().ToVector<double>();
  }

  Sequence Forward(Sequence x, int64_t layers, size_t visible) const {
    for (int64_t i = 0; i < layers; ++i) {
      const std::string block = "block_" + std::to_string(i);
      Sequence y = Attend(block + ".self_attention.", x, visible);
      x = AddAndNorm(block + ".self_attention_norm.", x, y);
      for (size_t j = 0; j < x.size(); ++j) {
        Vector hidden = Affine(x[j], block + ".feed_forward.wi", block + ".feed_forward.wi_bias");
        for (double& value : hidden) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
        y[j] = Affine(hidden, block + ".feed_forward.wo", block + ".feed_forward.wo_bias");
      }
      x = AddAndNorm(block + ".feed_forward_norm.", x, y);
    }
    return x;
  }

 private:
  Vector Affine(const Vector& x, const std::string& weight, const std::string& bias) const {
    Vector y = weights_.at(bias);
    const Vector& w = weights_.at(weight);
    for (size_t k = 0; k < x.size(); ++k) {
      for (size_t j = 0; j < y.size(); ++j) y[j] += x[k] * w[k * y.size() + j];
    }
    return y;
  }

  Sequence AddAndNorm(const std::string& norm, const Sequence& x, const Sequence& y) const {
    Sequence result = x;
    for (size_t i = 0; i < x.size(); ++i) {
      double mean = 0, variance = 0;
      for (size_t k = 0; k < kD; ++k) mean += (result[i][k] += y[i][k]) / kD;
      for (size_t k = 0; k < kD; ++k) variance += std::pow(result[i][k] - mean, 2) / kD;
      for (size_t k = 0; k < kD; ++k) {
        result[i][k] = (result[i][k] - mean) / std::sqrt(variance + 1e-12) * weights_.at(norm + "scale")[k] +
                       weights_.at(norm + "bias")[k];
      }
    }
    return result;
  }

  // Over the first `visible` positions.
  Sequence Attend(const std::string& layer, const Sequence& x, size_t visible) const {
    Sequence q, k, v, result;
    for (const Vector& row : x) {
      q.push_back(Affine(row, layer + "P_q", layer + "b_q"));
      k.push_back(Affine(row, layer + "P_k", layer + "b_k"));
      v.push_back(Affine(row, layer + "P_v", layer + "b_v"));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      Vector o(kHeads * kValue, 0.0);
      for (size_t h = 0; h < kHeads; ++h) {
        Vector weight(visible);
        double total = 0;
        for (size_t j = 0; j < visible; ++j) {
          double logit = 0;
          for (size_t c = 0; c < kKey; ++c) logit += q[i][h * kKey + c] * k[j][h * kKey + c];
          total += weight[j] = std::exp(logit / std::sqrt(static_cast<double>(kKey)));
        }
        for (size_t j = 0; j < visible; ++j) {
          for (size_t c = 0; c < kValue; ++c) o[h * kValue + c] += weight[j] / total * v[j][h * kValue + c];
        }
      }
      result.push_back(Affine(o, layer + "P_o", layer + "b_o"));
    }
    return result;
  }

  std::map<std::string, Vector> weights_;
};

TEST(TransformerConfigTest, BertsBlocksFollowTheEquations) {
  const TransformerStack stack(Bert(), Initializer(1, DType::kFloat64));
  FillParameters(stack);
  const int64_t n = 5, visible = 4;
  const Tensor x = Random({1, n, kD}, 1);
  Tensor mask = Tensor::Full({1, n}, 1, DType::kBool);
  mask.data<bool>()[n - 1] = false;
  const Tensor y = stack.Forward(Variable(x), mask, {}, {}).value();
  Sequence in;
  for (int64_t i = 0; i < n; ++i) in.push_back(x.Select(0, 0).Select(0, i).ToVector<double>());
  const Sequence expected = PlainBert(stack).Forward(in, 2, visible);
  for (int64_t i = 0; i < n; ++i) {
    // Values of order 1 after two blocks of sums of some ten terms in double.
    for (int64_t k = 0; k < kD; ++k) EXPECT_NEAR(y.At({0, i, k}), expected[i][k], 1e-12) << i << ' ' << k;
  }
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
        const Tensor y = stack.Step(Slice(x, 1, i, i + 1), cache).value();
        for (int64_t row = 0; row < 2; ++row) {
          for (int64_t k = 0; k < kD; ++k) {
            EXPECT_NEAR(y.At({row, 0, k}), whole.At({row, i, k}), dtype == DType::kFloat64 ? 1e-12 : 2e-5);
          }
        }
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

TEST(TransformerConfigTest, LayersThatShareABlockHaveOneSetOfParameters) {
  TransformerConfig config = Bert();
  config.layers = 4;
  const auto parameters = [&](int64_t groups) {
    config.groups = groups;
    return TransformerStack(config, Initializer(1)).NumParameters();
  };
  EXPECT_EQ(parameters(4), parameters(0));
  EXPECT_EQ(4 * parameters(1), parameters(0));
  EXPECT_EQ(2 * parameters(2), parameters(0));
  EXPECT_EQ(4 * parameters(3), 3 * parameters(0));
  EXPECT_THROW(parameters(5), Error);
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

// Two layers of one block, each dropping all but the residual stream: with the same numbers in both, an element is
// dropped twice or never.
TEST(TransformerConfigTest, LayersThatShareABlockDropApart) {
  const ForwardContext context = {.phase = ForwardContext::Phase::kTraining, .seed = 1};
  ForwardContext second = context;
  second.use = 1;
  EXPECT_NE(context.DropoutKey("block_0").Block(0), second.DropoutKey("block_0").Block(0));
  TransformerConfig config = LanguageModel();
  config.dropout_rate = 0.5;
  config.groups = 1;
  config.layers = 1;
  const TransformerStack one(config, Initializer(1));
  config.layers = 2;
  const TransformerStack two(config, Initializer(1));
  const Variable x(Random({2, 5, kD}, 1, DType::kFloat32));
  EXPECT_NE(one.Forward(x, Tensor(), {}, context).value().ToVector<float>(),
            two.Forward(x, Tensor(), {}, context).value().ToVector<float>());
}

TEST(TransformerConfigTest, RefusesAMemoryThatNothingAttendsTo) {
  const TransformerStack stack(LanguageModel(), Initializer(1, DType::kFloat64));
  const TransformerMemory memory = {.encoded = Variable(Random({2, 3, kD}, 7)), .mask = Tensor()};
  EXPECT_THROW(stack.StartDecoding(memory), Error);
}

}  // namespace transformer_config_test
}  // namespace crosstalk
