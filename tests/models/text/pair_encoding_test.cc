#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace pair_encoding_test {

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, a 5, b 6, c 7, d 8, ##x 9.
std::unique_ptr<Tokenizer> Bert() {
  return LoadTokenizer("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n##x\n", "vocab.txt", 0);
}

std::vector<int32_t> Ids(const EncodedPair& pair) {
  std::vector<int32_t> ids;
  for (const EncodedPair::Token& token : pair.tokens) ids.push_back(token.id);
  return ids;
}

using Row = std::vector<int32_t>;

TEST(PairEncodingTest, BertsFormHasSegmentsAndOffsetsIntoEachText) {
  const std::unique_ptr<Tokenizer> bert = Bert();
  EXPECT_EQ(Ids(EncodePair(*bert, "a bx")), (Row{2, 5, 6, 9, 3}));
  EXPECT_EQ(Ids(EncodePair(*bert, "")), (Row{2, 3}));
  const EncodedPair pair = EncodePair(*bert, "a bx", " c");
  EXPECT_EQ(Ids(pair), (Row{2, 5, 6, 9, 3, 7, 3}));
  std::vector<int64_t> segments, texts, begins, ends;
  for (const EncodedPair::Token& token : pair.tokens) {
    segments.push_back(token.segment);
    texts.push_back(token.text);
    begins.push_back(token.begin);
    ends.push_back(token.end);
  }
  EXPECT_EQ(segments, (std::vector<int64_t>{0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(texts, (std::vector<int64_t>{-1, 0, 0, 0, -1, 1, -1}));
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 0, 2, 3, 0, 1, 0}));
  EXPECT_EQ(ends, (std::vector<int64_t>{0, 1, 3, 4, 0, 2, 0}));
  EXPECT_EQ(pair.kept[0], 3);
  EXPECT_EQ(pair.kept[1], 1);
}

TEST(PairEncodingTest, WithoutBeginAndSeparatorEachTextEnds) {
  const std::unique_ptr<Tokenizer> bytes = MakeByteTokenizer(0);
  EXPECT_EQ(Ids(EncodePair(*bytes, "a")), (Row{100, 1}));
  const EncodedPair pair = EncodePair(*bytes, "a", "b");
  EXPECT_EQ(Ids(pair), (Row{100, 1, 101, 1}));
  for (const EncodedPair::Token& token : pair.tokens) EXPECT_EQ(token.segment, 0);
}

TEST(PairEncodingTest, TruncationCutsWhatItIsToldTo) {
  const std::unique_ptr<Tokenizer> bert = Bert();
  const auto ids = [&](const char* a, const char* b, int64_t most, Truncation truncation) {
    return Ids(EncodePair(*bert, a, b, {.max_length = most, .truncation = truncation}));
  };
  // As in BERT's pretraining: while too long, the longer loses its last token, and B where both are equally long.
  EXPECT_EQ(ids("a b c d", "a", 7, Truncation::kLongestFirst), (Row{2, 5, 6, 7, 3, 5, 3}));
  EXPECT_EQ(ids("a b c d", "a b c", 6, Truncation::kLongestFirst), (Row{2, 5, 6, 3, 5, 3}));
  EXPECT_EQ(ids("a b c", "a b c d", 7, Truncation::kLongestFirst), (Row{2, 5, 6, 3, 5, 6, 3}));
  EXPECT_EQ(ids("a b c d", "a b c d", 4, Truncation::kLongestFirst), (Row{2, 5, 3, 3}));
  EXPECT_EQ(ids("a b", "c d", 3, Truncation::kLongestFirst), (Row{2, 3, 3}));
  EXPECT_EQ(ids("a b c d", "a b", 7, Truncation::kOnlySecond), (Row{2, 5, 6, 7, 8, 3, 3}));
  EXPECT_EQ(ids("a b c d", "a b", 7, Truncation::kOnlyFirst), (Row{2, 5, 6, 3, 5, 6, 3}));
  EXPECT_EQ(ids("a b c d", "a b", 9, Truncation::kNone).size(), 9u);
  EXPECT_EQ(Ids(EncodePair(*bert, "a b c", std::nullopt, {.max_length = 4, .truncation = Truncation::kLongestFirst})),
            (Row{2, 5, 6, 3}));
  for (const auto& [most, truncation] : {std::pair{8, Truncation::kNone},
                                         {6, Truncation::kOnlySecond},
                                         {4, Truncation::kOnlyFirst},
                                         {2, Truncation::kLongestFirst}}) {
    testing::ExpectError([&] { ids("a b c d", "a b", most, truncation); }, ErrorKind::kUsage, {"max_length"});
  }
}

TEST(PairEncodingTest, APartOfATextsSpansIsAWindow) {
  const std::unique_ptr<Tokenizer> bert = Bert();
  const std::vector<TokenSpan> question = bert->EncodeSpans("a"), text = bert->EncodeSpans("a b c d");
  const EncodedPair window = JoinPair(*bert, question, std::span(text).subspan(1, 2));
  EXPECT_EQ(Ids(window), (Row{2, 5, 3, 6, 7, 3}));
  EXPECT_EQ(window.tokens[3].begin, 2);
  EXPECT_EQ(window.tokens[4].end, 5);
}

}  // namespace pair_encoding_test
}  // namespace crosstalk
