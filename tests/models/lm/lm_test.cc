#include "crosstalk/models/lm/lm.h"

#include "crosstalk/models/registry.h"
#include "crosstalk/models/training/config.h"
#include "tests/support/gradient_differences.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::lm_test {

constexpr int64_t kContext = 11;

Tensor AllLogits(const Lm& model, const Tensor& ids) {
  const ContextScope no_grad = NoGrad();
  return model.Logits(model.Forward(ids, {})).value();
}

class LmKindTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LmKindTest, DecodingEqualsTheFullPass) {
  for (const PositionScheme positions :
       {PositionScheme::kRelativeBias, PositionScheme::kLearned, PositionScheme::kNone}) {
    SCOPED_TRACE(Name(positions));
    const Lm model(TinyLm(GetParam(), 29, kContext, positions), 1, DType::kFloat64);
    const Tensor ids = TinyIds(3, kContext, 29, 1, 0);
    const Tensor full = AllLogits(model, ids);
    for (const int64_t prompt : {1, 4}) {
      TransformerCache cache = model.StartDecoding();
      for (int64_t begin = 0, end = prompt; end <= kContext; begin = end++) {
        const Tensor logits = model.DecodeStep(ids.Slice(1, begin, end).Contiguous(), cache);
        ASSERT_EQ(logits.shape(), (Shape{3, 29}));
        for (int64_t row = 0; row < 3; ++row) {
          for (int64_t id = 0; id < 29; ++id) {
            // A few hundred roundings of numbers of order 1.
            ASSERT_NEAR(logits.At({row, id}), full.At({row, end - 1, id}), 1e-12) << "position " << end - 1;
          }
        }
      }
    }
  }
}

TEST_P(LmKindTest, GradientsAreThoseOfTheLoss) {
  const Lm model(TinyLm(GetParam(), 29, kContext, PositionScheme::kLearned), 1, DType::kFloat64);
  Batch batch;
  batch.Add("inputs", TinyIds(2, 7, 29, 2)).Add("targets", TinyIds(2, 7, 29, 3));
  const ForwardContext training = {.phase = ForwardContext::Phase::kTraining};
  testing::ExpectGradientsOfDifferences(
      model, [&] { return model.Loss(batch, {.z_loss = 0.01}, training).sum; }, 2e-7, 10);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LmKindTest,
                         ::testing::Values("multihead", "talking", "logits", "weights", "dynamic", "bilinear", "dcmha",
                                           "diff-v1", "diff-v2", "mta"));

// A kind for each layer, rotary positions, gates: what a user says, from options to the decoded text.
TEST(LmFamilyTest, LayersOfDifferentKindsDecodeAsTheFullPass) {
  TrainingConfig training;
  training.objective.input_length = kContext;
  ModelConfig& options = training.model;
  options.attention = {.kind = AttentionKind::kTalking, .heads = 4, .kv_heads = 2};
  options.attention.head_gate = HeadGate::kElement;
  options.attention.convolution = "2x3";
  options.layer_kinds = {AttentionKind::kTalking, AttentionKind::kDcmha, AttentionKind::kDiffV1};
  options.d_model = 16;
  options.d_ff = 13;
  options.layers = 4;
  options.feed_forward = FeedForwardKind::kSwiGlu;
  for (const auto& [positions, kinds] :
       {std::pair(PositionScheme::kRotary, options.layer_kinds),
        {PositionScheme::kRelativeBias, options.layer_kinds},
        {PositionScheme::kRelativeBias, {AttentionKind::kTalking, AttentionKind::kMta}}}) {
    options.positions = positions;
    options.layer_kinds = kinds;
    if (kinds.size() == 2) options.attention.convolution.reset();  // the second kind's alone
    const ModelConfig lm = ConfigureModel(training, {.size = 29, .tokens = {}});
    ASSERT_EQ(lm.decoder_self_layers.size(), 4u);
    EXPECT_EQ(lm.decoder_self_layers[3].mixing, lm.decoder_self_layers[0].mixing);
    EXPECT_EQ(ReadModelConfig(lm.ToJson(), "json").ToJson(), lm.ToJson());
    const Lm model(lm, 1, DType::kFloat64);
    const Tensor ids = TinyIds(3, kContext, 29, 1, 0);
    const Tensor full = AllLogits(model, ids);
    TransformerCache cache = model.StartDecoding();
    for (int64_t end = 1; end <= kContext; ++end) {
      const Tensor logits = model.DecodeStep(ids.Slice(1, end - 1, end).Contiguous(), cache);
      for (int64_t id = 0; id < 29; ++id) ASSERT_NEAR(logits.At({2, id}), full.At({2, end - 1, id}), 1e-12) << end;
    }
  }
}

TEST(LmTest, TheLossIsTheMeanNegativeLogOfTheTargets) {
  const Lm model(TinyLm("talking", 29, kContext), 1, DType::kFloat64);
  const Tensor inputs = TinyIds(3, 8, 29, 2, 0), targets = TinyIds(3, 8, 29, 3);
  Batch batch;
  batch.Add("inputs", inputs).Add("targets", targets);
  const LossResult loss = model.Loss(batch, {.z_loss = 1}, {});  // z-loss is for training
  const Tensor logits = AllLogits(model, inputs);
  double expected = 0;
  int64_t counted = 0;
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t i = 0; i < 8; ++i) {
      const auto target = static_cast<int64_t>(targets.At({row, i}));
      if (target == kPadId) continue;
      double sum = 0;
      for (int64_t id = 0; id < 29; ++id) sum += std::exp(logits.At({row, i, id}));
      expected += std::log(sum) - logits.At({row, i, target});
      ++counted;
    }
  }
  ASSERT_EQ(loss.sums.size(), 1u);
  EXPECT_EQ(loss.sums[0].name, "ln_ppl");
  EXPECT_EQ(loss.sums[0].count, counted);
  EXPECT_NEAR(loss.sums[0].sum, expected, 1e-10);
  EXPECT_NEAR(loss.sum.value().data<double>()[0], expected, 1e-10);
}

TEST(LmTest, RefusesWhatCannotBe) {
  const std::pair<const char*, Json> kForged[] = {
      {"model", "gpt"}, {"context", 0}, {"layers", 1001}, {"d_model", 12}, {"positions", "absolute"}, {"extra", 1}};
  for (const auto& [key, value] : kForged) {
    Json json = TinyLm("talking", 29, kContext).ToJson();
    json.Set(key, value);
    testing::ExpectError([&] { ReadModelConfig(json, "config.json"); }, ErrorKind::kData, {"config.json", key});
  }
  const Lm model(TinyLm("talking", 29, kContext), 1);
  TransformerCache cache = model.StartDecoding();
  EXPECT_THROW(model.DecodeStep(TinyIds(1, kContext + 1, 29, 1, 0), cache), Error);
  Batch batch;
  batch.Add("inputs", TinyIds(2, 8, 29, 2)).Add("targets", TinyIds(2, 7, 29, 3));
  EXPECT_THROW(model.Loss(batch, {}, {}), Error);
}

}  // namespace crosstalk::lm_test
