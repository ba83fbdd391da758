#include "crosstalk/models/text/wordpiece_tokenizer.h"

#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"

namespace crosstalk::wordpiece_tokenizer_test {

const std::vector<std::string>& Pieces() {
  static const auto& pieces = *new std::vector<std::string>(
      Split("[PAD] [UNK] [CLS] [SEP] [MASK] the una ##ffa ##ble hello wor ##ld cafe ##s resume . , ! ? ' - # [ ] "
            "$ a ##a ##aa b c ##c i ##i ##stanbul istanbul strasse ss ##ss \u00DF ##\u00DF \u03C3 ##\u03C3 "
            "\u03C2 ##\u03C2 \u03BF \u03B4 ##\u03B4 ##\u03BF \u6771 \u4EAC \uD55C ##\uD55C \u1112 ##\u1161 "
            "##\u11AB \u2460 \u00BD fi ##ne \uFB01 \uFF46 ##\uFF46 \u0928\u092E\u0938 ##\u0924\u0947 do don t "
            "mask \U0001F469 \U0001F467 ##\U0001F467 \u00E9 ##\u00E9 e ##e i\u0307 ##\u0307",
            ' '));
  return pieces;
}

std::string Lines(const std::vector<std::string>& pieces) { return Join(pieces, "\n") + "\n"; }

std::shared_ptr<const Tokenizer> Make(const BertRules& rules) {
  WordPieceModel model;
  model.pieces = Pieces();
  model.rules = {RewritesOf(rules), BertLiteralTokens(model)};
  return MakeWordPieceTokenizer(std::move(model), "tiny", 0);
}

struct Expected {
  std::string text, uncased, cased;  // ID:BEGIN-END of each token; "=": the same
};

// As Hugging Face's tokenizers library (0.23) has them, with this vocabulary.
const std::vector<Expected>& Reference() {
  static const std::vector<Expected>& rows = *new std::vector<Expected>{
      {"", "", "="},
      {"   ", "", "="},
      {"the unaffable world", "5:0-3 6:4-7 7:7-10 8:10-13 10:14-17 11:17-19", "="},
      {"The Unaffable, World!", "5:0-3 6:4-7 7:7-10 8:10-13 16:13-14 10:15-18 11:18-20 17:20-21",
       "1:0-3 1:4-13 16:13-14 1:15-20 17:20-21"},
      {"hello.world?", "9:0-5 15:5-6 10:6-9 11:9-11 18:11-12", "="},
      {"caf\u00E9s R\u00E9sum\u00E9 re\u0301sume\u0301", "12:0-5 13:5-6 14:7-15 14:16-24", "1:0-6 1:7-15 1:16-26"},
      {"don't do-the", "65:0-3 19:3-4 66:4-5 64:6-8 20:8-9 5:9-12", "="},
      {"#the [the] $", "21:0-1 5:1-4 22:5-6 5:6-9 23:9-10 24:11-12", "="},
      {"[MASK] the [CLS]the[SEP] [mask] [ MASK ] [MASK",
       "4:0-6 5:7-10 2:11-16 5:16-19 3:19-24 22:25-26 67:26-30 23:30-31 22:32-33 67:34-38 23:39-40 22:41-42 "
       "67:42-46",
       "4:0-6 5:7-10 2:11-16 5:16-19 3:19-24 22:25-26 67:26-30 23:30-31 22:32-33 1:34-38 23:39-40 22:41-42 "
       "1:42-46"},
      {"[UNK] [PAD]", "1:0-5 0:6-11", "="},
      {"a\u00A0b\u2003c\u3000a\u2028b\tc\ra", "25:0-1 28:3-4 29:7-8 25:11-12 28:15-16 29:17-18 25:19-20", "="},
      {"a\u200Bb\u00ADc\uFEFFa\001b\177c\uFFFDa", "1:0-20", "="},
      {"\u6771\u4EAC the\u6771", "48:0-3 49:3-6 5:7-10 48:10-13", "="},
      {"\u4E00\u3042a", "1:0-3 1:3-7", "="},
      {"\u0130stanbul istanbul I\u0307stanbul", "34:0-9 34:10-18 34:19-29", "1:0-9 34:10-18 1:19-29"},
      {"Stra\u00DFe STRASSE \u00DF \u1E9E", "1:0-7 35:8-15 38:16-18 38:19-22", "1:0-7 1:8-15 38:16-18 1:19-22"},
      {"\u039F\u0394\u039F\u03A3 \u03BF\u03B4\u03BF\u03C2 \u03A3",
       "44:0-2 46:2-4 47:4-6 41:6-8 44:9-11 46:11-13 47:13-15 43:15-17 40:18-20",
       "1:0-8 44:9-11 46:11-13 47:13-15 43:15-17 1:18-20"},
      {"\uD55C \u1112\u1161\u11AB", "52:0-3 53:0-3 54:0-3 52:4-7 53:7-10 54:10-13", "50:0-3 52:4-7 53:7-10 54:10-13"},
      {"\u2460 \u00BD \uFB01ne \uFF46\uFF46", "55:0-3 56:4-6 59:7-10 58:10-12 60:13-16 61:16-19", "="},
      {"\u0928\u092E\u0938\u094D\u0924\u0947", "1:0-15", "1:0-18"},
      {"\U0001F469\u200D\U0001F467 \U0001F469\U0001F467 \U0001F3F3\uFE0F", "68:0-4 70:7-11 68:12-16 70:16-20 1:21-25",
       "68:0-4 70:7-11 68:12-16 70:16-20 1:21-28"},
      {"the\u0300\u0301\u0302 \u0301the", "5:0-3 5:12-15", "1:0-9 1:10-15"},
      {"a\u0323\u0301 \u1EAD", "25:0-1 25:6-9", "1:0-5 1:6-9"},
      {"xyz the", "1:0-3 5:4-7", "="},
      {"\u2014the\u2026 \u201Cthe\u201D \u00BFthe", "1:0-3 5:3-6 1:6-9 1:10-13 5:13-16 1:16-19 1:20-22 5:22-25", "="},
      {"\u0627\u0644 \u05E9\u05DC the", "1:0-4 1:5-9 5:10-13", "="},
      {"a\u0085b \vc", "1:0-4 29:6-7", "="},
      {"\uE000a \U000E0041b c\u0378", "25:3-4 28:9-10 1:11-14", "="},
  };
  return rows;
}

// The tokens of a text, the same by ids alone and with their bytes.
std::string Tokens(const Tokenizer& tokenizer, const std::string& text) {
  std::string shown;
  std::vector<int32_t> ids;
  for (const TokenSpan& one : tokenizer.EncodeSpans(text)) {
    shown += StrCat(ids.empty() ? "" : " ", one.id, ":", one.begin, "-", one.end);
    ids.push_back(one.id);
  }
  EXPECT_EQ(tokenizer.Encode(text), ids) << text;
  return shown;
}

TEST(WordPieceTokenizerTest, IdsAndOffsetsAreTheReferences) {
  const std::shared_ptr<const Tokenizer> uncased = Make({}),
                                         cased = Make({.strip_accents = false, .lower_case = false});
  for (const Expected& row : Reference()) {
    EXPECT_EQ(Tokens(*uncased, row.text), row.uncased) << row.text;
    EXPECT_EQ(Tokens(*cased, row.text), row.cased == "=" ? row.uncased : row.cased) << row.text;
  }
  // A word of a hundred characters is cut into pieces, and a longer one is unknown.
  std::string expected = "25:0-1";
  for (int i = 1; i < 99; i += 2) expected += StrCat(" 27:", i, "-", i + 2);
  const std::string text = std::string(100, 'a') + " " + std::string(101, 'a') + " a";
  EXPECT_EQ(Tokens(*uncased, text), expected + " 26:99-100 1:101-202 25:203-204");
  EXPECT_EQ(Tokens(*cased, text), Tokens(*uncased, text));
}

TEST(WordPieceTokenizerTest, SpecialTokensAreThoseOfTheVocabulary) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(Lines(Pieces()), "vocab.txt", 3);
  const SpecialTokens expected = {
      .pad = 0, .end = 3, .unknown = 1, .decoder_start = 0, .begin = 2, .separator = 3, .mask = 4};
  EXPECT_EQ(tokenizer->special_tokens(), expected);
  EXPECT_EQ(tokenizer->kind(), "wordpiece");
  const auto pieces = static_cast<int>(Pieces().size());
  EXPECT_EQ(tokenizer->vocab_size(), pieces + 3);
  EXPECT_EQ(tokenizer->Sentinel(0), pieces + 2);
  EXPECT_EQ(tokenizer->TokenText(7), "##ffa");
  EXPECT_EQ(tokenizer->TokenText(pieces), "<extra_id_2>");
}

TEST(WordPieceTokenizerTest, PiecesThatDoNotBeginWithThePrefixBeginWords) {
  const std::shared_ptr<const Tokenizer> tokenizer = Make({});
  EXPECT_EQ(tokenizer->WordStarts(std::vector<int32_t>{2, 5, 6, 7, 8, 15, 3, 7, 8}),
            (std::vector<bool>{true, true, true, false, false, true, true, true, false}));
}

TEST(WordPieceTokenizerTest, DecodingJoinsPiecesAndCleansUp) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(Lines(Pieces()), "vocab.txt", 1);
  const auto decoded = [&](const std::string& text) { return tokenizer->Decode(tokenizer->Encode(text)); };
  EXPECT_EQ(decoded("The Unaffable, World!"), "the unaffable, world!");
  EXPECT_EQ(decoded("hello.world?"), "hello. world?");
  EXPECT_EQ(decoded("don't do-the"), "don ' t do - the");
  EXPECT_EQ(decoded("[CLS] the [MASK] xyz [SEP][PAD]"), "the \u2047");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{tokenizer->Sentinel(0), 7, 5}), "<extra_id_0>ffa the");
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{7, 8}), "##ffable");
  EXPECT_THROW(tokenizer->Decode(std::vector<int32_t>{tokenizer->vocab_size()}), Error);
}

TEST(WordPieceTokenizerTest, BrokenVocabulariesAreRefusedByName) {
  const std::string good = Lines(Pieces());
  testing::ExpectRefused<std::string>(
      {{"an empty line at the end", good + "\n", {"line 78 is empty"}},
       {"one at the beginning", "\n" + good, {"line 1 is empty"}},
       {"a piece twice", good + "the\n", {"\"the\", as the one of id 5"}},
       {"no UTF-8", good + "a\xFF\n", {"line 78 is not UTF-8"}},
       {"a long piece", good + std::string(600, 'x') + "\n", {"600 bytes"}},
       {"no [PAD]", good.substr(6), {"no \"[PAD]\""}},
       {"no [MASK]", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n", {"no \"[MASK]\""}},
       {"no [UNK]", "[PAD]\n[CLS]\n[SEP]\n[MASK]\n", {"no \"[UNK]\""}},
       {"nothing", "", {"is empty", "that/vocab.txt"}}},
      [](const std::string& contents) { LoadTokenizer(contents, "that/vocab.txt"); }, ErrorKind::kData);
  // Line ends of Windows, and none at the end.
  EXPECT_EQ(LoadTokenizer("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nthe", "x")->Encode("the")[0], 5);
}

}  // namespace crosstalk::wordpiece_tokenizer_test
