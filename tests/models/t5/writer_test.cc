// A T5 as a writer: it puts its targets into blanks.

#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/encoding.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/messages.h"
#include "tests/support/tiny_models.h"

namespace crosstalk::writer_test {

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
}

}  // namespace crosstalk::writer_test
