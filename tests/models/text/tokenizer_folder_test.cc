// What the files of one folder say of its tokenizer: each row a folder, a text and its ids, or what is refused.

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

namespace crosstalk::tokenizer_folder_test {

using Files = std::map<std::string, std::string>;

// Ids 0 to 12.
const std::string kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncovid\n-\n19\na\n##b\nb\nB\n<mask>\n";

std::string Token(int id, const std::string& text, const std::string& flags = "", bool special = false) {
  crosstalk::Json json = ParseJson("{" + flags + "}", "flags");
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
const std::string kAlways = R"("prepend_scheme": "always")";
const std::string kFirst = R"("prepend_scheme": "first", "split": false)";
const std::string kStripRight = R"({"type": "Strip", "strip_left": false, "strip_right": true}, )";

// A folder: of the vocabulary or a .model with the members of its tokenizer_config.json and added_tokens.json, quotes
// as ' in them, or of a tokenizer.json.
Files With(Files files, std::string config, std::string added) {
  for (const auto& [name, members] : {std::pair("tokenizer_config.json", &config), {"added_tokens.json", &added}}) {
    std::replace(members->begin(), members->end(), '\'', '"');
    if (!members->empty()) files[name] = "{" + *members + "}";
  }
  return files;
}
Files Vocab(const std::string& config = "", const std::string& added = "") {
  return With({{"vocab.txt", kVocabulary}}, config, added);
}
Files T5(const std::string& config, const std::string& added = "", const std::string& model = T5Model()) {
  return With({{"spiece.model", model}}, config, added);
}
Files Json(const std::string& json, const std::string& config = "") {
  return With({{"tokenizer.json", json}}, config, "");
}
Files Both(Files files, const Files& more) {
  files.insert(more.begin(), more.end());
  return files;
}

struct FolderCase {
  const char* name;
  Files files;
  const char *text, *ids;
};

std::vector<FolderCase> Cases() {
  const std::string covid =
      "'added_tokens_decoder': {'13': {'content': 'covid-19', 'lstrip': false, 'normalized': true, "
      "'rstrip': false, 'single_word': false, 'special': false}}";
  const std::string lower = "'do_lower_case': true", thirteen = "'covid-19': 13",
                    t5 = "'tokenizer_class': 'T5Tokenizer'";
  const std::string new_covid = Token(13, "covid-19", R"("normalized": true)"),
                    nn = Token(8, "nn", R"("normalized": true)"), one = Token(8, "<extra_id_0>", "", true),
                    sentinels = Token(8, "<extra_id_1>", "", true) + ", " + Token(9, "<extra_id_0>", "", true);
  const std::string flags = Token(13, "zz", R"("single_word": true)") + ", " + Token(14, "<l>", R"("lstrip": true)") +
                            ", " + Token(15, "<r>", R"("rstrip": true)");
  const std::string strip = R"({"type": "Strip", "strip_left": true, "strip_right": true})";
  const std::string lines = NestedTable('\n', 1, " ", 1);
  const std::string table = StrCat(R"({"type": "Precompiled", "precompiled_charsmap": ")",
                                   EncodeBase64(CharsmapOf(SmallModel("", lines))), R"("}, )");
  const std::string
      split_at = R"({"type": "WhitespaceSplit"})",
      isolated =
          R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": )"
          R"("Isolated"}]})";
  return {
      {"no integer of a key that is not used stops a file",
       Vocab("'model_max_length': 1000000000000000019884624838656, 'do_lower_case': true"), "A ab", "8 8 9"},
      {"the same beside a .model", T5("'model_max_length': 100000000000000000000"), "a b", "5 6"},
      // An added token in each form in which a folder says it.
      {"added_tokens.json", Vocab("", thirteen), "a covid-19b a", "8 13 10 8"},
      {"added_tokens.json, uncased", Vocab(lower, thirteen), "a Covid-19b a", "8 13 10 8"},
      {"added_tokens_decoder", Vocab(lower + ", " + covid), "COVID-19", "13"},
      {"tokenizer.json beside vocab.txt", Both(Vocab(), Json(BertJson(new_covid))), "COVID-19", "13"},
      {"all three", Both(Vocab(lower + ", " + covid, thirteen), Json(BertJson(new_covid))), "COVID-19", "13"},
      {"a special token's flags, of special_tokens_map.json, with the id of added_tokens.json",
       Both(Vocab("", "'<x>': 13"),
            {{"special_tokens_map.json", R"({"additional_special_tokens": [{"content": "<x>", "lstrip": true, )"
                                         R"("rstrip": false, "normalized": false, "single_word": false}]})"}}),
       "a  <x>a", "8 13 8"},
      // Rules of tokenizer_config.json.
      {"mask_token", Vocab("'mask_token': '<mask>', 'do_lower_case': true"), "a<mask>[MASK]", "8 12 1 1 1"},
      {"do_basic_tokenize: false", Vocab("'do_basic_tokenize': false"), "B a- ab [MASK]", "11 1 8 9 4"},
      {"never_split of special tokens", Vocab("'never_split': ['[MASK]'], 'mask_token': '[MASK]'"), "[MASK]", "4"},
      {"split_special_tokens", Vocab("'split_special_tokens': true"), "a [MASK]", "8 1 1 1"},
      {"flags of an added token", Json(BertJson(flags)), "zz azz zz. _zz  <l>a<r>  b", "13 1 13 1 1 1 14 8 15 10"},
      {"a token that begins in the space that another takes",
       Json(BertJson(Token(13, "<r>", R"("rstrip": true)") + ", " + Token(14, "\u3000"))), "a<r> \u3000 a",
       "8 13 14 8"},
      {"Strip of a token that is normalized", Json(BertJson(Token(13, " x ", R"("normalized": true)"), strip)), "axa",
       "8 13 8"},
      {"Strip before a Replace that takes a space",
       Json(BertJson("", R"({"type": "Sequence", "normalizers": [)" + strip +
                             R"(, {"type": "Replace", "pattern": {"String": " "}, "content": "-"}]})")),
       " a a ", "8 6 8"},
      {"a piece without letters", {{"vocab.txt", kVocabulary + "##\n"}}, "a##", "8 1 1"},
      // The tokenizers that the library's course trains.
      {"NFD, Lowercase, StripAccents and Whitespace", Json(BertJson("", kSequence, R"({"type": "Whitespace"})")),
       "\u00c1B --a-", "8 9 1 8 6"},
      {"WhitespaceSplit", Json(BertJson("", kSequence, split_at)), "\u00c1B a-", "8 9 1"},
      {"and Punctuation", Json(BertJson("", kSequence, isolated)), "\u00c1B --a-", "8 9 6 6 8 6"},
      // T5.
      {"the default number of sentinels", T5(t5), "a<extra_id_0>b <extra_id_99></s>", "5 107 6 8 1"},
      {"of config.json alone", Both(T5(""), {{"config.json", R"({"model_type": "t5"})"}}), "a<extra_id_0>", "5 107"},
      {"of an mT5", Both(T5(""), {{"config.json", R"({"model_type": "mt5"})"}}), "a<extra_id_0>", "5 107"},
      {"extra_ids", T5("'tokenizer_class': 'T5TokenizerFast', 'extra_ids': 300"), "<extra_id_0> b<extra_id_299>",
       "307 6 8"},
      {"no sentinel", T5(t5 + ", 'extra_ids': 0"), "a<>", "5 2"},
      {"sentinels where the file has them: a token above them", Json(T5Json(sentinels + ", " + Token(10, "<new>"))),
       "a<extra_id_0><new>b<extra_id_1>", "5 9 10 6 8"},
      {"the same of a .model", T5(t5, "'<new>': 108"), "a<extra_id_0><new>b", "5 107 108 6"},
      {"rising ones", Json(T5Json(one + ", " + Token(9, "<extra_id_1>", "", true))), "<extra_id_0>a<extra_id_1>",
       "8 5 9"},
      {"pieces of the model", T5(t5, "", T5Model(Piece("<extra_id_0>", 0, 4))), "a<extra_id_0>", "5 8"},
      {"a .model beside the tokenizer.json",
       Both(T5(t5 + ", 'extra_ids': 2", "", T5Model("", lines)), Json(T5Json(sentinels, kAlways, table + kStripRight))),
       "a<extra_id_0>b", "5 9 6"},
      {"legacy: false, as tokenizer.json says it", Json(T5Json(sentinels, kFirst, kStripRight)),
       "b<extra_id_0>b<extra_id_1> b ", "6 9 7 8 6"},
      {"legacy: false, of a .model", T5(t5 + ", 'legacy': false"), "b<extra_id_0>b<extra_id_1> b ", "6 107 7 106 6"},
      // A token that is normalized is found in the normalized text, whose other spaces stay.
      {"a normalized token of a T5", Json(T5Json(nn, kAlways, kStripRight)), "b nn b nnb ", "6 4 8 6 4 8 6"},
      {"the same with prepend_scheme first", Json(T5Json(nn, kFirst, kStripRight)), "b nn b nnb ", "6 4 8 6 4 8 7"},
      {"the same by the model's table, which makes c a b",
       T5(t5, "'nb': 108", T5Model("", NestedTable('c', 1, "b", 1))), "a nc b", "5 108 6"},
      {"a text that the table takes away", T5(t5 + ", 'legacy': false", "", T5Model("", NestedTable('\x7f', 1, "", 1))),
       "\x7f<extra_id_0>b", "107 7"},
      {"white space at the end that is no space", Json(T5Json("", kAlways, kStripRight)), "b b\t ", "6 6"},
      {"spaces at the ends, where nothing strips them", Json(T5Json("", R"("prepend_scheme": "never")", "")), " b b ",
       "6 6 4"},
  };
}

void Write(const TempDir& dir, const Files& files) {
  for (const auto& [name, contents] : files) WriteFileAtomically(dir / name, contents);
}

std::string IdsOf(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> ids;
  for (const int32_t id : tokenizer.Encode(text)) ids.push_back(std::to_string(id));
  return Join(ids, " ");
}

// The folder's ids; the file that a run keeps and the files that are published give the same tokenizer again.
TEST(TokenizerFolderTest, AFolderIsOneTokenizer) {
  for (const auto& [name, files, text, ids] : Cases()) {
    SCOPED_TRACE(name);
    const TempDir dir, again;
    Write(dir, files);
    std::vector<std::string> remarks;
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(dir.path(), 0, &remarks);
    EXPECT_EQ(IdsOf(*tokenizer, text), ids);
    EXPECT_TRUE(remarks.empty()) << remarks[0];
    CheckKept(*tokenizer, 0);
    for (const auto& [file, contents] : tokenizer->PublishedFiles()) WriteFileAtomically(again / file, contents);
    EXPECT_EQ(TokenizerDifference(*tokenizer, *OpenTokenizer(again.path(), 0)), "");
  }
}

TEST(TokenizerFolderTest, TheSentinelsAreNumberedWhereverTheyStand) {
  const TempDir dir;
  Write(dir, Json(T5Json(Token(8, "<extra_id_0>", "", true) + ", " + Token(9, "<new>") + ", " +
                         Token(10, "<extra_id_1>", "", true))));
  const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(dir.path());
  EXPECT_EQ(tokenizer->num_sentinels(), 2);
  EXPECT_EQ(tokenizer->Sentinel(1), 10);
  EXPECT_FALSE(tokenizer->IsSentinel(9));
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{5, 8, 9, 10}), "a <extra_id_0> <new> <extra_id_1>");
  EXPECT_EQ(LoadTokenizer(tokenizer->FileContents(), "kept")->Sentinel(0), 8);
}

TEST(TokenizerFolderTest, WhatIsNotComputedIsRefusedByName) {
  const std::string t5 = "'tokenizer_class': 'T5Tokenizer'", mark = "\xEF\xBB\xBF";
  const std::string nn = Token(8, "nn", R"("normalized": true)");
  std::string moved = kVocabulary;
  moved.replace(moved.find("[MASK]\ncovid"), 12, "covid\n[MASK]");
  testing::ExpectRefused<Files>(
      {{"nothing", {}, {"tokenizer.json, vocab.json, vocab.txt, spiece.model, tokenizer.model"}},
       {"a mark in vocab.txt", {{"vocab.txt", mark + kVocabulary}}, {"vocab.txt", "byte order mark"}},
       {"a mark in JSON", Json(mark + BertJson()), {"tokenizer.json", "byte-order mark"}},
       {"never_split", Vocab("'never_split': ['foo']"), {"never_split", "foo"}},
       {"mask_token", Vocab("'mask_token': '<m>'"), {"mask_token", "<m>", "no id"}},
       {"a tokenizer of words", Vocab("'word_tokenizer_type': 'mecab'"), {"mecab"}},
       {"a class", Vocab(t5), {"tokenizer_class", "vocab.txt", "BertTokenizer"}},
       {"an unknown class", T5("'tokenizer_class': 'PegasusTokenizer'"), {"PegasusTokenizer", "T5Tokenizer"}},
       {"a model", Both(T5(""), {{"config.json", R"({"model_type": "xlnet"})"}}), {"model_type", "xlnet"}},
       {"sampling", T5(t5 + ", 'sp_model_kwargs': {'enable_sampling': true}"), {"sp_model_kwargs"}},
       {"eos_token", T5(t5 + ", 'eos_token': '<pad>'"), {"eos_token", "<pad>", "</s>"}},
       {"extra_ids",
        Json(T5Json(Token(8, "<extra_id_0>", "", true)), t5 + ", 'extra_ids': 3"),
        {"extra_ids is 3", "1 tokens"}},
       {"an id too large", Vocab("", "'new': 14"), {"\"new\" has the id 14", "13"}},
       {"an id of another", Vocab("", "'new': 5"), {"\"new\" has the id 5", "covid"}},
       {"first", Json(T5Json("", kFirst)), {"Strip at the left"}},
       {"a normalized token", Json(T5Json(nn)), {"\"nn\" with normalized", "at the left"}},
       {"one with a space",
        Json(T5Json(Token(8, "n n", R"("normalized": true)"), kAlways, kStripRight)),
        {"\"n n\" with normalized", "white space"}},
       {"one that strips",
        Json(T5Json(Token(8, "nn", R"("normalized": true, "lstrip": true)"), kAlways, kStripRight)),
        {"\"nn\" with normalized", "lstrip"}},
       // Files that say different things.
       {"two ids", Both(Vocab("", "'[MASK]': 3"), Json(BertJson())), {"[MASK]", "the id 3", "4"}},
       {"two orders", Both({{"vocab.txt", moved}}, Json(BertJson())), {"[MASK]", "name the one to use"}},
       {"two cases",
        Both(Vocab("'do_lower_case': false"), Json(BertJson())),
        {"tokenizer.json and vocab.txt", "makes", "name the file"}},
       {"two cases beside it",
        Json(BertJson(), "'do_lower_case': false"),
        {"tokenizer.json and the files beside it", "makes", "name the file"}},
       {"two sizes",
        Both(T5("", "", T5Model(Piece("aa", -1, 1))), Json(T5Json(""))),
        {"tokenizer.json and spiece.model", "9 ids, not 8"}},
       {"an empty line",
        Both({{"vocab.txt", kVocabulary + "\n"}}, Json(BertJson())),
        {"line 14 is empty", "tokenizer.json and vocab.txt name the one"}}},
      [](const Files& files) {
        const TempDir dir;
        Write(dir, files);
        OpenTokenizer(dir.path(), 0);
      },
      ErrorKind::kData);
}

// As a download that was not finished leaves them.
TEST(TokenizerFolderTest, ALinkThatLeadsNowhereIsNamed) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"}) {
    const TempDir dir;
    Write(dir, Vocab());
    std::filesystem::create_symlink("none", dir / name);
    testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData, {name, "No such file"});
  }
}

// A file that is named is the one that speaks: one of two that contradict each other, too. A name that no text becomes
// is a remark, not a difference.
TEST(TokenizerFolderTest, WhatIsLeftOutIsSaid) {
  std::string moved = kVocabulary, renamed = kVocabulary;
  moved.replace(moved.find("[MASK]\ncovid"), 12, "covid\n[MASK]");
  renamed.replace(renamed.find("<mask>"), 6, "[none]");
  const struct {
    Files files;
    const char *opened, *text, *ids, *remark;
  } kCases[] = {
      {Both(Vocab("'do_lower_case': false, 'unheard_of': 1, 'model_max_length': 512"), Json(BertJson())), "vocab.txt",
       "B", "11", "tokenizer_config.json: not computed: unheard_of"},
      {Both({{"vocab.txt", moved}}, Json(BertJson())), "vocab.txt", "covid [MASK]", "4 5",
       "has the id 4, which is \"covid\""},
      {Both({{"vocab.txt", moved}}, Json(BertJson())), "vocab.txt", "covid [MASK]", "4 5",
       "tokenizer.json is left out"},
      {With({{"vocab.txt", renamed}, {"tokenizer.json", BertJson()}}, " ", ""), "", "a", "8",
       "tokenizer.json is used; vocab.txt has \"[none]\" as the id 12, not \"<mask>\""},
  };
  for (const auto& [files, opened, text, ids, remark] : kCases) {
    const TempDir dir;
    Write(dir, files);
    std::vector<std::string> remarks;
    EXPECT_EQ(IdsOf(*OpenTokenizer(dir / opened, 0, &remarks), text), ids);
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_PRED2(testing::Contains, remarks[0], remark);
    EXPECT_EQ(IdsOf(*OpenTokenizer(dir / "tokenizer.json", 0), "covid [MASK] B"), "5 4 10");
  }
}

}  // namespace crosstalk::tokenizer_folder_test
