#include <gtest/gtest.h>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace blanks_test {

using Texts = std::vector<std::string>;

TEST(BlanksTest, ThreeUnderscoresOrMoreAreABlank) {
  EXPECT_EQ(SplitAtBlanks("a ___ b"), (Texts{"a ", " b"}));
  EXPECT_EQ(SplitAtBlanks("______x_y__z___"), (Texts{"", "x_y__z", ""}));
  EXPECT_EQ(SplitAtBlanks("no blank"), (Texts{"no blank"}));
  EXPECT_EQ(SplitAtBlanks("___"), (Texts{"", ""}));
}

TEST(BlanksTest, SentinelsStandForBlanksAndTheRestKeepsItsTokens) {
  const std::unique_ptr<Tokenizer> tokenizer = TrainTokenizer(*MakeSyntheticCorpus(1).training, {900, 200'000});
  const auto ids = tokenizer->Encode("The old miller found a coin in the garden.");
  const auto spans = tokenizer->EncodeSpans("The old miller found a coin in the garden.");
  // "found" and "garden" hidden with the spaces before them.
  std::vector<int32_t> expected;
  int sentinel = 0;
  for (const TokenSpan& span : spans) {
    const bool hidden = (span.begin >= 14 && span.end <= 20) || (span.begin >= 34 && span.end <= 41);
    const bool first = span.begin == 14 || span.begin == 34;
    if (hidden && first) expected.push_back(tokenizer->Sentinel(sentinel++));
    if (!hidden) expected.push_back(span.id);
  }
  ASSERT_EQ(sentinel, 2);
  expected.push_back(tokenizer->special_tokens().end);
  EXPECT_EQ(EncodeBlanks(SplitAtBlanks("The old miller ___ a coin in the ___."), *tokenizer), expected);
}

TEST(BlanksTest, BlanksAtTheEndsAndSideBySideEachHaveTheirSentinel) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer(5);
  const auto s = [&](int k) { return tokenizer->Sentinel(k); };
  EXPECT_EQ(EncodeBlanks(SplitAtBlanks("___"), *tokenizer), (std::vector<int32_t>{s(0), 1}));
  EXPECT_EQ(EncodeBlanks(SplitAtBlanks("___a ___ ___"), *tokenizer),
            (std::vector<int32_t>{s(0), 'a' + 3, s(1), s(2), 1}));
  EXPECT_THROW(EncodeBlanks(SplitAtBlanks("___ ___ ___ ___ ___ ___"), *tokenizer), Error);
}

TEST(BlanksTest, AShownPassageHasBlanksForWordsAlone) {
  const std::string text = "One two three four five six seven, eight nine ten eleven twelve 12345 \"fourteen\" end.";
  const std::string blanked = MakeBlanks(text);
  EXPECT_EQ(blanked, "One two three four five six ___, eight nine ten eleven twelve 12345 \"___\" end.");
  EXPECT_EQ(MakeBlanks(""), "");
  EXPECT_LT(MakeBlanks(std::string(5000, 'a')).size(), 6000u);
}

}  // namespace blanks_test
}  // namespace crosstalk
