// A language model as a writer.
#include <gtest/gtest.h>

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/lm/lm.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::writer_test {

constexpr int64_t kContext = 8;

// Each of its tokens is a letter.
std::shared_ptr<const Tokenizer> Letters() { return MakeCharacterTokenizer("\nabcdefghijklmnopqrstuvwxyz", "x", 0); }

Lm LetterModel() {
  return {TinyLm("dynamic", Letters()->vocab_size(), kContext, PositionScheme::kLearned), 1, DType::kFloat64};
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
    if (ids.size() - begin > kContext) begin = ids.size() - (kContext + 1) / 2;
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

TEST(LmWriterTest, LongPromptsNoPromptAndARequestToStop) {
  const Lm model = LetterModel();
  const std::string prompt(3 * kContext, 'x');
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

}  // namespace crosstalk::writer_test
