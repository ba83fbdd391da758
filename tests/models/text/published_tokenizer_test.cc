#include "crosstalk/models/text/published_tokenizer.h"

#include <cstdio>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/sentencepiece_tokenizer.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "tests/support/crafted_model.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::published_tokenizer_test {

using Row = std::vector<int32_t>;

constexpr const char* kBert = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "special": true, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 8, "special": false, "content": "New Thing", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true}],
  "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "new": 5, "##er": 6, "thing": 7}}})";

constexpr const char* kAlbert = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "special": true, "content": "<pad>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 1, "special": true, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 2, "special": true, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 3, "special": true, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 4, "special": true, "content": "[MASK]", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false}],
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Replace", "pattern": {"String": "``"}, "content": "\""},
    {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                       "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
  "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
  "model": {"type": "Unigram", "unk_id": 1, "vocab": [["<pad>", 0], ["<unk>", 0], ["[CLS]", 0], ["[SEP]", 0],
    ["[MASK]", 0], ["▁", -2.5], ["▁cafe", -3.0], ["s", -2.0], ["\"", -3.5], ["1", -4.0], ["2", -4.0], ["⁄", -6.0]]}})";

std::string Changed(const std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.substr(0, at) + to + text.substr(at + from.size());
}

// The file with ' for each quote, changed; and with each of several changes, "FROM => TO".
std::string Changed(const std::string& text, std::vector<std::string> changes) {
  std::string changed = text;
  for (std::string& one : changes) {
    std::replace(one.begin(), one.end(), '\'', '"');
    const size_t arrow = one.find(" => ");
    changed = Changed(changed, one.substr(0, arrow), one.substr(arrow + 4));
  }
  return changed;
}

void ExpectKept(const Tokenizer& tokenizer, const std::string& text) {
  const std::shared_ptr<const Tokenizer> again = LoadTokenizer(tokenizer.FileContents(), tokenizer.FileName(), 55);
  EXPECT_EQ(again->FileContents(), tokenizer.FileContents());
  EXPECT_EQ(again->vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(again->special_tokens(), tokenizer.special_tokens());
  EXPECT_EQ(again->Encode(text), tokenizer.Encode(text));
}

TEST(PublishedTokenizerTest, WordPieceWithATokenAboveItsVocabulary) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(kBert, "x", 2);
  EXPECT_EQ(tokenizer->kind(), "wordpiece");
  EXPECT_EQ(tokenizer->vocab_size(), 8 + 1 + 2);
  EXPECT_EQ(tokenizer->Encode("Newer new  THING[PAD]n\u00e9w thingnew thing"), (Row{5, 6, 5, 7, 0, 8, 8}));
  EXPECT_EQ(tokenizer->Decode(Row{8, 6}), "New Thinger");
  // [SEP] is literal in the file only where it is an added token.
  EXPECT_EQ(tokenizer->Encode("[SEP]"), (Row{1, 1, 1}));
  ExpectKept(*tokenizer, "Newer new THING new thing");
}

TEST(PublishedTokenizerTest, UnigramWithRulesBeforeItsModel) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(kAlbert, "x", 0);
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 12);
  const SpecialTokens expected = {
      .pad = 0, .end = 3, .unknown = 1, .decoder_start = 0, .begin = 2, .separator = 3, .mask = 4};
  EXPECT_EQ(tokenizer->special_tokens(), expected);
  // Each part of ½ has its bytes; the mask takes the spaces before it; a space alone has none.
  std::string spans;
  for (const TokenSpan& one : tokenizer->EncodeSpans("  CAF\u00c9s ``\u00bd  [MASK]cafe")) {
    spans += StrCat(one.id, ":", one.begin, "-", one.end, " ");
  }
  EXPECT_EQ(spans, "6:2-7 7:7-8 5:9-9 8:9-11 9:11-13 11:11-13 10:11-13 4:13-21 6:21-25 ");
  EXPECT_EQ(tokenizer->TokenText(6), "\u2581cafe");
  ExpectKept(*tokenizer, "  CAF\u00c9s ``\u00bd  [MASK]cafe");
}

// The tokenizer of the folder that its published files make.
std::shared_ptr<const Tokenizer> Republished(const Tokenizer& tokenizer) {
  const TempDir dir;
  for (const auto& [name, contents] : tokenizer.PublishedFiles()) WriteFileAtomically(dir / name, contents);
  return OpenTokenizer(dir.path(), tokenizer.num_sentinels());
}

// As XLM-R's: two separators between two texts, and one segment.
TEST(PublishedTokenizerTest, AUnigramMayHaveATemplateOfItsOwn) {
  const std::string file =
      Changed(kAlbert, {"{'Sequence': {'id': 'B', 'type_id': 1}} => {'SpecialToken': {'id': '[SEP]', 'type_id': 0}}, "
                        "{'Sequence': {'id': 'B', 'type_id': 0}}"});
  const PairTemplate pair = {{-1, 2, 0}, {0, kNoToken, 0}, {-1, 3, 0}, {-1, 3, 0}, {1, kNoToken, 0}, {-1, 3, 1}};
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(file, "x", 0);
  EXPECT_EQ(TemplateOf(*tokenizer, 1), TemplateOf(*LoadTokenizer(kAlbert, "x", 0), 1));
  EXPECT_EQ(TemplateOf(*tokenizer, 2), pair);
  EXPECT_EQ(TemplateOf(*Republished(*tokenizer), 2), pair);
  CheckKept(*tokenizer, 0);
  ExpectKept(*tokenizer, "a cafe");
}

TEST(PublishedTokenizerTest, WhatIsNotUnderstoodIsRefusedByName) {
  const struct {
    const char *file, *change, *says;
  } cases[] = {
      {kBert, "'version': '1.0' => 'version': '2.0'", "version"},
      {kBert, "'truncation': null => 'trunk': null", "trunk"},
      {kBert, "'id': 8 => 'id': 9", "added_tokens"},
      {kBert, "'id': 0, 'special' => 'id': 1, 'special'", "\"[PAD]\" has the id 1"},
      {kBert, "'clean_text': true => 'clean_text': true, 'polish': true", "normalizer.polish"},
      {kBert, "BertNormalizer => NFC", "normalizer.type"},
      {kBert, "BertPreTokenizer => ByteLevel", "pre_tokenizer.type"},
      {kBert, "['[SEP]', 3] => ['[SEP]', 4]", "post_processor"},
      {kBert, "_per_word': 100 => _per_word': 0", "max_input_chars_per_word"},
      {kBert, "'##er': 6 => '##er': 7", "the same id, 7"},
      {kBert, "'##er': 6 => '##er': 8", "\"##er\" has no id from 0 to 7"},
      {kBert, "'[MASK]': 4 => '[MASC]': 4", "[MASK]"},
      {kBert, "'type': 'WordPiece', 'unk => 'type': 'WordLevel', 'unk", "model.type"},
      {kAlbert, "'NFKD' => 'NFKC'", "\"NFKC\""},
      {kAlbert, " {2,} => \\\\s+", "Regex"},
      {kAlbert, "'content': '\\''} => 'content': 'long text'}", "content"},
      {kAlbert, "'always' => 'last'", "prepend_scheme"},
      {kAlbert, "'replacement': '▁' => 'replacement': '_'", "replacement"},
      {kAlbert, "{'Sequence': {'id': 'B', 'type_id': 1}} => {'Sequence': {'id': 'A', 'type_id': 1}}",
       "post_processor: its form of 2 texts must have each of them once, in order"},
      {kAlbert, "'ids': [3] => 'ids': [12]", "post_processor: the id 12 is not in the vocabulary"},
      {kAlbert, "'TemplateProcessing' => 'Template'", "post_processor.type"},
      {kAlbert, "'unk_id': 1 => 'unk_id': 12", "unk_id"},
      {kAlbert, "['s', -2.0] => ['1', -2.0]", "is there twice"},
      {kAlbert, "['s', -2.0] => ['s', 1e300]", "score"},
      {kAlbert, "['s', -2.0] => ['', -2.0]", "is empty"},
  };
  for (const auto& [file, change, says] : cases) {
    const std::string changed = Changed(file, {change});
    testing::ExpectError([&] { LoadTokenizer(changed, "that.json"); }, ErrorKind::kData, {says, "that.json"});
  }
}

std::string AlbertModel() {
  return Piece("<pad>", 0, 3) + Piece("<unk>", 0, 2) + Piece("[CLS]", 0, 3) + Piece("[SEP]", 0, 3) +
         Piece("[MASK]", 0, 3) + Piece("\u2581", -2, 1) + Piece("a", -1, 1) + Piece("1", -3, 1) + Piece(",", -3, 1) +
         Piece("1,", -1, 1) + ProtoField(2, Number(3, 1)) + ProtoField(3, ProtoField(1, "identity"));
}

TEST(PublishedTokenizerTest, AModelOfAlbertsPreparesItsTextWhereItIsOpened) {
  const TempDir dir;
  WriteFileAtomically(dir / "spiece.model", AlbertModel());
  const std::shared_ptr<const Tokenizer> albert = OpenTokenizer(dir / "spiece.model", 0);
  EXPECT_EQ(albert->Encode("\u00c1 1,"), (Row{5, 6, 5, 7, 8}));
  EXPECT_EQ(albert->Encode("a [MASK]"), (Row{5, 6, 4}));
  EXPECT_EQ(albert->FileName(), "tokenizer.json");
  ExpectKept(*albert, "\u00c1 1, [MASK]");
  ASSERT_EQ(albert->PublishedFiles().size(), 2u);
  EXPECT_EQ(albert->PublishedFiles()[0].name, "spiece.model");
  EXPECT_EQ(albert->PublishedFiles()[0].contents, AlbertModel());
  // The model itself, as a run keeps it, does none of that.
  EXPECT_EQ(LoadTokenizerFile(dir / "spiece.model", 0)->Encode("\u00c1 1,"), (Row{5, 1, 5, 9}));
  EXPECT_EQ(TokenizerDifference(*albert, *Republished(*albert)), "");
  // What lies beside it decides.
  WriteFileAtomically(dir / "tokenizer_config.json", "{\"do_lower_case\": false, \"keep_accents\": true, \"x\": 1}");
  const std::shared_ptr<const Tokenizer> cased = OpenTokenizer(dir.path(), 0);
  EXPECT_EQ(cased->Encode("\u00c1 a"), (Row{5, 1, 5, 6}));
  EXPECT_NE(TokenizerDifference(*albert, *cased), "");
  EXPECT_EQ(TokenizerDifference(*cased, *Republished(*cased)), "");
  std::filesystem::remove(dir / "tokenizer_config.json");
  WriteFileAtomically(dir / "config.json", "{\"model_type\": \"t5\"}");
  EXPECT_EQ(OpenTokenizer(dir.path(), 0)->Encode("\u00c1 1,"), (Row{5, 1, 5, 9}));
  WriteFileAtomically(dir / "tokenizer_config.json",
                      "{\"do_lower_case\": 3, \"tokenizer_class\": \"AlbertTokenizer\"}");
  testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData,
                       {"tokenizer_config.json: do_lower_case"});
}

// Rules of a vocabulary come from what lies beside it, and what is published is read again.
TEST(PublishedTokenizerTest, AVocabularyTakesItsRulesFromWhatLiesBesideIt) {
  const TempDir dir;
  WriteFileAtomically(dir / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n\u00e1\nB\n");
  const std::string text = "A \u00c1 b B";
  EXPECT_EQ(OpenTokenizer(dir.path(), 0)->Encode(text), (Row{1, 1, 1, 7}));  // B: it is cased
  for (const auto& [config, ids] : {std::pair("{\"do_lower_case\": true}", Row{5, 5, 1, 1}),
                                    {"{\"do_lower_case\": true, \"strip_accents\": false}", {5, 6, 1, 1}},
                                    {"{}", {1, 1, 1, 7}}}) {
    WriteFileAtomically(dir / "tokenizer_config.json", config);
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(dir.path(), 0);
    EXPECT_EQ(tokenizer->Encode(text), ids) << config;
    EXPECT_EQ(tokenizer->PublishedFiles()[0].name, "vocab.txt");
    EXPECT_EQ(Republished(*tokenizer)->FileContents(), tokenizer->FileContents()) << config;
  }
  EXPECT_TRUE(MakeByteTokenizer()->PublishedFiles().empty());
  // A published tokenizer.json beside a vocab.txt that is named; of the folder both would have to agree.
  WriteFileAtomically(dir / "tokenizer_config.json", "{\"strip_accents\": null}");
  WriteFileAtomically(dir / "tokenizer.json", kBert);
  EXPECT_EQ(OpenTokenizer(dir / "vocab.txt", 0)->Encode(text), (Row{5, 5, 1, 1}));
  testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData, {"tokenizer.json", "vocab.txt"});
}

std::string BytePieces() {
  std::string pieces;
  for (int byte = 0; byte < 256; ++byte) {
    char piece[32];
    std::snprintf(piece, sizeof piece, "%s[\"<0x%02X>\", -9.0]", byte == 0 ? "" : ", ", byte);
    pieces += piece;
  }
  return pieces;
}

TEST(PublishedTokenizerTest, EachRuleIsPublished) {
  const std::string above =
      "'normalized': false}], => 'normalized': false}, {'id': 12, 'content': 'xyz', 'single_word': "
      "false, 'lstrip': false, 'rstrip': true, 'normalized': false, 'special': ";
  const std::string normalizer =
      "{'type': 'BertNormalizer', 'clean_text': true, 'handle_chinese_chars': true, 'strip_accents': null, "
      "'lowercase': true}";
  const std::string metaspace = "{'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always'",
                    split = "{'type': 'Sequence', 'pretokenizers': [{'type': 'WhitespaceSplit'}, ";
  const std::pair<const char*, std::vector<std::string>> variants[] = {
      {kBert, {"'lowercase': true => 'lowercase': false"}},
      {kBert, {"'strip_accents': null => 'strip_accents': false"}},
      {kBert, {"'clean_text': true => 'clean_text': false"}},
      {kBert, {"'handle_chinese_chars': true => 'handle_chinese_chars': false"}},
      {kBert, {normalizer + " => null"}},
      {kBert, {"_per_word': 100 => _per_word': 4"}},
      {kBert, {"_per_word': 100 => _per_word': 101"}},
      {kBert, {"'cleanup': true => 'cleanup': false", "'thing': 7 => '!': 7"}},
      {kBert, {"'unk_token': '[UNK]' => 'unk_token': 'thing'"}},
      {kBert, {"prefix': '##' => prefix': '@@'", "prefix': '##' => prefix': '@@'", "##er => @@er"}},
      {kBert, {"'thing': 7 => 'th\\ning': 7"}},
      {kBert, {"'thing': 7 => 'thing\\r': 7"}},
      {kBert, {"'New Thing' => 'New  Thing'"}},
      {kBert, {"'rstrip': false => 'rstrip': true"}},
      {kBert, {"'normalized': true => 'normalized': false"}},
      {kAlbert, {"'``' => '`'"}},
      {kAlbert, {"'NFKD' => 'NFD'"}},
      {kAlbert, {"{'type': 'StripAccents'},  => "}},
      {kAlbert, {"{'type': 'Lowercase'}, => "}},
      {kAlbert, {"'always' => 'never'", "'always' => 'never'"}},
      {kAlbert, {"'lstrip': true => 'lstrip': false"}},
      {kAlbert, {"['s', -2.0] => ['S', -2.0]"}},
      {kAlbert, {metaspace + ", 'split': true}, => " + split + metaspace + "}]},"}},
      {kAlbert, {above + "true}],"}},
      {kAlbert, {above + "false}],"}},
      {kAlbert, {"'unk_id': 1 => 'byte_fallback': true, 'unk_id': 1", "['⁄', -6.0] => " + BytePieces()}},
  };
  for (const auto& [file, changes] : variants) {
    SCOPED_TRACE(changes[0]);
    const std::shared_ptr<const Tokenizer> original = LoadTokenizer(file, "x", 0);
    const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(Changed(file, changes), "x", 0);
    EXPECT_NE(TokenizerDifference(*original, *tokenizer), "");
    EXPECT_NE(TokenizerDifference(*tokenizer, *original), "");
    EXPECT_EQ(TokenizerDifference(*tokenizer, *Republished(*tokenizer)), "");
  }
}

TEST(PublishedTokenizerTest, ARuleThatCannotBePublishedIsRefused) {
  std::string kept = LoadTokenizer(kAlbert, "x", 0)->FileContents();
  kept = Changed(kept, "\"remove-marks\"", "\"remove-combining\"");
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(kept, "x", 0);
  testing::ExpectError([&] { tokenizer->PublishedFiles(); }, ErrorKind::kUsage, {"the rule remove-combining"});
}

// What a published file may say, the file that a run keeps must be able to say.
TEST(PublishedTokenizerTest, WhatIsReadCanBeKept) {
  const auto replacing = [](size_t characters) {
    return Changed(kAlbert, "\"String\": \"``\"", "\"String\": \"" + std::string(characters, '`') + "\"");
  };
  for (const size_t characters : {1, 16, 17, 64}) {
    const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(replacing(characters), "x", 0);
    CheckKept(*tokenizer, 0);
    ExpectKept(*tokenizer, "cafe " + std::string(characters, '`') + "s");
  }
  testing::MessageOf([&] { LoadTokenizer(replacing(65), "x", 0); }, ErrorKind::kData);
  const auto with_steps = [](int steps) {
    std::string more;
    for (int i = 0; i < steps; ++i) more += "{\"type\": \"Lowercase\"}, ";
    return Changed(kAlbert, "{\"type\": \"NFKD\"}", more + "{\"type\": \"NFKD\"}");
  };
  CheckKept(*LoadTokenizer(with_steps(12), "x", 0), 0);
  testing::MessageOf([&] { LoadTokenizer(with_steps(13), "x", 0); }, ErrorKind::kData);
}

// As Hugging Face's tokenizers library (0.23) has them; ALBERT's of the tokenizer.json that is made of its model.
TEST(PublishedTokenizerTest, PublishedFilesGiveTheReferencesIds) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "CROSSTALK_DATA is not set";
  const struct {
    std::string text, bert, t5, albert;
  } rows[] = {
      {"The quick brown fox jumps over the lazy dog.", "1996 4248 2829 4419 14523 2058 1996 13971 3899 1012",
       "37 1704 4216 3 20400 4418 7 147 8 19743 1782 5", "14 2231 886 2385 17659 84 14 16792 1952 9"},
      {"It's 1,000,000 unaffordable don't-cares (see [MASK]).",
       "2009 1005 1055 1015 1010 2199 1010 2199 14477 4246 8551 3085 2123 1005 1056 1011 14977 1006 2156 103 "
       "1007 1012",
       "94 31 7 209 23916 73 9 89 2590 179 278 31 17 18 2864 7 41 2338 784 23010 439 908 137",
       "32 22 18 137 11623 13 4140 22394 579 221 22 38 8 9410 18 13 5 1798 4 13 6 9"},
      {"Na\u00EFve caf\u00E9s in \u00C5ngstr\u00F6m, \u0130stanbul & Stra\u00DFe",
       "15743 23812 1999 17076 15687 1010 9960 1004 2358 27807",
       "1823 2 162 11949 7 16 3 2 1725 30476 6 3 2 5627 6724 3 184 5438 5202 15",
       "16288 6241 18 19 13 1712 7270 15 10617 279 5428 1 62"},
      {"\u6771\u4EAC\u30BF\u30EF\u30FC \uD55C\uAD6D\uC5B4 \uFF46\uFF55\uFF4C\uFF4C",
       "1879 1755 1709 30262 30265 1469 30006 30021 29991 30014 30020 29999 30008 100", "3 2 3 2 423", "13 1 13 1 503"},
      {"In 1989, ``he'' said ''no`` \u2014 \u201Cyes\u201D\u2026",
       "1999 2960 1010 1036 1036 2002 1005 1005 2056 1005 1005 2053 1036 1036 1517 1523 2748 1524 1529",
       "86 9975 6 3 2 88 31 31 243 3 31 31 29 32 2 3 318 105 10070 153 233",
       "19 1752 15 13 7 438 7 87 13 7 251 7 13 1 13 1 1714 1 9 9 9"},
      {"x\u00B2 + \u00BD \u2260 \u2603  end", "1060 10701 1009 1092 1027 100 2203",
       "3 226 357 1768 209 2 357 3 2 3 2 414", "993 135 2754 137 1 135 800 13 1 241"},
      {"<extra_id_0> of <extra_id_99> </s> [SEP]",
       "1026 4469 1035 8909 1035 1014 1028 1997 1026 4469 1035 8909 1035 5585 1028 1026 1013 1055 1028 102",
       "32099 13 32000 1 784 134 8569 908", "13 1 23631 1 1340 1 387 1 16 13 1 23631 1 1340 1 3483 1 13 1 118 18 1 3"},
  };
  for (const char* folder : {"bert-base-uncased", "t5-small", "albert"}) {
    const std::string path = StrCat(data, "/fixtures/", folder);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no " << path;
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(path);
    for (const auto& [text, bert, t5, albert] : rows) {
      std::string ids;
      for (const int32_t id : tokenizer->Encode(text)) ids += StrCat(ids.empty() ? "" : " ", id);
      EXPECT_EQ(ids, *folder == 'b' ? bert : *folder == 't' ? t5 : albert) << text;
    }
    EXPECT_EQ(tokenizer->vocab_size(), *folder == 'b' ? 30622 : *folder == 't' ? 32100 : 30100);
  }
}

}  // namespace crosstalk::published_tokenizer_test
