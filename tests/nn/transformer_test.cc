#include "nn/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "autograd/ops_reduce.h"
#include "runtime/check.h"

namespace crosstalk {
namespace {

TransformerStackConfig Config(Causality causality) {
  TransformerStackConfig config;
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

TEST(TransformerStackTest, NamesItsParametersAndSharesOneBiasTable) {
  TransformerStackConfig config = Config(Causality::kCausal);
  config.layers = 1;
  config.cross_attention = AttentionConfig::MultiHead(8, 2, 4);
  const TransformerStack stack(config, Initializer(1));
  std::vector<std::string> names;
  for (const NamedParameter& parameter : stack.Parameters()) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "relative_bias.table", "block_0.self_attention_norm.scale", "block_0.self_attention.P_q",
                       "block_0.self_attention.P_k", "block_0.self_attention.P_v", "block_0.self_attention.P_o",
                       "block_0.self_attention.P_l", "block_0.self_attention.P_w", "block_0.cross_attention_norm.scale",
                       "block_0.cross_attention.P_q", "block_0.cross_attention.P_k", "block_0.cross_attention.P_v",
                       "block_0.cross_attention.P_o", "block_0.feed_forward_norm.scale", "block_0.feed_forward.wi",
                       "block_0.feed_forward.wo", "final_norm.scale"}));
}

TEST(TransformerStackTest, ATracedNonFiniteValueNamesItsLayer) {
  for (const auto recomputation : {TransformerStack::Recomputation::kNone, TransformerStack::Recomputation::kBlocks}) {
    TransformerStack stack(Config(Causality::kNone), Initializer(1, DType::kFloat64));
    stack.SetRecomputation(recomputation);
    for (const NamedParameter& parameter : stack.Parameters()) {
      if (parameter.name == "block_1.feed_forward.wo") {
        parameter.value.value().data<double>()[3] = std::numeric_limits<double>::infinity();
      }
    }
    const FiniteCheckScope check;
    const LayerScope scope("encoder");
    try {
      Backward(Sum(stack.Forward(Variable(Random({2, 5, 8}, 1)), Tensor(), {}, {})));
      FAIL() << "infinity passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kNumerical);
      EXPECT_NE(std::string(error.what()).find("encoder.block_1.feed_forward"), std::string::npos) << error.what();
    }
  }
}

TEST(TransformerStackTest, DropsInputLayersAndOutputInTraining) {
  TransformerStackConfig config = Config(Causality::kNone);
  config.dropout_rate = 0.5;
  const TransformerStack stack(config, Initializer(1, DType::kFloat64, "encoder"));
  const Variable x(Random({2, 5, 8}, 1));
  const ForwardContext training = {.phase = ForwardContext::Phase::kTraining, .seed = 1};
  const std::vector<double> y = stack.Forward(x, Tensor(), {}, training).value().ToVector<double>();
  EXPECT_EQ(y, stack.Forward(x, Tensor(), {}, training).value().ToVector<double>());
  EXPECT_NE(y, stack.Forward(x, Tensor(), {}, {}).value().ToVector<double>());
  int zeros = 0;
  for (const double value : y) zeros += value == 0;
  EXPECT_NEAR(zeros, 40, 4 * std::sqrt(80 * 0.25));  // of 80 outputs; four standard deviations
  ForwardContext later = training;
  later.micro_batch = 1;
  EXPECT_NE(y, stack.Forward(x, Tensor(), {}, later).value().ToVector<double>());
}

TEST(TransformerStackTest, DropsItsInputAndItsOutputEachOnTheirOwn) {
  TransformerStackConfig config = Config(Causality::kNone);
  config.layers = 0;
  config.dropout_rate = 0.5;
  const TransformerStack stack(config, Initializer(1, DType::kFloat64, "encoder"));
  const Variable x(Random({20, 10, 8}, 1));
  const ForwardContext training = {.phase = ForwardContext::Phase::kTraining, .seed = 1};
  int zeros = 0;
  for (const double value : stack.Forward(x, Tensor(), {}, training).value().ToVector<double>()) zeros += value == 0;
  // Without blocks an element survives two draws of 1/2 (the norm between keeps zeros): 3/4 of 1600 are zero.
  EXPECT_NEAR(zeros, 1200, 4 * std::sqrt(1600 * 0.75 * 0.25));
}

TEST(TransformerStackTest, RefusesWhatDoesNotFit) {
  TransformerStackConfig config = Config(Causality::kCausal);
  config.cross_attention = AttentionConfig::MultiHead(8, 2, 4);
  const TransformerStack decoder(config, Initializer(1, DType::kFloat64));
  const Variable x(Random({2, 5, 8}, 1));
  EXPECT_THROW(decoder.Forward(x, Tensor(), {}, {}), Error);  // no memory
  const TransformerMemory other_batch = {.encoded = Variable(Random({3, 4, 8}, 2)), .mask = Tensor()};
  EXPECT_THROW(decoder.Forward(x, Tensor(), other_batch, {}), Error);
  const TransformerStack encoder(Config(Causality::kNone), Initializer(1, DType::kFloat64));
  EXPECT_THROW(encoder.StartDecoding({}), Error);
}

}  // namespace
}  // namespace crosstalk
