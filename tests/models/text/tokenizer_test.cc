#include "crosstalk/models/text/tokenizer.h"

#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "tests/support/messages.h"

namespace crosstalk::tokenizer_test {

TEST(TokenizerTest, BytesAreTheirValuePlusThree) {
  const std::shared_ptr<const Tokenizer> tokenizer = MakeByteTokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 359);
  EXPECT_EQ(tokenizer->special_tokens(), SpecialTokens{});
  EXPECT_EQ(tokenizer->Sentinel(0), 358);
  EXPECT_EQ(tokenizer->Sentinel(99), 259);
  EXPECT_THROW(tokenizer->Sentinel(100), Error);
  EXPECT_FALSE(tokenizer->IsSentinel(258));
  const std::string text = "a \xC3\xA9\n";
  EXPECT_EQ(tokenizer->Encode(text), (std::vector<int32_t>{100, 35, 198, 172, 13}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{358, 100, 1, 0, 357}), "<extra_id_0>a<extra_id_1>");
  for (const int32_t id : {359, -1}) EXPECT_THROW(tokenizer->Decode(std::vector<int32_t>{id}), Error);
}

TEST(TokenizerTest, CharactersAreTokensInTheirOrder) {
  const std::shared_ptr<const Tokenizer> tokenizer = MakeCharacterTokenizer("\nae\u00e9\u4e2d", "x", 2);
  EXPECT_EQ(tokenizer->vocab_size(), 3 + 5 + 2);
  EXPECT_EQ(tokenizer->special_tokens(), SpecialTokens{});
  const std::string text = "a\u00e9\u4e2dz\n";
  const std::vector<int32_t> ids = {4, 6, 7, 2, 3};
  EXPECT_EQ(tokenizer->Encode(text), ids);
  EXPECT_EQ(tokenizer->Decode(ids), "a\u00e9\u4e2d\u2047\n");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{9, 4, 1, 0, 8}), "<extra_id_0>a<extra_id_1>");
  std::string ends;
  for (const TokenSpan& span : tokenizer->EncodeSpans(text)) ends += StrCat(span.begin, "-", span.end, " ");
  EXPECT_EQ(ends, "0-1 1-3 3-6 6-7 7-8 ");
  EXPECT_EQ(tokenizer->Encode("\xff\x61"), (std::vector<int32_t>{2, 4}));  // no UTF-8
  EXPECT_THROW(tokenizer->Decode(std::vector<int32_t>{10}), Error);
}

TEST(TokenizerTest, TheCharactersOfATextAreItsMostFrequent) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const std::shared_ptr<const Tokenizer> all = CollectCharacterTokenizer(*corpus.training, 1000, 0);
  const std::string text = corpus.training->ReadSegment(1, 5, 1000, 5000, TextSource::Order::kShuffled);
  EXPECT_EQ(all->Decode(all->Encode(text)), text);
  const std::shared_ptr<const Tokenizer> few = CollectCharacterTokenizer(*corpus.training, 3, 0);
  EXPECT_EQ(few->vocab_size(), 6);
  EXPECT_EQ(few->Encode(" ae"), (std::vector<int32_t>{3, 4, 5}));
  EXPECT_EQ(few->Encode("Q"), (std::vector<int32_t>{2}));
}

TEST(TokenizerTest, AWordOfBytesOrCharactersBeginsWithItsWhiteSpace) {
  const std::string text = "no, \t\u00e9t\u00e9\n";
  const std::shared_ptr<const Tokenizer> bytes = MakeByteTokenizer(3);
  // The second e is a character that the vocabulary lacks: a part of the word it stands in.
  const std::shared_ptr<const Tokenizer> characters = MakeCharacterTokenizer("\t\n no,t", "x", 3);
  for (const Tokenizer* tokenizer : {bytes.get(), characters.get()}) {
    std::string marked;
    const std::vector<bool> starts = tokenizer->WordStarts(tokenizer->Encode(text));
    for (size_t i = 0; const TokenSpan& span : tokenizer->EncodeSpans(text)) {
      marked += (starts[i++] ? "|" : "") + text.substr(span.begin, span.end - span.begin);
    }
    EXPECT_EQ(marked, "|no,| \t\u00e9t\u00e9|\n");
  }
  EXPECT_EQ(bytes->WordStarts(std::vector<int32_t>{100, 101, 261, 100, 101, 1, 100, 2, 101}),
            (std::vector<bool>{true, false, true, true, false, true, true, false, false}));
  EXPECT_THROW(bytes->WordStarts(std::vector<int32_t>{262}), Error);
}

// Numbering, text, and the file, of each kind that is made here.
TEST(TokenizerTest, MaskTokensStandBetweenTextAndSentinels) {
  const auto tokens_of = [](const Tokenizer& tokenizer) {
    const SpecialTokens& tokens = tokenizer.special_tokens();
    EXPECT_EQ((std::vector<int32_t>{tokens.pad, tokens.end, tokens.unknown}), (std::vector<int32_t>{0, 1, 2}));
    const std::shared_ptr<const Tokenizer> again =
        LoadTokenizer(tokenizer.FileContents(), "x", tokenizer.num_sentinels());
    EXPECT_EQ(again->special_tokens(), tokens);
    EXPECT_EQ(again->vocab_size(), tokenizer.vocab_size());
    EXPECT_EQ(again->FileContents(), tokenizer.FileContents());
    // No text has them, and they are no text.
    const std::string text = "a [CLS] b [SEP] c [MASK]";
    std::vector<int32_t> ids = tokenizer.Encode(text);
    const std::string decoded = tokenizer.Decode(ids);
    for (const int32_t id : ids) EXPECT_TRUE(id != tokens.begin && id != tokens.separator && id != tokens.mask);
    ids.insert(ids.begin(), tokens.begin);
    ids.insert(ids.begin() + 2, tokens.mask);
    ids.push_back(tokens.separator);
    EXPECT_EQ(tokenizer.Decode(ids), decoded);
    return std::vector<int32_t>{tokens.begin, tokens.separator, tokens.mask};
  };
  using Ids = std::vector<int32_t>;
  const std::shared_ptr<const Tokenizer> bytes = MakeByteTokenizer(7, MaskTokens::kYes);
  EXPECT_EQ(tokens_of(*bytes), (Ids{259, 260, 261}));
  EXPECT_EQ(bytes->vocab_size(), 269);
  EXPECT_EQ(bytes->Sentinel(6), 262);
  const std::shared_ptr<const Tokenizer> characters = MakeCharacterTokenizer(
      "abc [CLSEPMK]"
      "\u00e9",
      "x", 2, MaskTokens::kYes);
  EXPECT_EQ(tokens_of(*characters), (Ids{17, 18, 19}));
  EXPECT_EQ(characters->vocab_size(), 22);
  EXPECT_EQ(characters->Encode("a\u00e9"), (Ids{3, 16}));
  SentencePieceTraining training = {400, 50'000};
  training.mask_tokens = MaskTokens::kYes;
  const std::shared_ptr<const Tokenizer> pieces = TrainTokenizer(*MakeSyntheticCorpus(1).training, training, 0);
  EXPECT_EQ(tokens_of(*pieces), (Ids{3, 4, 5}));
  EXPECT_EQ(pieces->vocab_size(), 400);
  training.line_ends = LineEnds::kKept;
  const std::shared_ptr<const Tokenizer> lines = TrainTokenizer(*MakeSyntheticCorpus(1).training, training, 0);
  EXPECT_NE(lines->special_tokens().mask, kNoToken);
  EXPECT_EQ(lines->Decode(lines->Encode("one\ntwo")), "one\ntwo");
}

TEST(TokenizerTest, FilesMakeTheSameTokenizerAgain) {
  const std::string model = TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  const struct {
    std::shared_ptr<const Tokenizer> tokenizer;
    const char *kind, *file;
    int size;
  } kCases[] = {{MakeByteTokenizer(7), "bytes", "tokenizer.json", 266},
                {MakeByteTokenizer(0), "bytes", "tokenizer.json", 259},
                {MakeCharacterTokenizer("\na\u00e9", "x", 5), "characters", "tokenizer.json", 3 + 3 + 5},
                {LoadTokenizer(model, "x", 5), "sentencepiece", "tokenizer.model", 0}};
  for (const auto& [tokenizer, kind, file, size] : kCases) {
    EXPECT_EQ(tokenizer->FileName(), file);
    const std::shared_ptr<const Tokenizer> again = LoadTokenizer(tokenizer->FileContents(), "x", 5);
    EXPECT_EQ(again->kind(), kind);
    EXPECT_EQ(again->vocab_size(), size == 0 ? tokenizer->vocab_size() : size);
    EXPECT_EQ(again->FileContents(), size == 0 ? model : tokenizer->FileContents());
  }
  EXPECT_FALSE(kCases[1].tokenizer->IsSentinel(258));
  EXPECT_THROW(kCases[1].tokenizer->Sentinel(0), Error);

  for (std::string bad :
       {"", "{", "{'kind': 'characters', 'sentinels': 3}", "{'kind': 'characters', 'characters': '', 'sentinels': 3}",
        "{'kind': 'characters', 'characters': 'aba', 'sentinels': 3}",
        "{'kind': 'bytes', 'characters': 'ab', 'sentinels': 3}", "{'kind': 'words', 'sentinels': 3}",
        "{'kind': 'bytes'}", "{'kind': 'bytes', 'sentinels': -1}", "{'kind': 'bytes', 'sentinels': 3, 'x': 1}",
        "{'kind': 'bytes', 'sentinels': 3, 'mask_tokens': 1}"}) {
    std::replace(bad.begin(), bad.end(), '\'', '"');
    testing::ExpectError([&] { LoadTokenizer(bad, "that file"); }, ErrorKind::kData, {"that file"});
  }
}

}  // namespace crosstalk::tokenizer_test
