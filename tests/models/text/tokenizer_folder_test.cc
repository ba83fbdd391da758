// What the files of one folder say of its tokenizer: each row a folder, a text and its ids, or what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "crosstalk/models/text/published_tokenizer.h"
#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/crafted_model.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace tokenizer_folder_test {

using Row = std::vector<int32_t>;
using Files = std::vector<std::pair<std::string, std::string>>;

// Ids 0 to 12.
const std::string kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncovid\n-\n19\na\n##b\nb\nB\n<mask>\n";

std::string Token(int id, const std::string& text, const std::string& flags = "", bool special = false) {
  Json json = ParseJson("{" + flags + "}", "flags");
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) {
    if (json.Find(key) == nullptr) json.Set(key, false);
  }
  return json.Set("id", id).Set("content", text).Set("special", special).Dump();
}

// A tokenizer.json of the vocabulary; `more` are added tokens.
std::string BertJson(const std::string& more = "", const std::string& normalizer = "", const std::string& split = "") {
  const std::string bert =
      R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true})";
  std::string vocabulary, added;
  int id = 0;
  for (size_t begin = 0; begin < kVocabulary.size(); ++id) {
    const size_t end = kVocabulary.find('\n', begin);
    const std::string piece = kVocabulary.substr(begin, end - begin);
    vocabulary += StrCat(id == 0 ? "" : ", ", "\"", piece, "\": ", id);
    if (piece.starts_with('[')) added += (added.empty() ? "" : ", ") + Token(id, piece, "", true);
    begin = end + 1;
  }
  return StrCat(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)", added,
                more.empty() ? "" : ", ", more, R"(], "normalizer": )", normalizer.empty() ? bert : normalizer,
                R"(, "pre_tokenizer": )", split.empty() ? R"({"type": "BertPreTokenizer"})" : split,
                R"(, "post_processor": null, "decoder": null, "model": {"type": "WordPiece", "unk_token": "[UNK]", )",
                R"("continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {)", vocabulary, "}}}");
}

// A T5 of 8 pieces: ids 5 "▁a", 6 "▁b", 7 "b".
std::string T5Model(const std::string& more = "", const std::string& normalizer = "") {
  return SmallModel(Piece("\u2581a", -1, 1) + Piece("\u2581b", -1, 1) + Piece("b", -1, 1) + more, normalizer);
}

// The same as a tokenizer.json; `tokens` are the added tokens above its pieces.
std::string T5Json(const std::string& tokens, const std::string& metaspace = R"("prepend_scheme": "always")",
                   const std::string& strip = R"({"type": "Strip", "strip_left": true, "strip_right": true}, )") {
  return StrCat(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [)",
                Token(0, "<pad>", "", true), ", ", Token(1, "</s>", "", true), ", ", Token(2, "<unk>", "", true),
                tokens.empty() ? "" : ", ", tokens, R"(], "normalizer": {"type": "Sequence", "normalizers": [)", strip,
                R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"}]}, )",
                R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", )", metaspace,
                R"(}, "post_processor": null, "decoder": null, "model": {"type": "Unigram", "unk_id": 2, "vocab": [)",
                R"(["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["a", -1.0], ["▁", -2.0], ["▁a", -1.0], )",
                R"(["▁b", -1.0], ["b", -1.0]]}})");
}

const std::string kSequence =
    R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}]})";
const std::string kT5 = R"({"tokenizer_class": "T5Tokenizer"})";
const std::string kAlways = R"("prepend_scheme": "always")";
const std::string kFirst = R"("prepend_scheme": "first", "split": false)";
const std::string kStripRight = R"({"type": "Strip", "strip_left": false, "strip_right": true}, )";

struct FolderCase {
  const char* name;
  Files files;
  const char* text;
  Row ids;
};

std::vector<FolderCase> Cases() {
  const std::string covid = R"({"content": "covid-19", "lstrip": false, "normalized": true, "rstrip": false, )"
                            R"("single_word": false, "special": false})";
  const std::string one = Token(8, "<extra_id_0>", "", true),
                    sentinels = Token(8, "<extra_id_1>", "", true) + ", " + Token(9, "<extra_id_0>", "", true);
  const std::string lines = NestedTable('\n', 1, " ", 1);
  const std::string table = StrCat(R"({"type": "Precompiled", "precompiled_charsmap": ")",
                                   EncodeBase64(CharsmapOf(SmallModel("", lines))), R"("}, )");
  return {
      {"no integer of a key that is not used stops a file",
       {{"vocab.txt", kVocabulary},
        {"tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656, "do_lower_case": true})"}},
       "A ab",
       {8, 8, 9}},
      {"the same beside a .model",
       {{"spiece.model", T5Model()}, {"tokenizer_config.json", R"({"model_max_length": 100000000000000000000})"}},
       "a b",
       {5, 6}},
      // An added token in each form in which a folder says it.
      {"added_tokens.json",
       {{"vocab.txt", kVocabulary}, {"added_tokens.json", R"({"covid-19": 13})"}},
       "a covid-19b a",
       {8, 13, 10, 8}},
      {"added_tokens.json, uncased",
       {{"vocab.txt", kVocabulary},
        {"added_tokens.json", R"({"covid-19": 13})"},
        {"tokenizer_config.json", R"({"do_lower_case": true})"}},
       "a Covid-19b a",
       {8, 13, 10, 8}},
      {"added_tokens_decoder",
       {{"vocab.txt", kVocabulary},
        {"tokenizer_config.json", R"({"do_lower_case": true, "added_tokens_decoder": {"13": )" + covid + "}}"}},
       "COVID-19",
       {13}},
      {"tokenizer.json beside vocab.txt",
       {{"vocab.txt", kVocabulary}, {"tokenizer.json", BertJson(Token(13, "covid-19", R"("normalized": true)"))}},
       "COVID-19",
       {13}},
      {"all three",
       {{"vocab.txt", kVocabulary},
        {"tokenizer.json", BertJson(Token(13, "covid-19", R"("normalized": true)"))},
        {"added_tokens.json", R"({"covid-19": 13})"},
        {"tokenizer_config.json", R"({"do_lower_case": true, "added_tokens_decoder": {"13": )" + covid + "}}"}},
       "COVID-19",
       {13}},
      {"a special token's flags, of special_tokens_map.json, with the id of added_tokens.json",
       {{"vocab.txt", kVocabulary},
        {"added_tokens.json", R"({"<x>": 13})"},
        {"special_tokens_map.json",
         R"({"additional_special_tokens": [{"content": "<x>", "lstrip": true, "rstrip": false, "normalized": false, "single_word": false}]})"}},
       "a  <x>a",
       {8, 13, 8}},
      // Rules of tokenizer_config.json.
      {"mask_token",
       {{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"mask_token": "<mask>", "do_lower_case": true})"}},
       "a<mask>[MASK]",
       {8, 12, 1, 1, 1}},
      {"do_basic_tokenize: false",
       {{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"do_basic_tokenize": false})"}},
       "B a- ab [MASK]",
       {11, 1, 8, 9, 4}},
      {"never_split of special tokens",
       {{"vocab.txt", kVocabulary},
        {"tokenizer_config.json", R"({"never_split": ["[MASK]"], "mask_token": "[MASK]"})"}},
       "[MASK]",
       {4}},
      {"split_special_tokens",
       {{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"split_special_tokens": true})"}},
       "a [MASK]",
       {8, 1, 1, 1}},
      {"flags of an added token",
       {{"tokenizer.json",
         BertJson(Token(13, "zz", R"("single_word": true)") + ", " + Token(14, "<l>", R"("lstrip": true)") + ", " +
                  Token(15, "<r>", R"("rstrip": true)"))}},
       "zz azz zz. _zz  <l>a<r>  b",
       {13, 1, 13, 1, 1, 1, 14, 8, 15, 10}},
      {"a token that begins in the space that another takes",
       {{"tokenizer.json", BertJson(Token(13, "<r>", R"("rstrip": true)") + ", " + Token(14, "\u3000"))}},
       "a<r> \u3000 a",
       {8, 13, 14, 8}},
      {"Strip of a token that is normalized",
       {{"tokenizer.json", BertJson(Token(13, " x ", R"("normalized": true)"),
                                    R"({"type": "Strip", "strip_left": true, "strip_right": true})")}},
       "axa",
       {8, 13, 8}},
      {"Strip before a Replace that takes a space",
       {{"tokenizer.json",
         BertJson("",
                  R"({"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": true, "strip_right": true}, )"
                  R"({"type": "Replace", "pattern": {"String": " "}, "content": "-"}]})")}},
       " a a ",
       {8, 6, 8}},
      {"a piece without letters", {{"vocab.txt", kVocabulary + "##\n"}}, "a##", {8, 1, 1}},
      // The tokenizers that the library's course trains.
      {"NFD, Lowercase, StripAccents and Whitespace",
       {{"tokenizer.json", BertJson("", kSequence, R"({"type": "Whitespace"})")}},
       "\u00c1B --a-",
       {8, 9, 1, 8, 6}},
      {"WhitespaceSplit",
       {{"tokenizer.json", BertJson("", kSequence, R"({"type": "WhitespaceSplit"})")}},
       "\u00c1B a-",
       {8, 9, 1}},
      {"WhitespaceSplit and Punctuation",
       {{"tokenizer.json",
         BertJson(
             "", kSequence,
             R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}]})")}},
       "\u00c1B --a-",
       {8, 9, 6, 6, 8, 6}},
      // T5.
      {"the default number of sentinels",
       {{"spiece.model", T5Model()}, {"tokenizer_config.json", kT5}},
       "a<extra_id_0>b <extra_id_99></s>",
       {5, 107, 6, 8, 1}},
      {"of config.json alone",
       {{"spiece.model", T5Model()}, {"config.json", R"({"model_type": "t5"})"}},
       "a<extra_id_0>",
       {5, 107}},
      {"extra_ids",
       {{"spiece.model", T5Model()},
        {"tokenizer_config.json", R"({"tokenizer_class": "T5TokenizerFast", "extra_ids": 300})"}},
       "<extra_id_0> b<extra_id_299>",
       {307, 6, 8}},
      {"no sentinel",
       {{"spiece.model", T5Model()},
        {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 0})"}},
       "a<>",
       {5, 2}},
      {"sentinels where the file has them: a token above them",
       {{"tokenizer.json", T5Json(sentinels + ", " + Token(10, "<new>"))}},
       "a<extra_id_0><new>b<extra_id_1>",
       {5, 9, 10, 6, 8}},
      {"the same of a .model",
       {{"spiece.model", T5Model()}, {"tokenizer_config.json", kT5}, {"added_tokens.json", R"({"<new>": 108})"}},
       "a<extra_id_0><new>b",
       {5, 107, 108, 6}},
      {"rising ones",
       {{"tokenizer.json", T5Json(one + ", " + Token(9, "<extra_id_1>", "", true))}},
       "<extra_id_0>a<extra_id_1>",
       {8, 5, 9}},
      {"pieces of the model",
       {{"spiece.model", T5Model(Piece("<extra_id_0>", 0, 4))}, {"tokenizer_config.json", kT5}},
       "a<extra_id_0>",
       {5, 8}},
      {"a .model beside the tokenizer.json",
       {{"spiece.model", T5Model("", lines)},
        {"tokenizer.json", T5Json(sentinels, kAlways, table + kStripRight)},
        {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})"}},
       "a<extra_id_0>b",
       {5, 9, 6}},
      {"legacy: false, as tokenizer.json says it",
       {{"tokenizer.json", T5Json(sentinels, kFirst, kStripRight)}},
       "b<extra_id_0>b<extra_id_1> b ",
       {6, 9, 7, 8, 6}},
      {"legacy: false, of a .model",
       {{"spiece.model", T5Model()},
        {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "legacy": false})"}},
       "b<extra_id_0>b<extra_id_1> b ",
       {6, 107, 7, 106, 6}},
      // A token that is normalized is found in the normalized text, whose other spaces stay.
      {"a normalized token of a T5",
       {{"tokenizer.json", T5Json(Token(8, "nn", R"("normalized": true)"), kAlways, kStripRight)}},
       "b nn b nnb ",
       {6, 4, 8, 6, 4, 8, 6}},
      {"the same with prepend_scheme first",
       {{"tokenizer.json", T5Json(Token(8, "nn", R"("normalized": true)"), kFirst, kStripRight)}},
       "b nn b nnb ",
       {6, 4, 8, 6, 4, 8, 7}},
      {"the same by the model's table, which makes c a b",
       {{"spiece.model", T5Model("", NestedTable('c', 1, "b", 1))},
        {"tokenizer_config.json", kT5},
        {"added_tokens.json", R"({"nb": 108})"}},
       "a nc b",
       {5, 108, 6}},
      {"a text that the table takes away",
       {{"spiece.model", T5Model("", NestedTable('\x7f', 1, "", 1))},
        {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "legacy": false})"}},
       "\x7f<extra_id_0>b",
       {107, 7}},
      {"white space at the end that is no space",
       {{"tokenizer.json", T5Json("", kAlways, kStripRight)}},
       "b b\t ",
       {6, 6}},
      {"spaces at the ends, where nothing strips them",
       {{"tokenizer.json", T5Json("", R"("prepend_scheme": "never")", "")}},
       " b b ",
       {6, 6, 4}},
  };
}

void Write(const TempDir& dir, const Files& files) {
  for (const auto& [name, contents] : files) WriteFileAtomically(dir / name, contents);
}

// The folder's ids; the file that a run keeps and the files that are published give the same tokenizer again.
TEST(TokenizerFolderTest, AFolderIsOneTokenizer) {
  for (const FolderCase& test : Cases()) {
    SCOPED_TRACE(test.name);
    const TempDir dir;
    Write(dir, test.files);
    std::vector<std::string> remarks;
    const std::unique_ptr<Tokenizer> tokenizer = OpenTokenizer(dir.path(), 0, &remarks);
    EXPECT_EQ(tokenizer->Encode(test.text), test.ids);
    EXPECT_TRUE(remarks.empty()) << remarks[0];
    CheckKept(*tokenizer, 0);
    const TempDir again;
    for (const auto& [name, contents] : tokenizer->PublishedFiles()) WriteFileAtomically(again / name, contents);
    EXPECT_EQ(TokenizerDifference(*tokenizer, *OpenTokenizer(again.path(), 0)), "");
  }
}

TEST(TokenizerFolderTest, TheSentinelsAreNumberedWhereverTheyStand) {
  const TempDir dir;
  WriteFileAtomically(dir / "tokenizer.json", T5Json(Token(8, "<extra_id_0>", "", true) + ", " + Token(9, "<new>") +
                                                     ", " + Token(10, "<extra_id_1>", "", true)));
  const std::unique_ptr<Tokenizer> tokenizer = OpenTokenizer(dir.path());
  EXPECT_EQ(tokenizer->num_sentinels(), 2);
  EXPECT_EQ(tokenizer->Sentinel(1), 10);
  EXPECT_FALSE(tokenizer->IsSentinel(9));
  EXPECT_EQ(tokenizer->Decode(Row{5, 8, 9, 10}), "a <extra_id_0> <new> <extra_id_1>");
  const std::unique_ptr<Tokenizer> kept = LoadTokenizer(tokenizer->FileContents(), "kept");
  EXPECT_EQ(kept->Sentinel(0), 8);
}

TEST(TokenizerFolderTest, WhatIsNotComputedIsRefusedByName) {
  const std::string extra = R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 3})";
  const struct {
    Files files;
    std::vector<std::string> says;
  } cases[] = {
      {{{"vocab.txt", "\xEF\xBB\xBF" + kVocabulary}}, {"vocab.txt", "byte order mark"}},
      {{{"tokenizer.json", "\xEF\xBB\xBF" + BertJson()}}, {"tokenizer.json", "byte-order mark"}},
      {{{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"never_split": ["foo"]})"}}, {"never_split", "foo"}},
      {{{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"mask_token": "<m>"})"}},
       {"mask_token", "<m>", "no id"}},
      {{{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"word_tokenizer_type": "mecab"})"}}, {"mecab"}},
      {{{"vocab.txt", kVocabulary}, {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})"}},
       {"tokenizer_class", "vocab.txt", "BertTokenizer"}},
      {{{"spiece.model", T5Model()}, {"tokenizer_config.json", R"({"tokenizer_class": "PegasusTokenizer"})"}},
       {"PegasusTokenizer", "T5Tokenizer"}},
      {{{"spiece.model", T5Model()}, {"config.json", R"({"model_type": "xlnet"})"}}, {"model_type", "xlnet"}},
      {{{"spiece.model", T5Model()},
        {"tokenizer_config.json",
         R"({"tokenizer_class": "T5Tokenizer", "sp_model_kwargs": {"enable_sampling": true}})"}},
       {"sp_model_kwargs"}},
      {{{"spiece.model", T5Model()},
        {"tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer", "eos_token": "<pad>"})"}},
       {"eos_token", "<pad>", "</s>"}},
      {{{"tokenizer.json", T5Json(Token(8, "<extra_id_0>", "", true))}, {"tokenizer_config.json", extra}},
       {"extra_ids is 3", "1 tokens"}},
      {{{"vocab.txt", kVocabulary}, {"added_tokens.json", R"({"new": 14})"}}, {"\"new\" has the id 14", "13"}},
      {{{"vocab.txt", kVocabulary}, {"added_tokens.json", R"({"new": 5})"}}, {"\"new\" has the id 5", "covid"}},
      {{{"tokenizer.json", T5Json("", kFirst)}}, {"Strip at the left"}},
      {{{"tokenizer.json", T5Json(Token(8, "nn", R"("normalized": true)"))}},
       {"\"nn\" with normalized", "at the left"}},
      {{{"tokenizer.json", T5Json(Token(8, "n n", R"("normalized": true)"), kAlways, kStripRight)}},
       {"\"n n\" with normalized", "white space"}},
      {{{"tokenizer.json", T5Json(Token(8, "nn", R"("normalized": true, "lstrip": true)"), kAlways, kStripRight)}},
       {"\"nn\" with normalized", "lstrip"}},
      // Files that say different things.
      {{{"vocab.txt", kVocabulary}, {"tokenizer.json", BertJson()}, {"added_tokens.json", R"({"[MASK]": 3})"}},
       {"[MASK]", "the id 3", "4"}},
      {{{"vocab.txt", kVocabulary},
        {"tokenizer.json", BertJson()},
        {"tokenizer_config.json", R"({"do_lower_case": false})"}},
       {"tokenizer.json and vocab.txt", "makes", "name the file"}},
      {{{"tokenizer.json", BertJson()}, {"tokenizer_config.json", R"({"do_lower_case": false})"}},
       {"tokenizer.json and the files beside it", "makes", "name the file"}},
      {{{"tokenizer.json", T5Json("")}, {"spiece.model", T5Model(Piece("aa", -1, 1))}},
       {"tokenizer.json and spiece.model", "9 ids, not 8"}},
      {{{"vocab.txt", kVocabulary + "\n"}, {"tokenizer.json", BertJson()}},
       {"line 14 is empty", "tokenizer.json and vocab.txt name the one"}},
  };
  for (const auto& test : cases) {
    const TempDir dir;
    Write(dir, test.files);
    testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData, test.says);
  }
}

// As a download that was not finished leaves them.
TEST(TokenizerFolderTest, ALinkThatLeadsNowhereIsNamed) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    const TempDir dir;
    Write(dir, {{"vocab.txt", kVocabulary}});
    std::filesystem::create_symlink("none", dir / name);
    testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData, {name, "No such file"});
  }
}

TEST(TokenizerFolderTest, AFileThatIsNamedIsTheOneThatSpeaks) {
  const TempDir dir;
  Write(dir, {{"vocab.txt", kVocabulary},
              {"tokenizer.json", BertJson()},
              {"tokenizer_config.json", R"({"do_lower_case": false, "unheard_of": 1, "model_max_length": 512})"}});
  std::vector<std::string> remarks;
  EXPECT_EQ(OpenTokenizer(dir / "vocab.txt", 0, &remarks)->Encode("B"), Row{11});
  EXPECT_EQ(OpenTokenizer(dir / "tokenizer.json", 0)->Encode("B"), Row{10});
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(remarks[0], dir / "tokenizer_config.json" + ": not computed: unheard_of");
}

// Of two that contradict each other any can be named.
TEST(TokenizerFolderTest, ANamedFileLeavesOutATokenizerJsonThatContradictsIt) {
  const TempDir dir;
  std::string vocabulary = kVocabulary;
  vocabulary.replace(vocabulary.find("[MASK]\ncovid"), 12, "covid\n[MASK]");
  Write(dir, {{"vocab.txt", vocabulary}, {"tokenizer.json", BertJson()}});
  testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData, {"[MASK]", "name the one to use"});
  std::vector<std::string> remarks;
  EXPECT_EQ(OpenTokenizer(dir / "vocab.txt", 0, &remarks)->Encode("covid [MASK]"), (Row{4, 5}));
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_NE(remarks[0].find("has the id 4, which is \"covid\""), std::string::npos) << remarks[0];
  EXPECT_NE(remarks[0].find("tokenizer.json is left out"), std::string::npos) << remarks[0];
  EXPECT_EQ(OpenTokenizer(dir / "tokenizer.json", 0)->Encode("covid [MASK]"), (Row{5, 4}));
}

// A name that no text becomes is a remark, not a difference.
TEST(TokenizerFolderTest, AnIdThatIsOnlyShownOtherwiseIsSaid) {
  const TempDir dir;
  std::string vocabulary = kVocabulary;
  vocabulary.replace(vocabulary.find("<mask>"), 6, "[none]");
  Write(dir, {{"vocab.txt", vocabulary}, {"tokenizer.json", BertJson()}, {"tokenizer_config.json", "{}"}});
  std::vector<std::string> remarks;
  OpenTokenizer(dir.path(), 0, &remarks);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_NE(remarks[0].find("tokenizer.json is used; vocab.txt has \"[none]\" as the id 12, not \"<mask>\""),
            std::string::npos)
      << remarks[0];
}

}  // namespace tokenizer_folder_test
}  // namespace crosstalk
