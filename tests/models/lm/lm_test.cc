#include "crosstalk/models/lm/lm.h"

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/registry.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
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

// Steps of decoding, after a prompt of so many ids, have the logits of the full pass, to a few hundred roundings of
// numbers of order 1.
void ExpectDecodingIsTheFullPass(const Lm& model, int64_t prompt) {
  const Tensor ids = TinyIds(3, kContext, 29, 1, 0), full = AllLogits(model, ids);
  TransformerCache cache = model.StartDecoding();
  for (int64_t begin = 0, end = prompt; end <= kContext; begin = end++) {
    const Tensor logits = model.DecodeStep(ids.Slice(1, begin, end).Contiguous(), cache);
    ASSERT_EQ(logits.shape(), (Shape{3, 29}));
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t id = 0; id < 29; ++id) {
        ASSERT_NEAR(logits.At({row, id}), full.At({row, end - 1, id}), 1e-12) << "position " << end - 1;
      }
    }
  }
}

class LmKindTest : public ::testing::TestWithParam<const char*> {};

TEST_P(LmKindTest, DecodingEqualsTheFullPass) {
  for (const PositionScheme positions :
       {PositionScheme::kRelativeBias, PositionScheme::kLearned, PositionScheme::kNone}) {
    SCOPED_TRACE(Name(positions));
    const Lm model(TinyLm(GetParam(), 29, kContext, positions), 1, DType::kFloat64);
    for (const int64_t prompt : {1, 4}) ExpectDecodingIsTheFullPass(model, prompt);
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
    ExpectDecodingIsTheFullPass(Lm(lm, 1, DType::kFloat64), 1);
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

// As published models may pad: with the token that ends a text, or with no token at all.
TEST(LmTest, AnEndIsATargetWhateverThePadding) {
  ModelConfig config = TinyLm("talking", 29, kContext);
  const Tensor inputs = TinyIds(2, 8, 29, 2, 0), targets = TinyIds(2, 8, 29, 3);
  Tensor marked = targets.Clone();
  std::replace(marked.data<int32_t>(), marked.data<int32_t>() + 16, kPadId, kNoToken);
  const auto sums = [&](const Tensor& asked) {
    Batch batch;
    batch.Add("inputs", inputs).Add("targets", asked);
    return Lm(config, 1, DType::kFloat64).Loss(batch, {}, {}).sums[0];
  };
  const MetricSum expected = sums(targets);
  EXPECT_EQ(expected.count, 14);
  for (const int32_t pad : {kPadId, kNoToken, kEosId}) {
    config.tokens.pad = pad;
    const MetricSum sum = sums(marked);
    EXPECT_EQ(sum.count, expected.count) << pad;
    EXPECT_EQ(sum.sum, expected.sum) << pad;
  }
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
  batch.Add("target_positions", Tensor::Full({2, 7}, 8, DType::kInt32));
  testing::ExpectError([&] { model.Loss(batch, {}, {}); }, ErrorKind::kUsage, {"target_positions: 8 is not in [0, 8)"});
  for (const int32_t id : {-1, 29, 127}) {  // the table has 128 rows
    const Tensor ids = Tensor::Full({1, 3}, id, DType::kInt32);
    const std::string says = StrCat("embedding: index ", id, " at position 0 of ids[1, 3] is not in [0, 29)");
    testing::ExpectError([&] { model.Forward(ids, {}); }, ErrorKind::kUsage, {says});
    testing::ExpectError([&] { model.DecodeStep(ids, cache); }, ErrorKind::kUsage, {says});
  }
}

// ---- A language model as a writer ----

constexpr int64_t kWindow = 8;

// Each of its tokens is a letter.
std::shared_ptr<const Tokenizer> Letters() { return MakeCharacterTokenizer("\nabcdefghijklmnopqrstuvwxyz", "x", 0); }

Lm LetterModel() {
  return {TinyLm("dynamic", Letters()->vocab_size(), kWindow, PositionScheme::kLearned), 1, DType::kFloat64};
}

std::string Text(const Lm& model, const std::string& prompt, const SearchOptions& options) {
  std::string text;
  WriteText(model, *model.MakeWriter(Letters()), prompt, options,
            [&](std::string_view piece, Author) { text += piece; });
  return text;
}

constexpr SamplingOptions kDrawn = {.temperature = 1};

// The likeliest text token after `ids` by a whole forward pass.
int32_t Likeliest(const Lm& model, const std::vector<int32_t>& ids) {
  const ContextScope no_grad = NoGrad();
  const auto n = static_cast<int64_t>(ids.size());
  const Tensor hidden = model.Forward(Tensor::FromValues<int32_t>({1, n}, ids), {}).value();
  const Tensor logits = model.Logits(Variable(hidden)).value();
  const std::vector<bool> allowed = WritableTokens(*Letters(), model.config().vocabulary);
  return SampleToken(logits.Select(0, 0).Select(0, n - 1).Contiguous(), allowed, {.temperature = 0}, 0);
}

TEST(LmWriterTest, TakesTheLikeliestTokenOfTheWholePassOverItsWindow) {
  const Lm model = LetterModel();
  const std::string prompt = "abcde";
  std::vector<int32_t> ids = Letters()->Encode(prompt);
  size_t begin = 0;  // of the window
  for (int i = 0; i < 20; ++i) {
    if (ids.size() - begin > kWindow) begin = ids.size() - (kWindow + 1) / 2;
    const int32_t id = Likeliest(model, {ids.begin() + static_cast<int64_t>(begin), ids.end()});
    ids.push_back(id);
  }
  ASSERT_EQ(ids.size(), 25u);
  EXPECT_EQ(Text(model, prompt, {.max_length = 20}), Letters()->Decode(ids));
}

TEST(LmWriterTest, ALongerTextBeginsWithTheShorterOneAndSeedsAndSamplesDiffer) {
  const Lm model = LetterModel();
  const SearchOptions options = {.max_length = 30, .sampling = kDrawn};
  const std::string text = Text(model, "ab", options);
  SearchOptions longer = options, seed = options, sample = options;
  longer.max_length = 40;
  seed.seed = 2;
  sample.first_sample = 1;
  EXPECT_EQ(Text(model, "ab", longer).substr(0, text.size()), text);
  EXPECT_NE(Text(model, "ab", seed), text);
  EXPECT_NE(Text(model, "ab", sample), text);
}

TEST(LmWriterTest, ATextOfItsOwnBeginsWhateverTheAlphabet) {
  ModelConfig config = LetterModel().config();
  for (const char* letters : {"ACGT", "\nab", " ab", "\u3002\u4e2d"}) {
    const std::shared_ptr<const Tokenizer> tokenizer = MakeCharacterTokenizer(letters, "x", 0);
    config.vocabulary = tokenizer->vocab_size();
    const Lm model(config, 3, DType::kFloat64);
    const auto writer = model.MakeWriter(tokenizer);
    for (const uint64_t seed : {1, 2, 3}) {
      std::string text;
      WriteText(model, *writer, "", {.max_length = 12, .sampling = kDrawn, .seed = seed},
                [&](std::string_view piece, Author) { text += piece; });
      ASSERT_FALSE(text.empty()) << letters;
      EXPECT_EQ(text.find_first_of(" \n"), text.find_first_of(" \n", 1)) << text;
    }
  }
}

// SentencePiece puts a space in front of a text: "▁." stands nowhere in one, and a model has never read it.
TEST(LmWriterTest, ATextOfItsOwnBeginsAfterTokensAsTheyStandInText) {
  for (const LineEnds line_ends : {LineEnds::kSpaces, LineEnds::kKept}) {
    const std::shared_ptr<const Tokenizer> tokenizer = TrainTokenizer(
        *MakeSyntheticCorpus(1).training, {.vocab_size = 400, .max_sample_bytes = 20'000, .line_ends = line_ends}, 0);
    ModelConfig config = LetterModel().config();
    config.vocabulary = tokenizer->vocab_size();
    const Lm model(config, 1, DType::kFloat64);
    const std::vector<int32_t> text = tokenizer->Encode("She sat.\nHe sat.");
    const std::vector<int32_t> before = model.MakeWriter(tokenizer)->Read("", 4).ids;
    EXPECT_NE(std::search(text.begin(), text.end(), before.begin(), before.end()), text.end())
        << ::testing::PrintToString(before) << " is not in " << ::testing::PrintToString(text);
  }
}

TEST(LmWriterTest, AModelThatAnswersReadsTheEndOfItsPromptAndShowsItsAnswerAlone) {
  const auto tokenizer = MakeByteTokenizer(0);
  ModelConfig config = For(*tokenizer, TinyLm("talking"));
  config.answers = config.ends_texts = true;
  config.more_ends = {1};  // the tokenizer's: a published model may have another first
  config.tokens.end = 7;
  const Lm model(config, 3);
  const auto writer = model.MakeWriter(tokenizer);
  EXPECT_EQ(writer->Read("ab", 9).ids, (std::vector<int32_t>{'a' + 3, 'b' + 3, 1}));
  EXPECT_EQ(writer->Defaults("ab").sampling.temperature, 0);
  std::string shown;
  const auto text = writer->Begin("ab", [&](std::string_view piece, Author author) {
    EXPECT_EQ(author, Author::kModel);
    shown += piece;
  });
  for (const int32_t id : {' ' + 3, 'x' + 3, ' ' + 3, 'y' + 3, 1}) text->Add(id);
  text->End();
  EXPECT_EQ(shown, "x y");
}

TEST(LmWriterTest, LongPromptsNoPromptAndARequestToStop) {
  const Lm model = LetterModel();
  const std::string prompt(3 * kWindow, 'x');
  EXPECT_GT(Text(model, prompt, {.max_length = 30, .sampling = kDrawn}).size(), prompt.size());
  EXPECT_FALSE(Text(model, "", {.max_length = 30, .sampling = kDrawn}).empty());
  int asked = 0;
  const std::string stopped =
      Text(model, prompt, {.max_length = 30, .sampling = kDrawn, .stop = [&] { return ++asked > 2; }});
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(stopped.size(), prompt.size() + 2);
  EXPECT_THROW(Text(model, "a", {.max_length = 0}), Error);
  EXPECT_THROW(model.MakeWriter(MakeByteTokenizer(5)), Error);
}

}  // namespace crosstalk::lm_test
