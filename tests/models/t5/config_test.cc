#include "crosstalk/models/t5/config.h"

#include <gtest/gtest.h>

#include <string>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/t5_cases.h"

namespace crosstalk {
namespace {

TEST(T5ConfigTest, JsonGoesOutAndComesBackTheSame) {
  for (const char* kind : {"multihead", "talking", "logits", "weights", "dynamic", "bilinear"}) {
    const T5Config config = TinyT5(kind, FeedForwardKind::kRelu, ClassifierKind::kUntied, 0.25);
    const std::string text = ToJson(config).Dump();
    const T5Config back = T5ConfigFromJson(ParseJson(text, "test"), "test");
    EXPECT_EQ(ToJson(back).Dump(), text);
    EXPECT_EQ(back.decoder_self.causality, Causality::kCausal);
    EXPECT_EQ(back.encoder_self.mixing, config.encoder_self.mixing);
    EXPECT_EQ(back.encoder_self.dropout_rate, 0.25);
  }
}

// Throws a data error that names the key, after `member` of the good JSON has been set to `value`.
void ExpectRejected(const std::string& member, Json value) {
  Json json = ToJson(TinyT5("talking"));
  json.Set(member, std::move(value));
  try {
    T5ConfigFromJson(json, "config.json");
    ADD_FAILURE() << "accepted a bad " << member;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(error.what()).find("config.json"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(member), std::string::npos) << error.what();
  }
}

TEST(T5ConfigTest, RejectsJsonThatIsNotUnderstood) {
  ExpectRejected("layers", 3);
  ExpectRejected("model", "bert");
  ExpectRejected("d_model", "10");
  ExpectRejected("d_model", 11);
  ExpectRejected("encoder_layers", 0);
  ExpectRejected("dropout_rate", 1.0);
  ExpectRejected("relative_buckets", 30);
  ExpectRejected("encoder_self", Json::MakeObject());
  Json attention = ToJson(TinyT5("talking")).At("encoder_self");
  attention.Set("mixing", Json::MakeArray({"P_z"}));
  ExpectRejected("encoder_self", attention);
  attention = ToJson(TinyT5("talking")).At("encoder_self");
  attention.Set("h_v", 0);
  ExpectRejected("encoder_self", attention);
}

TEST(T5ConfigTest, ValidateNamesTheFieldAtFault) {
  T5Config config = TinyT5("talking");
  config.d_model = 12;
  try {
    config.Validate();
    FAIL() << "accepted attention of another width";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("d_model = 12"), std::string::npos) << error.what();
  }
  config = TinyT5("talking");
  config.decoder_self.causality = Causality::kNone;
  EXPECT_THROW(config.Validate(), Error);
  config = TinyT5("talking");
  config.encoder_self.causality = Causality::kCausal;
  EXPECT_THROW(config.Validate(), Error);
}

TEST(T5ConfigTest, SetDropoutReachesEveryAttentionLayer) {
  T5Config config = TinyT5("talking");
  config.SetDropout(0.1);
  EXPECT_EQ(config.dropout_rate, 0.1);
  for (const AttentionConfig* attention : {&config.encoder_self, &config.decoder_self, &config.encoder_decoder}) {
    EXPECT_EQ(attention->dropout_rate, 0.1);
  }
}

TEST(T5ConfigTest, VocabularyIsPaddedToAMultipleOf128) {
  T5Config config;
  config.vocabulary = 32100;
  EXPECT_EQ(config.padded_vocabulary(), 32128);
  config.vocabulary = 256;
  EXPECT_EQ(config.padded_vocabulary(), 256);
}

TEST(T5CostTest, ParametersOfBaseAreThePublishedNumber) {
  T5Config config;
  config.SetAttention(AttentionConfig::MultiHead(768, 12, 64));
  // T5 base has 222,903,552: 2 stacks' bias tables of 32 × 12 and their norms included.
  EXPECT_EQ(EstimateT5(config, 1, 512, 114).parameters, 222903552);
}

TEST(T5CostTest, MultiplicationsOfBaseAreTheSumOfItsParts) {
  T5Config config;
  config.SetAttention(AttentionConfig::MultiHead(768, 12, 64));
  const int64_t n = 512, m = 114, d = 768;
  const int64_t encoder = 12 * (4 * n * d * d + 2 * n * n * d + 2 * n * d * 3072);
  const int64_t decoder = 12 * (4 * m * d * d + 2 * m * m * d) + 12 * (2 * m * d * d + 2 * n * d * d + 2 * n * m * d) +
                          12 * 2 * m * d * 3072;
  const T5Cost cost = EstimateT5(config, 3, n, m);
  EXPECT_EQ(cost.forward_multiplications, 3 * (encoder + decoder + m * d * 32128));
  EXPECT_EQ(cost.step_multiplications, 3 * cost.forward_multiplications);
  EXPECT_EQ(EstimateT5(config, 3, n, m, Activations::kRecompute).step_multiplications,
            4 * cost.forward_multiplications);
}

// The estimate against a training step in both forms, of one model. It promises a fifth; here it is 12 % below to 7 %
// above for the composed attention, 8 % below to 6 % above for the fused one, and the test keeps it there.
void ExpectEstimateIsClose(const T5Config& config, int64_t batch, int64_t n, int64_t m, const std::string& what) {
  ReleaseCachedMemory();
  const int64_t before = GetMemoryStats().live_bytes;
  T5 model(config, 1);
  Adafactor optimizer(model.Parameters());
  for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
    ResetPeakMemory();
    model.SetActivations(activations);
    const Tensor inputs = TinyIds(batch, n, config.vocabulary, 1, 0);
    const Tensor targets = TinyIds(batch, m, config.vocabulary, 2, 0);
    const T5Loss loss = model.Loss(inputs, targets, {}, {.phase = ForwardContext::Phase::kTraining});
    Backward(Scale(loss.sum, 1.0 / static_cast<double>(loss.tokens)));
    optimizer.Step(0.01);
    model.ZeroGrad();
    const double measured = static_cast<double>(GetMemoryStats().peak_bytes - before);
    const T5Cost cost = EstimateT5(config, batch, n, m, activations);
    EXPECT_NEAR(static_cast<double>(cost.total_bytes()) / measured, 1.0, 0.12)
        << what << (activations == Activations::kKeep ? " keep" : " recompute");
    EXPECT_EQ(cost.parameters, model.NumParameters()) << what;
    EXPECT_EQ(cost.optimizer_bytes, optimizer.StateBytes()) << what;
  }
}

TEST(T5CostTest, EstimateIsWithinAFifthOfWhatAStepTakes) {
  const int threads_before = NumThreads();
  SetNumThreads(1);  // small tensors: threads would only wait for each other
  for (const char* kind : {"multihead", "talking", "logits", "weights", "dynamic", "bilinear"}) {
    for (const FeedForwardKind feed_forward : {FeedForwardKind::kRelu, FeedForwardKind::kGatedGelu}) {
      const bool relu = feed_forward == FeedForwardKind::kRelu;
      T5Config config;
      config.vocabulary = relu ? 300 : 1000;
      config.d_model = 128;
      config.d_ff = 256;
      config.encoder_layers = relu ? 2 : 1;
      config.decoder_layers = relu ? 1 : 2;
      config.feed_forward = feed_forward;
      config.classifier = relu ? ClassifierKind::kTied : ClassifierKind::kUntied;
      AttentionOptions options;
      options.kind = kind;
      options.heads = 8;
      AttentionConfig attention = MakeAttentionConfig(options, 128);
      for (const auto implementation : {AttentionImplementation::kComposed, AttentionImplementation::kFused}) {
        attention.implementation = implementation;
        config.SetAttention(attention);
        ExpectEstimateIsClose(config, 3, 128, 40, StrCat(Name(implementation), " ", kind, " ", Name(feed_forward)));
      }
    }
  }
  SetNumThreads(threads_before);
}

// Where n is large beside the widths, the fused attention's workspace is what there is most of, and every thread has
// its part of it.
TEST(T5CostTest, TheEstimateCountsTheFusedAttentionsWorkspace) {
  const int threads_before = NumThreads();
  for (const int threads : {1, 4}) {
    SetNumThreads(threads);
    for (const char* kind : {"multihead", "talking", "dynamic", "bilinear"}) {
      T5Config config;
      config.vocabulary = 300;
      config.d_model = 64;
      config.d_ff = 64;
      config.encoder_layers = config.decoder_layers = 1;
      AttentionOptions options;
      options.kind = kind;
      options.heads = 4;
      config.SetAttention(MakeAttentionConfig(options, 64));
      ExpectEstimateIsClose(config, 1, 1024, 200, StrCat(kind, ", ", threads, " threads"));
    }
  }
  SetNumThreads(threads_before);
}

}  // namespace
}  // namespace crosstalk
