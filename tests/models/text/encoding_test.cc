#include "crosstalk/models/text/encoding.h"

#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "tests/support/messages.h"

namespace crosstalk::encoding_test {

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, a 5, b 6, c 7, d 8, ##x 9.
std::shared_ptr<const Tokenizer> Bert() {
  return LoadTokenizer("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n##x\n", "vocab.txt", 0);
}

std::vector<int32_t> Ids(const EncodedPair& pair) {
  std::vector<int32_t> ids;
  for (const EncodedPair::Token& token : pair.tokens) ids.push_back(token.id);
  return ids;
}

using Row = std::vector<int32_t>;

TEST(PairEncodingTest, BertsFormHasSegmentsAndOffsetsIntoEachText) {
  const std::shared_ptr<const Tokenizer> bert = Bert();
  EXPECT_EQ(Ids(EncodePair(*bert, "a bx")), (Row{2, 5, 6, 9, 3}));
  EXPECT_EQ(Ids(EncodePair(*bert, "")), (Row{2, 3}));
  const EncodedPair pair = EncodePair(*bert, "a bx", " c");
  EXPECT_EQ(Ids(pair), (Row{2, 5, 6, 9, 3, 7, 3}));
  std::string shown;
  for (const EncodedPair::Token& token : pair.tokens) {
    shown += StrCat(token.segment, "/", token.text, ":", token.begin, "-", token.end, " ");
  }
  EXPECT_EQ(shown, "0/-1:0-0 0/0:0-1 0/0:2-3 0/0:3-4 0/-1:0-0 1/1:1-2 1/-1:0-0 ");
  EXPECT_EQ(pair.kept[0], 3);
  EXPECT_EQ(pair.kept[1], 1);
}

TEST(PairEncodingTest, WithoutBeginAndSeparatorEachTextEnds) {
  const std::shared_ptr<const Tokenizer> bytes = MakeByteTokenizer(0);
  EXPECT_EQ(Ids(EncodePair(*bytes, "a")), (Row{100, 1}));
  const EncodedPair pair = EncodePair(*bytes, "a", "b");
  EXPECT_EQ(Ids(pair), (Row{100, 1, 101, 1}));
  for (const EncodedPair::Token& token : pair.tokens) EXPECT_EQ(token.segment, 0);
}

TEST(PairEncodingTest, TruncationCutsWhatItIsToldTo) {
  const std::shared_ptr<const Tokenizer> bert = Bert();
  const auto ids = [&](const char* a, const char* b, int64_t most, Truncation truncation) {
    return Ids(EncodePair(*bert, a, b, {.max_length = most, .truncation = truncation}));
  };
  constexpr Truncation kLongest = Truncation::kLongestFirst, kFirst = Truncation::kOnlyFirst,
                       kSecond = Truncation::kOnlySecond, kNone = Truncation::kNone;
  // As in BERT's pretraining: while too long, the longer loses its last token, and B where both are equally long.
  EXPECT_EQ(ids("a b c d", "a", 7, kLongest), (Row{2, 5, 6, 7, 3, 5, 3}));
  EXPECT_EQ(ids("a b c d", "a b c", 6, kLongest), (Row{2, 5, 6, 3, 5, 3}));
  EXPECT_EQ(ids("a b c", "a b c d", 7, kLongest), (Row{2, 5, 6, 3, 5, 6, 3}));
  EXPECT_EQ(ids("a b c d", "a b c d", 4, kLongest), (Row{2, 5, 3, 3}));
  EXPECT_EQ(ids("a b", "c d", 3, kLongest), (Row{2, 3, 3}));
  EXPECT_EQ(ids("a b c d", "a b", 7, kSecond), (Row{2, 5, 6, 7, 8, 3, 3}));
  EXPECT_EQ(ids("a b c d", "a b", 7, kFirst), (Row{2, 5, 6, 3, 5, 6, 3}));
  EXPECT_EQ(ids("a b c d", "a b", 9, kNone).size(), 9u);
  EXPECT_EQ(Ids(EncodePair(*bert, "a b c", std::nullopt, {.max_length = 4, .truncation = Truncation::kLongestFirst})),
            (Row{2, 5, 6, 3}));
  for (const auto& [most, truncation] : {std::pair{8, kNone}, {6, kSecond}, {4, kFirst}, {2, kLongest}}) {
    testing::ExpectError([&, length = most, how = truncation] { ids("a b c d", "a b", length, how); },
                         ErrorKind::kUsage, {"max_length"});
  }
}

TEST(PairEncodingTest, APartOfATextsSpansIsAWindow) {
  const std::shared_ptr<const Tokenizer> bert = Bert();
  const std::vector<TokenSpan> question = bert->EncodeSpans("a"), text = bert->EncodeSpans("a b c d");
  const EncodedPair window = JoinPair(*bert, question, std::span(text).subspan(1, 2));
  EXPECT_EQ(Ids(window), (Row{2, 5, 3, 6, 7, 3}));
  EXPECT_EQ(window.tokens[3].begin, 2);
  EXPECT_EQ(window.tokens[4].end, 5);
}

using Texts = std::vector<std::string>;

TEST(BlanksTest, ThreeUnderscoresOrMoreAreABlank) {
  EXPECT_EQ(SplitAtBlanks("a ___ b"), (Texts{"a ", " b"}));
  EXPECT_EQ(SplitAtBlanks("______x_y__z___"), (Texts{"", "x_y__z", ""}));
  EXPECT_EQ(SplitAtBlanks("no blank"), (Texts{"no blank"}));
  EXPECT_EQ(SplitAtBlanks("___"), (Texts{"", ""}));
}

TEST(BlanksTest, SentinelsStandForBlanksAndTheRestKeepsItsTokens) {
  const std::shared_ptr<const Tokenizer> tokenizer = TrainTokenizer(*MakeSyntheticCorpus(1).training, {900, 200'000});
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
  const std::shared_ptr<const Tokenizer> tokenizer = MakeByteTokenizer(5);
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

}  // namespace crosstalk::encoding_test
