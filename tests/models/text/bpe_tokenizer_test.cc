// Byte-pair encoding against Hugging Face's library, and against a slow double of our own.
#include "crosstalk/models/text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "crosstalk/models/text/encoding.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::bpe_tokenizer_test {

using Row = std::vector<int32_t>;

std::string SourceFolder(const std::string& name) {
  const char* source = std::getenv("CROSSTALK_SOURCE");
  return StrCat(source == nullptr ? "." : source, "/tests/models/text/tokenizers/", name);
}

Row IdsOf(const Json& list) {
  Row ids;
  for (const Json& id : list.AsArray()) ids.push_back(static_cast<int32_t>(id.AsInt()));
  return ids;
}

// As Rust's from_utf8_lossy: U+FFFD for each longest part that begins a character.
std::string Lossy(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    if (const size_t length = Utf8Length(bytes, at); length > 0) {
      text += bytes.substr(at, length);
      at += length;
      continue;
    }
    size_t end = at + 1;
    // Longer, while some next bytes would make it a character.
    const auto begins_one = [&](size_t length) {
      std::string part(bytes.substr(at, length));
      for (const char* more : {"\x80", "\xBF", "\x9F", "\xA0", "\x90", "\x8F"}) {
        for (std::string_view rest : {"", "\x80", "\x80\x80"}) {
          if (Utf8Length(StrCat(part, more, rest), 0) > length) return true;
        }
      }
      return false;
    };
    while (end < bytes.size() && end - at < 4 && begins_one(end - at + 1)) ++end;
    text += "\uFFFD";
    at = end;
  }
  return text;
}

// What the library makes of texts and ids.
void ExpectCases(const Tokenizer& tokenizer, const std::string& path) {
  const Json cases = ReadJsonFile(path);
  EXPECT_EQ(tokenizer.vocab_size(), cases.At("vocab_size").AsInt());
  int compared = 0;
  for (const Json& one : cases.At("encode").AsArray()) {
    const std::string& text = one.At("text").AsString();
    const Json* const pair = one.Find("pair");
    SCOPED_TRACE(one.Dump());
    const std::optional<std::string_view> second =
        pair == nullptr ? std::nullopt : std::optional<std::string_view>(pair->AsString());
    Row ids, segments, without;
    for (const EncodedPair::Token& token : EncodePair(tokenizer, text, second).tokens) {
      ids.push_back(token.id);
      segments.push_back(token.segment);
      if (token.text >= 0) without.push_back(token.id);
    }
    const Row expected = IdsOf(one.At("ids"));
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(without, one.Find("ids_no_special") == nullptr ? expected : IdsOf(one.At("ids_no_special")));
    if (pair != nullptr) {
      EXPECT_EQ(segments, IdsOf(one.At("type_ids")));
    }
    EXPECT_EQ(Lossy(tokenizer.Decode(expected)), one.At("decoded_skip_special").AsString());
    ++compared;
  }
  for (const Json& one : cases.At("decode").AsArray()) {
    Row ids = IdsOf(one.At("ids"));
    std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= tokenizer.vocab_size(); });
    EXPECT_EQ(Lossy(tokenizer.Decode(ids)), one.At("decoded_skip_special").AsString()) << one.Dump();
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

// What a run keeps, and what is published, is the same tokenizer.
void ExpectKeptAndPublished(const Tokenizer& tokenizer) {
  CheckKept(tokenizer, 55);
  const TempDir dir;
  for (const auto& [name, contents] : tokenizer.PublishedFiles()) WriteFileAtomically(dir / name, contents);
  EXPECT_EQ(TokenizerDifference(tokenizer, *OpenTokenizer(dir.path(), 0)), "");
}

TEST(BpeTokenizerTest, IdsAndTextsAreTheLibrarys) {
  for (const char* name : {"tiny_added_tokens", "llama_form"}) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(SourceFolder(name), 0);
    EXPECT_EQ(tokenizer->kind(), "bpe");
    ExpectCases(*tokenizer, SourceFolder(name) + "/cases.json");
    ExpectKeptAndPublished(*tokenizer);
  }
}

TEST(BpeTokenizerTest, IdsAndTextsOfPublishedTokenizersAreTheLibrarys) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "CROSSTALK_DATA is not set";
  for (const char* name : {"gpt2", "qwen2_first9000", "roberta_form_3000"}) {
    SCOPED_TRACE(name);
    const std::string folder = StrCat(data, "/parity5/tokenizers/", name);
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "there is no " << folder;
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(folder, 0);
    ExpectCases(*tokenizer, folder + "/cases.json");
    if (tokenizer->vocab_size() < 10'000) ExpectKeptAndPublished(*tokenizer);  // the largest takes seconds
  }
}

// The double: GPT-2's pattern and the merges as their definitions say, for characters whose class is known.

enum class Class { kLetter, kNumber, kSpace, kOther, kNoText };
struct Character {
  std::string bytes;
  Class kind;
};

// Every kind of white space; letters and marks of several scripts; numbers of all three categories; signs, emoji with
// their joiners, controls; bytes that are part of no character.
std::vector<Character> Characters() {
  std::vector<Character> all;
  const auto add = [&](Class kind, std::initializer_list<std::string_view> characters) {
    for (const std::string_view character : characters) all.push_back({std::string(character), kind});
  };
  add(Class::kLetter, {"a", "e", "s", "t", "h", "n", "d", "ll", "T", "\u00E9", "\u00DF", "\u0416", "\u6F22", "\u05D0",
                       "\u0915", "\uAC00", "\U00010400", "\u02B0"});
  add(Class::kNumber, {"0", "7", "\u0663", "\u00BD", "\u2167", "\u00B2"});
  add(Class::kSpace, {" ", " ", " ", "\n", "\t", "\r", "\v", "\f", "\u0085", "\u00A0", "\u1680", "\u2000", "\u200A",
                      "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"});
  add(Class::kOther, {"'",      "'",          ".",          "-",      "_",      "$",      "\u0301",
                      "\u05B8", "\u093F",     "\u20DD",     "\u180E", "\u200B", "\u200D", "\uFE0F",
                      "\uFEFF", "\U0001F600", "\U0001F1E9", "\x07",   "\u0080", "\uE000", "\uFFFD"});
  add(Class::kNoText, {"\x80", "\xFF", "\xC3", "\xE2\x82", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80"});
  return all;
}

// The characters of one piece that begins at `at`.
size_t PieceEnd(const std::vector<Character>& text, size_t at) {
  const auto is = [&](size_t i, Class kind) { return i < text.size() && text[i].kind == kind; };
  const auto run = [&](size_t i, Class kind) {
    while (is(i, kind)) ++i;
    return i;
  };
  const auto has = [&](size_t i, std::string_view bytes) { return i < text.size() && text[i].bytes == bytes; };
  if (text[at].kind == Class::kNoText) return at + 1;
  if (has(at, "'")) {
    for (const char* one : {"s", "t", "d"}) {
      if (has(at + 1, one)) return at + 2;
    }
    if (has(at + 1, "ll")) return at + 2;
  }
  const size_t word = at + (has(at, " ") ? 1 : 0);
  for (const Class kind : {Class::kLetter, Class::kNumber, Class::kOther}) {
    if (is(word, kind)) return run(word, kind);
  }
  // White space: without its last character where text follows.
  const size_t end = run(at, Class::kSpace);
  const bool text_follows = end < text.size() && text[end].kind != Class::kNoText;
  return text_follows && end - at > 1 ? end - 1 : end;
}

class Double {
 public:
  explicit Double(const Json& model) {
    for (const auto& [piece, id] : model.At("vocab").AsObject())
      ids_[BytesOf(piece)] = static_cast<int32_t>(id.AsInt());
    for (const Json& merge : model.At("merges").AsArray()) {
      ranks_.emplace(std::pair(BytesOf(merge.AsArray()[0].AsString()), BytesOf(merge.AsArray()[1].AsString())),
                     ranks_.size());
    }
  }

  Row Encode(const std::vector<Character>& text) const {
    Row ids;
    for (size_t at = 0, end; at < text.size(); at = end) {
      end = PieceEnd(text, at);
      std::vector<std::string> parts;
      for (size_t i = at; i < end; ++i) {
        for (const char byte : text[i].bytes) parts.emplace_back(1, byte);
      }
      while (text[at].kind != Class::kNoText) {
        size_t best = parts.size(), lowest = ranks_.size();
        for (size_t i = 0; i + 1 < parts.size(); ++i) {
          const auto found = ranks_.find({parts[i], parts[i + 1]});
          if (found != ranks_.end() && found->second < lowest) best = i, lowest = found->second;
        }
        if (best == parts.size()) break;
        parts[best] += parts[best + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      }
      for (const std::string& part : parts) ids.push_back(ids_.at(part));
    }
    return ids;
  }

 private:
  std::map<std::string, int32_t> ids_;
  std::map<std::pair<std::string, std::string>, size_t> ranks_;
};

TEST(BpeTokenizerTest, GeneratedTextsAreCutAsByTheDoubleAndComeBack) {
  Json file = ReadJsonFile(SourceFolder("tiny_added_tokens/tokenizer.json"));
  file.Set("normalizer", nullptr).Set("added_tokens", Json::MakeArray());
  Json splitter = file.At("pre_tokenizer");
  file.Set("pre_tokenizer", splitter.Set("add_prefix_space", false));
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(file.Dump(), "tiny", 0);
  const Double expected(file.At("model"));
  const std::vector<Character> characters = Characters();
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::vector<Character> text;
    std::string bytes;
    for (size_t left = random() % 30; left > 0; --left) {
      text.push_back(characters[random() % characters.size()]);
      // Bytes that follow would make other text of it.
      if (text.size() > 1 && text[text.size() - 2].kind == Class::kNoText && text.back().kind == Class::kNoText) {
        text.pop_back();
      }
    }
    for (const Character& character : text) bytes += character.bytes;
    const std::vector<TokenSpan> spans = tokenizer->EncodeSpans(bytes);
    Row ids;
    int64_t end = 0;
    for (const TokenSpan& span : spans) {
      EXPECT_EQ(span.begin, end);
      end = span.end;
      ids.push_back(span.id);
    }
    EXPECT_EQ(end, std::ssize(bytes));
    ASSERT_EQ(ids, expected.Encode(text)) << Quoted(bytes);
    ASSERT_EQ(tokenizer->Decode(ids), bytes) << Quoted(bytes);
  }
}

// tokenizer.model beside tokenizer.json: the SentencePiece library cuts the same pieces.
TEST(BpeTokenizerTest, LlamasFormIsItsSentencePieceModel) {
  const std::string folder = SourceFolder("llama_form");
  const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(folder, 0),
                                         model = OpenTokenizer(folder + "/tokenizer.model", 0);
  EXPECT_EQ(tokenizer->kind(), "bpe");
  EXPECT_EQ(model->kind(), "sentencepiece");
  EXPECT_EQ(TokenizerDifference(*tokenizer, *model, Compared::kPieces), "");
  const TempDir dir;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
    std::string contents = ReadFile(StrCat(folder, "/", name));
    if (const size_t at = contents.find("\"h e\","); at != std::string::npos) contents.erase(at, 6);
    WriteFileAtomically(dir / name, contents);
  }
  testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData,
                       {"tokenizer.json and tokenizer.model", "name the file to use"});
}

// tokenizer.model alone, as the first Llamas came: every id is a piece's, and a text begins as tokenizer.json has it.
TEST(BpeTokenizerTest, ALlamasSentencePieceModelAddsNoIds) {
  const std::string folder = SourceFolder("llama_form"), begin = R"({"tokenizer_class": "LlamaTokenizer")";
  const PairTemplate after_begin = TemplateOf(*OpenTokenizer(folder, 0), 1);
  const struct {
    const char* model_type;
    std::string config;  // tokenizer_config.json; none: by model_type
    int ids;
    int32_t pad;
    PairTemplate single;
  } kCases[] = {{"llama", "", 620, kNoToken, after_begin},
                {"mistral", "", 620, kNoToken, after_begin},
                {"llama", begin + R"(, "pad_token": "</s>"})", 620, kNoToken, after_begin},
                {"llama",
                 begin + R"(, "add_bos_token": false, "add_eos_token": true, "legacy": false})",
                 620,
                 kNoToken,
                 {{0, kNoToken, 0}, {-1, 2, 0}}},
                {"llama", begin + R"(, "pad_token": "<pad>"})", 621, 620, after_begin}};
  for (const auto& [type, config, ids, pad, single] : kCases) {
    SCOPED_TRACE(StrCat(type, " ", config));
    const TempDir dir;
    std::filesystem::copy(folder + "/tokenizer.model", dir.path());
    WriteFileAtomically(dir / "config.json", StrCat("{\"model_type\": \"", type, "\"}"));
    if (!config.empty()) WriteFileAtomically(dir / "tokenizer_config.json", config);
    if (ids == 621) WriteFileAtomically(dir / "added_tokens.json", R"({"<pad>": 620})");
    std::vector<std::string> remarks;
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(dir.path(), 0, &remarks);
    EXPECT_EQ(Join(remarks, "; "), "");
    EXPECT_EQ(tokenizer->vocab_size(), ids);
    EXPECT_EQ(tokenizer->special_tokens().pad, pad);
    EXPECT_EQ(TemplateOf(*tokenizer, 1), single);
    const Row cut = tokenizer->Encode("the </s> cat");
    EXPECT_EQ(std::count(cut.begin(), cut.end(), 2), 1);
    EXPECT_EQ(TokenizerDifference(*tokenizer, *LoadTokenizer(tokenizer->FileContents(), "kept", 0)), "");
    const TempDir written;
    for (const auto& [name, contents] : tokenizer->PublishedFiles()) WriteFileAtomically(written / name, contents);
    EXPECT_EQ(TokenizerDifference(*tokenizer, *OpenTokenizer(written.path(), 0)), "");
  }
}

TEST(BpeTokenizerTest, ANovelComesBackToTheByte) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "CROSSTALK_DATA is not set";
  const std::string path = StrCat(data, "/novels/Burnett_Lord_1886.txt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no " << path;
  const std::string novel = ReadFile(path);
  for (const char* name : {"tiny_added_tokens", "llama_form"}) {
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(SourceFolder(name), 0);
    const Row ids = tokenizer->Encode(novel);
    EXPECT_EQ(tokenizer->Decode(ids), *name == 't' ? " " + novel : novel) << name;
  }
}

std::string Cut(const SplitRule& rule, const std::string& text) {
  std::vector<PieceRange> pieces;
  MatchMemory memory;
  SplitPattern(rule, "a file: a key").Cut(text, {0, text.size()}, &memory, &pieces);
  std::string cut;
  for (const PieceRange& piece : pieces)
    cut += StrCat(cut.empty() ? "" : "|", text.substr(piece.begin, piece.end - piece.begin));
  return cut;
}

// The library's own examples of its behaviors.
TEST(SplitPatternTest, EachBehaviorCuts) {
  const std::string text = "the-final--countdown";
  const std::pair<SplitBehavior, const char*> rows[] = {{SplitBehavior::kRemoved, "the|final|countdown"},
                                                        {SplitBehavior::kIsolated, "the|-|final|-|-|countdown"},
                                                        {SplitBehavior::kMergedWithPrevious, "the-|final-|-|countdown"},
                                                        {SplitBehavior::kMergedWithNext, "the|-final|-|-countdown"},
                                                        {SplitBehavior::kContiguous, "the|-|final|--|countdown"}};
  for (const auto& [behavior, cut] : rows) {
    EXPECT_EQ(Cut({"-", false, behavior}, text), cut);
    EXPECT_EQ(Cut({"-", true, behavior}, text), cut);
  }
  EXPECT_EQ(Cut({R"(\w+|[^\w\s]+)", false, SplitBehavior::kRemoved, true}, "Hey, you!  _a\u0301"),
            "Hey|,|you|!|_a\u0301");
}

TEST(SplitPatternTest, PatternsMeanWhatTheyMeanToTheLibrary) {
  const struct {
    const char *pattern, *text, *cut;
  } rows[] = {
      {R"(\s+)", "a\u180Eb\u3000c\u200Bd", "a\u180Eb|\u3000|c\u200Bd"},
      {R"([^\s]+)", "a\u180Eb \u00A0c", "a\u180Eb| \u00A0|c"},
      {R"([\Sx]+)", "ab \u2028c", "ab| \u2028|c"},
      {R"(\bx)", "x ax \u0301x _x -x", "x| ax \u0301x _x -|x"},
      {R"([\h]+)", "xAf9g", "x|Af9|g"},
      {R"( ?[^(\s|[.,!?])]+)", "it (is) so.", "it| (|is|)| so|."},  // a class within a class
      {R"((?i:'s|'ll)|\p{N}{1,3})", "A'S'Ll12345", "A|'S|'Ll|123|45"},
      {R"(a{,2}b)", "aaab", "a|aab"},
      {R"(^b)", "ab\nb", "ab\n|b"},
      {R"([]x]+)", "a]xb", "a|]x|b"},
      {R"(\u0061+)", "baab", "b|aa|b"},
      {R"(x*)", "ax\u00E9", "a|x|\u00E9"},
  };
  for (const auto& [pattern, text, cut] : rows) EXPECT_EQ(Cut({pattern}, text), cut) << pattern;
}

TEST(SplitPatternTest, APatternThatCannotBeUsedNamesItself) {
  for (const char* pattern : {"", "(", "[a", "(?m:a)", "[a&&b]", "[[:alpha:]]", "[a[^b]]", "[\\W]", "a{2,3}+",
                              "(*ACCEPT)", "\\C", "a{99999}", "\\u12", "\\p{Nothing}", "\\"}) {
    testing::ExpectError([&] { SplitPattern({pattern}, "a file: a key"); }, ErrorKind::kData,
                         {"a file: a key", pattern});
  }
  testing::ExpectError([] { Cut({"(a+)+(?<!b)$(?!.)"}, std::string(10'000, 'a') + "c"); }, ErrorKind::kData,
                       {"a file: a key", "limit"});
}

TEST(BpeTokenizerTest, WhatIsNotUnderstoodIsRefusedByName) {
  const std::string tiny = ReadFile(SourceFolder("tiny_added_tokens/tokenizer.json")),
                    llama = ReadFile(SourceFolder("llama_form/tokenizer.json"));
  const struct {
    const std::string* file;
    std::string from, to, says;
  } rows[] = {
      {&tiny, R"("dropout":null)", R"("dropout":0.1)", "model.dropout"},
      {&tiny, R"("end_of_word_suffix":"")", R"("end_of_word_suffix":"</w>")", "model.end_of_word_suffix"},
      {&tiny, R"("unk_token":null)", R"("unk_token":"<none>")", "model.unk_token"},
      {&tiny, R"("!":0)", R"("!!":0)", "no piece for the byte 33"},
      {&tiny, R"(["h","e"])", R"(["h","he "])", "model.merges: number 2: the vocabulary has no \"he \""},
      {&tiny, R"(["h","e"])", R"("h e e")", "model.merges: number 2"},
      {&tiny, R"(["h","e"])", "3", "model.merges: number 2"},
      {&tiny, R"("type":"NFC")", R"("type":"Nmt")", "normalizer.type"},
      {&tiny, R"("pre_tokenizer":{"type":"ByteLevel")", R"("pre_tokenizer":{"type":"CharDelimiterSplit")",
       "pre_tokenizer.type"},
      {&tiny, R"("decoder":{"type":"ByteLevel")", R"("decoder":{"type":"WordPiece")", "decoder.type"},
      {&tiny, R"("post_processor":{"type":"ByteLevel")", R"("post_processor":{"type":"Reverse")",
       "post_processor.type"},
      {&tiny, R"("id":597)", R"("id":599)", "added_tokens"},
      {&llama, R"("\u2581c an")", R"("\u2581c  an")", "two pieces"},
      {&llama, R"("<0x41>":68)", R"("<0x4>":68)", "no piece for the byte 65"},
      {&llama, R"("ids":[1])", R"("ids":[1000])", "post_processor: the id 1000"},
      {&llama, R"(,{"Sequence":{"id":"A","type_id":0}}])", "]", "post_processor: its form of 1 text"},
      {&llama, R"("stop":0)", R"("stop":1)", "decoder: content"},
  };
  for (const auto& [file, from, to, says] : rows) {
    const size_t at = file->find(from);
    ASSERT_NE(at, std::string::npos) << from;
    const std::string changed = file->substr(0, at) + to + file->substr(at + from.size());
    testing::ExpectError([&] { LoadTokenizer(changed, "that.json", 0); }, ErrorKind::kData, {"that.json", says});
  }
}

// vocab.json and merges.txt are the same tokenizer as tokenizer.json; each class has its own pattern and special
// tokens.
TEST(BpeTokenizerTest, AVocabularyWithItsMergesIsReadAsItsClassSays) {
  const Json model = ReadJsonFile(SourceFolder("tiny_added_tokens/tokenizer.json")).At("model");
  Json vocabulary = model.At("vocab");
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : model.At("merges").AsArray()) {
    merges += StrCat(merge.AsArray()[0].AsString(), " ", merge.AsArray()[1].AsString(), "\n");
  }
  for (const char* text : {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"}) {
    vocabulary.Set(text, std::ssize(vocabulary.AsObject()));
  }
  const TempDir dir;
  WriteFileAtomically(dir / "vocab.json", vocabulary.Dump());
  testing::ExpectError([&] { OpenTokenizer(dir.path(), 0); }, ErrorKind::kData, {"merges.txt: cannot open"});
  WriteFileAtomically(dir / "merges.txt", merges);
  const auto open = [&](const std::string& config) {
    WriteFileAtomically(dir / "tokenizer_config.json", config);
    const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(dir.path(), 0);
    ExpectKeptAndPublished(*tokenizer);
    EXPECT_EQ(TokenizerDifference(*tokenizer, *OpenTokenizer(dir / "merges.txt", 0)), "");
    return tokenizer;
  };
  const auto with_specials = [](const Tokenizer& tokenizer, const char* text) {
    std::string tokens;
    for (const EncodedPair::Token& token : EncodePair(tokenizer, text).tokens) {
      tokens += StrCat(tokens.empty() ? "" : " ", tokenizer.TokenText(token.id));
    }
    return tokens;
  };
  const auto gpt2 = open(R"({"tokenizer_class": "GPT2Tokenizer"})");
  EXPECT_EQ(with_specials(*gpt2, "the 12<|endoftext|>e\u0301"), "t he \u01201 2 <|endoftext|> e \u00CC \u0123");
  EXPECT_EQ(gpt2->special_tokens(),
            (SpecialTokens{.pad = kNoToken, .end = 596, .unknown = kNoToken, .decoder_start = kNoToken, .begin = 596}));
  EXPECT_EQ(with_specials(*open(R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})"), "the"),
            "\u0120the");
  const auto roberta = open(R"({"tokenizer_class": "RobertaTokenizer"})");
  EXPECT_EQ(with_specials(*roberta, "the  <mask> he"), "<s> t he <mask> \u0120he </s>");
  EXPECT_EQ(
      roberta->special_tokens(),
      (SpecialTokens{
          .pad = 599, .end = 598, .unknown = 600, .decoder_start = 599, .begin = 597, .separator = 598, .mask = 601}));
  EXPECT_EQ(with_specials(*open(R"({"tokenizer_class": "Qwen2Tokenizer"})"), " 12 e\u0301"),
            "\u0120 1 2 \u0120 \u00C3 \u00A9");
  testing::ExpectError([&] { open(R"({"tokenizer_class": "T5Tokenizer"})"); }, ErrorKind::kData,
                       {"T5Tokenizer", "vocab.json"});
  WriteFileAtomically(dir / "merges.txt", merges + "x y z\n");
  testing::ExpectError([&] { open("{}"); }, ErrorKind::kData, {"merges.txt: line 342", "x y z"});
}

}  // namespace crosstalk::bpe_tokenizer_test
