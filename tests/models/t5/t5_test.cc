#include "crosstalk/models/t5/t5.h"

#include "crosstalk/autograd/ops.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/nn/optim/adafactor.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/gradient_differences.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::t5_test {

using Phase = ForwardContext::Phase;

constexpr int64_t kVocabulary = 40;

struct Batch {
  Tensor inputs = TinyIds(3, 9, kVocabulary, 1);
  Tensor targets = TinyIds(3, 7, kVocabulary, 2);
};

ForwardContext Training() { return {.phase = Phase::kTraining, .seed = 5, .step = 3, .micro_batch = 1}; }

template <typename T>
std::vector<T> Row(const Tensor& x, int64_t row, int64_t position) {
  return x.Select(0, row).Select(0, position).ToVector<T>();
}

class T5KindTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Attention, T5KindTest,
                         ::testing::Values("multihead", "talking", "logits", "weights", "dynamic", "bilinear"),
                         [](const auto& info) { return std::string(info.param); });

// With dropout, z-loss and padding. The gelu keeps the loss smooth.
TEST_P(T5KindTest, GradientsOfEveryParameterAreRight) {
  const Batch batch;
  const auto classifier = std::string(GetParam()) == "talking" ? ClassifierKind::kUntied : ClassifierKind::kTied;
  const T5 model(TinyT5(GetParam(), FeedForwardKind::kGatedGelu, classifier, 0.2), 1, DType::kFloat64);
  testing::ExpectGradientsOfDifferences(
      model, [&] { return model.Loss(batch.inputs, batch.targets, {.z_loss = 1e-2}, Training()).sum; }, 2e-7, 20);
}

// Tokens in the midst of a row that a mask hides from the encoder, and from the decoder's queries over the memory.
TEST_P(T5KindTest, WhatAMaskHidesInsideARowChangesNothing) {
  const Batch batch;
  const T5 model(TinyT5(GetParam()), 1, DType::kFloat64);
  T5Masks masks = {.inputs = Tensor::Full({3, 9}, 1, DType::kBool), .targets = Tensor::Full({3, 7}, 1, DType::kBool)};
  for (int64_t row = 0; row < 3; ++row) {
    masks.inputs.data<bool>()[row * 9 + 2] = false;
    masks.targets.data<bool>()[row * 7 + 3] = false;
  }
  const auto hidden = [&](const Tensor& inputs, const Tensor& decoder_inputs) {
    const Variable encoded = model.Encode(inputs, {}, masks.inputs);
    return model.Decode(encoded, masks.inputs, decoder_inputs, {}, masks.targets).value();
  };
  Tensor inputs = batch.inputs.Clone(), targets = ShiftRight(batch.targets, kPadId);
  const Tensor before = hidden(inputs, targets);
  for (int64_t row = 0; row < 3; ++row) {
    inputs.data<int32_t>()[row * 9 + 2] ^= 1;
    targets.data<int32_t>()[row * 7 + 3] ^= 1;
  }
  const Tensor after = hidden(inputs, targets);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t i = 0; i < 7; ++i) {
      EXPECT_EQ(Row<double>(before, row, i) == Row<double>(after, row, i), i != 3) << row << ' ' << i;
    }
  }
  const double masked = model.Loss(batch.inputs, batch.targets, {}, {}, masks).sums[0].sum;
  EXPECT_NE(masked, model.Loss(batch.inputs, batch.targets, {}, {}).sums[0].sum);
  T5Masks inputs_only = {.inputs = NotPadding(batch.inputs, kPadId)};
  EXPECT_EQ(model.Loss(batch.inputs, batch.targets, {}, {}, inputs_only).sums[0].sum,
            model.Loss(batch.inputs, batch.targets, {}, {}).sums[0].sum);
}

TEST(T5Test, SaysWhatComputesItsAttention) {
  ModelConfig config = TinyT5("talking");
  EXPECT_EQ(AttentionImplementationText(T5(config, 1)), "fused");
  config.encoder_decoder.implementation = AttentionImplementation::kComposed;
  EXPECT_EQ(AttentionImplementationText(T5(config, 1)), "fused and composed");
  config.encoder_self.implementation = config.decoder_self.implementation = AttentionImplementation::kComposed;
  EXPECT_EQ(AttentionImplementationText(T5(config, 1)), "composed");
}

TEST(T5Test, OtherSpecialTokensAreTheConfigurations) {
  ModelConfig config = TinyT5("talking");
  config.tokens = {.pad = 5, .end = 6, .decoder_start = 7};
  const Tensor shifted = ShiftRight(Tensor::FromValues<int32_t>({1, 3}, {9, 8, 6}), 7);
  EXPECT_EQ(shifted.ToVector<int32_t>(), (std::vector<int32_t>{7, 9, 8}));
  const T5 model(config, 1, DType::kFloat64);
  const Tensor inputs = TinyIds(2, 6, kVocabulary, 1), targets = Tensor::Full({2, 3}, 5, DType::kInt32);
  EXPECT_EQ(model.Loss(inputs, targets, {}, {}).sums[0].count, 0);
  targets.data<int32_t>()[0] = 0;
  const LossResult loss = model.Loss(inputs, targets, {}, {});
  EXPECT_EQ(loss.sums[0].count, 1);
  const Variable encoded = model.Encode(inputs, {});
  const Tensor mask = NotPadding(inputs, 5);
  const Tensor first = model.Logits(model.Decode(encoded, mask, ShiftRight(targets, 7), {})).value();
  TransformerCache cache = model.StartDecoding(inputs);
  const Tensor step = model.DecodeStep(Tensor::Full({2}, 7, DType::kInt32), cache);
  for (int64_t id = 0; id < kVocabulary; ++id) EXPECT_NEAR(step.At({1, id}), first.At({1, 0, id}), 1e-12);
}

// The loss and all gradients, by both implementations.
void ExpectRecomputationGivesTheSameBits(const ModelConfig& config) {
  const Batch batch;
  T5 model(config, 1);
  std::vector<std::vector<float>> kept;
  for (const Activations activations : {Activations::kKeep, Activations::kRecompute}) {
    model.ZeroGrad();
    model.SetActivations(activations);
    const LossResult loss = model.Loss(batch.inputs, batch.targets, {}, Training());
    Backward(loss.sum);
    std::vector<NamedTensor> results = {{"loss", loss.sum.value()}};
    for (const NamedParameter& parameter : model.Parameters()) {
      ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
      results.push_back({parameter.name, parameter.value.grad()});
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (activations == Activations::kKeep) kept.push_back(results[i].tensor.ToVector<float>());
      EXPECT_TRUE(kept[i] == results[i].tensor.ToVector<float>()) << results[i].name;
    }
  }
}

TEST_P(T5KindTest, RecomputationGivesTheSameBits) {
  ModelConfig config = TinyT5(GetParam(), FeedForwardKind::kRelu, ClassifierKind::kTied, 0.1);
  ExpectRecomputationGivesTheSameBits(config);
  config.encoder_self.implementation = config.decoder_self.implementation = AttentionImplementation::kComposed;
  config.encoder_decoder.implementation = AttentionImplementation::kComposed;
  ExpectRecomputationGivesTheSameBits(config);
}

// Three encoder and four decoder layers, whose kinds come in turn; what a user says, from options to decoded logits.
TEST(T5LayerKindsTest, LayersOfDifferentKindsDecodeAsTheWholePassAndRecomputeToTheSameBits) {
  TrainingConfig training;
  ModelConfig& options = training.model;
  options.name = "t5";
  options.attention = {.kind = AttentionKind::kTalking, .heads = 4};
  options.d_model = 16;
  options.d_ff = 13;
  options.layers = 3;
  options.decoder_layers = 4;
  options.dropout_rate = 0.1;
  const Vocabulary vocabulary = {.size = kVocabulary, .tokens = SpecialTokens()};
  const Batch batch;
  using K = AttentionKind;
  struct Said {
    std::vector<K> kinds;
    std::optional<K> encoder_self, encoder_decoder;
  };
  for (const Said& said : {Said{{K::kTalking, K::kDcmha, K::kDiffV1}, {}, {}},
                           {{K::kDynamic, K::kMultihead, K::kDiffV2}, K::kWeights, {}},
                           {{K::kTalking, K::kMta}, {}, K::kMultihead}}) {
    options.layer_kinds = said.kinds;
    options.encoder_self_kind = said.encoder_self;
    options.encoder_decoder_kind = said.encoder_decoder;
    const ModelConfig config = ConfigureModel(training, vocabulary);
    EXPECT_EQ(config.encoder_self_layers.size(), said.encoder_self ? 0u : 3u);
    ASSERT_EQ(config.decoder_self_layers.size(), 4u);
    EXPECT_EQ(config.encoder_decoder_layers.size(), said.encoder_decoder ? 0u : 4u);
    EXPECT_EQ(ToString(config.decoder_self_layers[1]), ToString(MakeAttentionLayer(options, said.kinds[1])));
    EXPECT_EQ(ReadModelConfig(config.ToJson(), "json").ToJson(), config.ToJson());

    const T5 model(config, 1, DType::kFloat64);
    EXPECT_EQ(model.AttentionPlaces().size(), (said.encoder_self ? 1u : 3u) + 4u + (said.encoder_decoder ? 1u : 4u));
    const Tensor mask = NotPadding(batch.inputs, kPadId), inputs = ShiftRight(batch.targets, kPadId);
    const Tensor whole = model.Logits(model.Decode(model.Encode(batch.inputs, {}), mask, inputs, {})).value();
    TransformerCache cache = model.StartDecoding(batch.inputs);
    for (int64_t i = 0; i < 7; ++i) {
      const Tensor step = model.DecodeStep(inputs.Slice(1, i, i + 1).Reshape({3}), cache);
      for (int64_t row = 0; row < 3; ++row) {
        for (int64_t id = 0; id < kVocabulary; ++id) {
          ASSERT_NEAR(step.At({row, id}), whole.At({row, i, id}), 1e-12) << i;
        }
      }
    }
    ExpectRecomputationGivesTheSameBits(config);
  }
  options.encoder_self_kind = options.decoder_self_kind = options.encoder_decoder_kind = K::kTalking;
  testing::ExpectError([&] { ConfigureModel(training, vocabulary); }, ErrorKind::kUsage,
                       {"layer_kinds", "kind of its own"});
}

// All that a step needs, the kernels' working memory included, the steps after it use again.
TEST_P(T5KindTest, NothingIsAllocatedAfterTheSecondStep) {
  // With more it depends on chance how many of the kernels' buffers are in use at once.
  const ThreadsScope one_thread(1);
  for (const AttentionImplementation implementation :
       {AttentionImplementation::kFused, AttentionImplementation::kComposed}) {
    ModelConfig config = TinyT5(GetParam());
    for (AttentionConfig* attention : {&config.encoder_self, &config.decoder_self, &config.encoder_decoder}) {
      attention->implementation = implementation;
    }
    T5 model(config, 1);
    Adafactor optimizer(model.Parameters());
    int64_t taken = 0;
    for (int step = 0; step < 5; ++step) {
      const Batch batch;
      const LossResult loss = model.Loss(batch.inputs, batch.targets, {}, Training());
      Backward(Scale(loss.sum, 1.0 / static_cast<double>(loss.sums[0].count)));
      optimizer.Step(0.01);
      model.ZeroGrad();
      if (step == 1) taken = GetMemoryStats().system_allocations;
    }
    EXPECT_EQ(GetMemoryStats().system_allocations, taken) << Name(implementation);
  }
}

TEST(T5Test, RefusesBatchesThatDoNotFit) {
  const T5 model(TinyT5("talking"), 1);
  const Tensor inputs = TinyIds(3, 9, kVocabulary, 1), targets = TinyIds(2, 7, kVocabulary, 2);
  Tensor outside = inputs.Clone();
  outside.data<int32_t>()[0] = kVocabulary;  // the table has rows beyond it
  testing::ExpectRefused(
      {{"fewer rows", [&] { model.Loss(inputs, targets, {}, {}); }, {}},
       {"a type", [&] { model.Loss(inputs.To(DType::kInt64), inputs, {}, {}); }, {}},
       {"an id",
        [&] { model.Encode(outside, {}); },
        {StrCat("embedding: index ", kVocabulary, " at position 0 of ids[3, 9] is not in [0, ", kVocabulary, ")")}}});
}

// ---- A T5 as a writer: it puts its targets into blanks ----

// Each of its tokens is a letter.
std::shared_ptr<const Tokenizer> Letters() { return MakeCharacterTokenizer("abcdefghijklmnopqrstuvwxyz", "x", 4); }

T5 LetterModel() {
  ModelConfig config = TinyT5("talking");
  config.vocabulary = Letters()->vocab_size();
  return {config, 5, DType::kFloat64};
}

std::string Write(const T5& model, const std::string& prompt, const SearchOptions& options) {
  std::string text;
  WriteText(model, *model.MakeWriter(Letters()), prompt, options,
            [&](std::string_view piece, Author) { text += piece; });
  return text;
}

// By whole passes over the targets so far.
TEST(T5WriterTest, WhatFillsABlankIsTheLikeliestTarget) {
  const T5 model = LetterModel();
  const auto tokenizer = Letters();
  const std::string prompt = "ab___cd___";
  const std::vector<int32_t> ids = EncodeBlanks(SplitAtBlanks(prompt), *tokenizer);
  const Tensor inputs = Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
  std::vector<int32_t> targets = {kPadId};
  std::vector<std::string> fills;
  const ContextScope no_grad = NoGrad();
  const Variable encoded = model.Encode(inputs, {});
  for (int blank = 0; blank < 2; ++blank) {
    targets.push_back(tokenizer->Sentinel(blank));
    std::vector<int32_t> fill;
    for (int i = 0; i < 6; ++i) {
      const auto m = static_cast<int64_t>(targets.size());
      const Tensor logits = model
                                .Logits(model.Decode(encoded, NotPadding(inputs, kPadId),
                                                     Tensor::FromValues<int32_t>({1, m}, targets), {}))
                                .value();
      int32_t best = 3;
      for (int32_t id = 1; id < tokenizer->vocab_size(); ++id) {
        const bool text = id >= 3 && id < 29;
        const bool ends = id == tokenizer->Sentinel(blank + 1) || (blank == 1 && id == kEosId);
        if (!text && !ends) continue;
        if (logits.At({0, m - 1, id}) > logits.At({0, m - 1, best})) best = id;
      }
      if (best == 1 || best >= 29) break;
      targets.push_back(best);
      fill.push_back(best);
    }
    fills.push_back(tokenizer->Decode(fill));
  }
  EXPECT_FALSE(fills[0].empty() && fills[1].empty());
  EXPECT_EQ(Write(model, prompt, {.max_length = 6}), "ab" + fills[0] + "cd" + fills[1]);
}

TEST(T5WriterTest, ATextWithoutBlanksIsAnsweredUntilTheEndToken) {
  const T5 model = LetterModel();
  const auto tokenizer = Letters();
  std::vector<int32_t> ids = tokenizer->Encode("abc");
  ids.push_back(kEosId);
  SearchInput input = {.ids = ids};
  input.restrict_tokens = [&](const std::vector<int32_t>&, std::vector<bool>* allowed) {
    for (size_t id = 0; id < allowed->size(); ++id) (*allowed)[id] = id == kEosId || (id >= 3 && id < 29);
  };
  for (const int64_t beams : {1, 4}) {
    const SearchOptions options = {.max_length = 9, .beams = beams};
    const SearchAnswer expected = Search(model, {input}, options)[0][0];
    const auto writer = model.MakeWriter(tokenizer);
    const SearchAnswer answer = Search(model, {writer->Read("abc", 9)}, options)[0][0];
    EXPECT_EQ(answer.ids, expected.ids);
    EXPECT_EQ(TextOf(*writer, "abc", answer), tokenizer->Decode(expected.ids));
  }
}

// The ids of an answer are a target of span corruption: sentinels in their order, each with its text.
TEST(T5WriterTest, BeamsFillEveryBlankToo) {
  const T5 model = LetterModel();
  const auto tokenizer = Letters();
  const auto writer = model.MakeWriter(tokenizer);
  const auto answers = Search(model, {writer->Read("ab___cd___", 3)}, {.beams = 4, .answers = 4})[0];
  ASSERT_EQ(answers.size(), 4u);
  for (const SearchAnswer& answer : answers) {
    EXPECT_EQ(answer.ids[0], tokenizer->Sentinel(0));
    const auto second = std::find(answer.ids.begin(), answer.ids.end(), tokenizer->Sentinel(1));
    ASSERT_NE(second, answer.ids.end());
    EXPECT_LE(second - answer.ids.begin(), 4);
    EXPECT_EQ(answer.ids.back(), kEosId);
    const std::string text = TextOf(*writer, "ab___cd___", answer);
    EXPECT_EQ(text.substr(0, 2), "ab");
    EXPECT_NE(text.find("cd"), std::string::npos);
    EXPECT_EQ(text.find('<'), std::string::npos) << text;
  }
}

TEST(T5WriterTest, NoTextAndTooManyBlanksAreRefused) {
  const T5 model = LetterModel();
  testing::ExpectRefused<std::string>({{"nothing", "", {"text"}}, {"five blanks", "___a___b___c___d___", {"text"}}},
                                      [&](const std::string& prompt) { Write(model, prompt, {}); });
  EXPECT_NO_THROW(Write(model, "___a___b___c___", {}));
}

}  // namespace crosstalk::t5_test
