#include "crosstalk/models/text/sentencepiece_tokenizer.h"

#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/crafted_model.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/messages.h"
#include "tests/support/thread_limit.h"

namespace crosstalk::sentencepiece_tokenizer_test {

const std::string& TrainedModel() {
  static const std::string model = [] {
    return TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  }();
  return model;
}

TEST(SentencePieceTokenizerTest, TextIsSpelledInFewPiecesAndWhatWasNeverShownInBytes) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(TrainedModel(), "trained");
  EXPECT_TRUE(tokenizer->vocab_size() > 400 && tokenizer->vocab_size() <= 800) << tokenizer->vocab_size();
  const std::string text = "Agnes was a baker from Ashford. She kept ten red boxes.";
  const std::vector<int32_t> ids = tokenizer->Encode(text);
  EXPECT_EQ(tokenizer->Decode(ids), text);
  EXPECT_LT(ids.size(), text.size() / 2);
  for (const int32_t id : ids)
    EXPECT_TRUE(id > tokenizer->special_tokens().unknown && !tokenizer->IsSentinel(id)) << id;
  const std::string strange = "\xE6\x97\xA5 caf\xC3\xA9 \xF0\x9F\x99\x82";
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(strange)), strange);
  EXPECT_TRUE(tokenizer->Encode("").empty());
}

TEST(SentencePieceTokenizerTest, PiecesBeginWordsAsInAlbert) {
  // Those that begin a word with | in front.
  const std::string pieces = "|\u2581on ce x-Ray b.c |, |'s |1 |ab2 |' |\u00e9t --";
  std::string more;
  std::vector<int32_t> ids;
  std::vector<bool> starts;
  for (const std::string& piece : crosstalk::Split(pieces, ' ')) {
    ids.push_back(5 + static_cast<int32_t>(ids.size()));
    starts.push_back(piece[0] == '|');
    more += Piece(piece.substr(starts.back() ? 1 : 0), -3, 1);
  }
  const auto first_byte = 5 + static_cast<int32_t>(ids.size());
  for (int byte = 0; byte < 256; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    more += Piece(piece, 0, 6);
  }
  more += ProtoField(2, Number(35, 1));
  const int32_t sentinel = first_byte + 256;
  ids.insert(ids.end(), {3, 2, first_byte + 0xE6, first_byte + 0x97, 3, 0, 3, sentinel, 3});
  starts.insert(starts.end(), {false, true, true, false, false, true, true, true, true});
  EXPECT_EQ(LoadTokenizer(SmallModel(more), "crafted", 2)->WordStarts(ids), starts);
}

TEST(SentencePieceTokenizerTest, SpansCoverTheText) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(TrainedModel(), "trained");
  const std::string text = WriteStory(2, 5, 2000).text;
  const std::vector<TokenSpan> spans = tokenizer->EncodeSpans(text);
  const std::vector<int32_t> ids = tokenizer->Encode(text);
  ASSERT_EQ(spans.size(), ids.size());
  int64_t covered = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].id, ids[i]);
    EXPECT_GE(spans[i].begin, covered);
    EXPECT_GE(spans[i].end, spans[i].begin);
    for (int64_t k = covered; k < spans[i].begin; ++k) EXPECT_TRUE(text[k] == ' ' || text[k] == '\n') << k;
    covered = spans[i].end;
  }
  EXPECT_EQ(covered, static_cast<int64_t>(text.size()));
}

TEST(SentencePieceTokenizerTest, TrainingIsDeterministicAndSilentInAnyLocale) {
  const testing::DecimalCommaScope comma;
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  const std::string again = TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  EXPECT_THROW(LoadTokenizer("not a model", "x"), Error);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(again, TrainedModel());
}

TEST(SentencePieceTokenizerTest, TrainingRefusesWhatItCannotDo) {
  const auto nothing = [](std::string*) { return false; };
  EXPECT_THROW(TrainSentencePieceModel({100, 1000}, nothing), Error);
  testing::MessageOf([&] { TrainSentencePieceModel({1000, 1000}, nothing); }, ErrorKind::kData);
  // 2,000 different letters do not fit a vocabulary of 320; how many there are is said in digits in every country.
  const auto refused = [] {
    int left = 1;
    return testing::MessageOf([&] {
      TrainSentencePieceModel({320, 100'000}, [&](std::string* text) {
        for (int i = 0; i < 2000; ++i) {
          const int letter = 0x4E00 + i;
          for (const int byte : {0xE0 | letter >> 12, 0x80 | (letter >> 6 & 63), 0x80 | (letter & 63)}) {
            text->push_back(static_cast<char>(byte));
          }
          if (i % 7 == 0) text->push_back(' ');
        }
        return left-- > 0;
      });
    });
  };
  const std::string message = refused();
  EXPECT_TRUE(message.starts_with("vocabulary: 320 is too small") && testing::Contains(message, " are 22")) << message;
  const testing::DecimalCommaScope comma;
  EXPECT_EQ(refused(), message);
}

TEST(SentencePieceTokenizerTest, WhereTheSystemGivesNoThreadTrainingSaysSo) {
  const std::string text = WriteStory(1, 0, 20'000).text;
  for (const int threads : {0, 1}) {  // the library takes one of its own, beside ours
    bool given = false;
    const testing::ThreadLimitScope limit(threads);
    testing::ExpectError(
        [&] {
          TrainSentencePieceModel(
              {400, 20'000}, [&](std::string* segment) { return *segment = text, !std::exchange(given, true); },
              [] { return false; });
        },
        ErrorKind::kResource, {"SentencePiece: cannot start a thread"});
  }
}

// ---- malformed models ----

// Loads and, if that goes well, uses it. The point is that the process survives.
bool Survives(const std::string& model) {
  try {
    const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(model, "crafted");
    const std::string text = "The \xC3\xA9\xEF\xBC\xA1 old boats sing slowly at Fernhill, said Agnes.";
    tokenizer->Decode(tokenizer->Encode(text));
    tokenizer->EncodeSpans(text);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kFailure) << error.what();
    return false;
  }
}

TEST(SentencePieceTokenizerTest, ATruncatedModelIsRefusedAndAFlippedBitNeverCrashes) {
  const std::string& model = TrainedModel();
  ASSERT_TRUE(Survives(model));
  for (size_t size = 0; size < model.size(); size += size < 600 ? 1 : model.size() / 150) {
    EXPECT_FALSE(Survives(model.substr(0, size)));  // the trainer's and normaliser's part, at the end, are needed
  }
  for (int i = 0; i < 400; ++i) {
    std::string bad = model;
    const uint64_t bit = UniformInt({1, StreamId("tokenizer_test"), 0}, i, bad.size() * 8);
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    Survives(bad);
  }
}

TEST(SentencePieceTokenizerTest, CraftedModelsAreRefusedWithTheirName) {
  ASSERT_TRUE(Survives(SmallModel()));
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::string zeros(1024, '\0'), nul(1, '\0');
  std::string leaf = zeros, outside = zeros;
  leaf.replace(0, 2, "\x10\x01");  // unit 0 is its own leaf: value 0x110, beyond the one byte of text
  outside[2] = 4;                  // unit 0 leads to unit 256, the first that is not there
  const std::pair<const char*, std::string> cases[] = {
      {"a piece of 200 kB", SmallModel(Piece(std::string(200'000, 'x'), -3, 1))},
      {"an empty piece", SmallModel(Piece("", -3, 1))},
      {"a piece twice", SmallModel(Piece("a", -3, 1))},
      {"two unknown pieces", SmallModel(Piece("<unk2>", 0, 2))},
      {"a piece of type 9", SmallModel(Piece("b", -3, 9))},
      {"a score that is NaN", SmallModel(Piece("b", kNaN, 1))},
      {"an infinite score", SmallModel(Piece("b", kInfinity, 1))},
      {"a piece that is not UTF-8", SmallModel(Piece("\xFF", -3, 1))},
      {"a piece with a NUL", SmallModel(Piece(std::string("b\0c", 3), -3, 1))},
      {"a word model", SmallModel(ProtoField(2, Number(3, 3)))},
      {"a charsmap of 1 byte", SmallModel("", ProtoField(2, "x"))},
      {"a charsmap whose trie is longer than it", SmallModel("", CharsMap(1 << 20, zeros, "a"))},
      {"a charsmap whose trie is cut in a block", SmallModel("", CharsMap(1000, zeros, "a"))},
      {"a charsmap without an end", SmallModel("", CharsMap(1024, zeros, "abc"))},
      {"a charsmap whose text is outside", SmallModel("", CharsMap(1024, leaf, nul))},
      {"a charsmap that leads outside", SmallModel("", CharsMap(1024, outside, nul))},
      {"a group", SmallModel("\x0B")},
      {"field number 0", SmallModel(std::string("\x02\x00", 2))},
      {"a length beyond the end", SmallModel() + "\x0A\x7F"},
      {"an endless number", SmallModel() + "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"},
      {"a piece whose text is a number", SmallModel(ProtoField(1, Number(1, 5)))},
      {"only pieces", Piece("a", 0, 1)},
      {"no bytes", ""},
      {"text", "Agnes was a baker from Ashford."},
      {"padding that is the end as well", SmallModel(ProtoField(2, ProtoField(47, "<pad>")))},
      {"padding that is the beginning as well", SmallModel(ProtoField(2, ProtoField(46, "<pad>")))},
  };
  for (const auto& [what, model] : cases) {
    SCOPED_TRACE(what);
    testing::ExpectError([bytes = model] { MakeSentencePieceTokenizer({.bytes = bytes}, "crafted.model"); },
                         ErrorKind::kData, {"crafted.model"});
  }
}

// ---- models with other special tokens ----

// A model's special tokens, how many ids come before its sentinels, and a text that it can spell.
struct SpecialCase {
  std::string name;
  SpecialTokens special;
  int text_ids;
  std::string text;
};

// All that follows from the special tokens.
void ExpectSpecialTokens(const std::string& model, SpecialCase expected) {
  constexpr int kSentinels = 10;
  SCOPED_TRACE(expected.name);
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(model, expected.name);
  const SpecialTokens& special = tokenizer->special_tokens();
  expected.special.decoder_start = expected.special.pad;
  EXPECT_EQ(special, expected.special);
  EXPECT_EQ(MakeSentencePieceTokenizer({.bytes = model}, "x", kSentinels)->vocab_size(),
            expected.text_ids + kSentinels);
  EXPECT_EQ(tokenizer->vocab_size(), expected.text_ids + kDefaultSentinels);
  EXPECT_EQ(tokenizer->Sentinel(kDefaultSentinels - 1), expected.text_ids);
  const std::vector<int32_t> ids = tokenizer->Encode(expected.text);
  const std::set<int32_t> others = {special.pad,   special.end,       special.unknown,
                                    special.begin, special.separator, special.mask};
  ASSERT_FALSE(ids.empty());
  for (const int32_t id : ids) EXPECT_TRUE(!tokenizer->IsSentinel(id) && !others.contains(id)) << id;
  EXPECT_EQ(tokenizer->Decode(ids), expected.text);
  // In no place does a special token leave a trace.
  for (const int32_t id : others) {
    if (id == kNoToken || id == special.unknown) continue;
    EXPECT_FALSE(tokenizer->IsSentinel(id));
    std::vector<int32_t> more = ids;
    more.insert(more.begin(), id);
    more.push_back(id);
    EXPECT_EQ(tokenizer->Decode(more), expected.text) << id;
  }
  std::vector<int32_t> target = {tokenizer->Sentinel(0)};
  target.insert(target.end(), ids.begin(), ids.end());
  target.push_back(special.end);
  EXPECT_EQ(tokenizer->Decode(target), "<extra_id_0> " + expected.text);
  EXPECT_EQ(tokenizer->EncodeSpans(expected.text).size(), ids.size());
}

TEST(SentencePieceTokenizerTest, SpecialTokensAreTheModelsOwnAndMissingOnesAreAdded) {
  const std::string a = Piece("a", -1, 1) + Piece("\xE2\x96\x81", -2, 1), unk = Piece("<unk>", 0, 2);
  const auto control = [](const char* name) { return Piece(name, 0, 3); };
  const std::string names = ProtoField(46, "<start>") + ProtoField(47, "<stop>") + ProtoField(48, "<fill>");
  ExpectSpecialTokens(SmallModel(), {"T5", {}, 5, "a"});
  for (const int type : {1, 2}) {  // unigram and BPE
    const auto expect = [&](const std::string& pieces, const std::string& trainer, SpecialCase expected) {
      expected.name += StrCat(", type ", type);
      expected.text = "a";
      ExpectSpecialTokens(pieces + ProtoField(2, Number(3, type) + trainer), expected);
    };
    expect(unk + a, "", {"no pad and no end", {.pad = 3, .end = 4, .unknown = 0}, 5});
    expect(unk + control("<s>") + control("</s>") + a, "",
           {"no pad", {.pad = 5, .end = 2, .unknown = 0, .begin = 1}, 6});
    expect(a + control("</s>") + control("<pad>") + unk, "", {"last", {.pad = 3, .end = 2, .unknown = 4}, 5});
    expect(control("[PAD]") + Piece("[UNK]", 0, 2) + control("[CLS]") + control("[SEP]") + control("[MASK]") + a, "",
           {"BERT's names", {.pad = 0, .end = 3, .unknown = 1, .begin = 2, .separator = 3, .mask = 4}, 7});
    expect(a + unk + control("<start>") + control("<stop>") + control("<fill>"), names,
           {"the trainer's names", {.pad = 5, .end = 4, .unknown = 2, .begin = 3}, 6});
    // Pieces that text can become are no special tokens, whatever their names.
    expect(unk + Piece("</s>", -3, 1) + Piece("[MASK]", 0, 4) + a, "",
           {"text with these names", {.pad = 5, .end = 6, .unknown = 0}, 7});
  }
}

TEST(SentencePieceTokenizerTest, PublishedModelsAreRead) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  const char* const english = "I was born in the year nineteen hundred and two.";
  const SpecialTokens defaults = {.pad = 1000, .end = 2, .unknown = 0, .begin = 1};
  const SpecialCase models[] = {
      {"albert/spiece.model",
       {.pad = 0, .end = 3, .unknown = 1, .begin = 2, .separator = 3, .mask = 4},
       30000,
       "i was born in the year 1902, in a small town (near paris)."},
      {"hf_transformers/test_sentencepiece.model", defaults, 1001, english},
      {"hf_transformers/test_sentencepiece_bpe.model", defaults, 1001, english},
      {"hf_transformers/test_sentencepiece_no_bos.model", {.pad = 1000, .end = 1, .unknown = 2}, 1001, english},
      {"sentencepiece/test_model.model", defaults, 1001, english},
      {"sentencepiece/test_ja_model.model",
       {.pad = 8000, .end = 2, .unknown = 0, .begin = 1},
       8001,
       "私は東京で生まれた"},
  };
  int read = 0;
  for (const SpecialCase& model : models) {
    const std::string path = StrCat(data, "/fixtures/", model.name);
    if (!std::filesystem::exists(path)) continue;
    ExpectSpecialTokens(ReadFile(path), model);
    ++read;
  }
  if (read == 0) GTEST_SKIP() << "there are no SentencePiece models in " << data << "/fixtures";
}

TEST(SentencePieceTrainingTest, KeptLineEndsComeBack) {
  int rest = 40;
  const auto lines = [&](std::string* text) {
    *text = "The cat sat on the mat.\nA dog ran to the cat.\n\nThe end of the day came late.\n";
    return rest-- > 0;
  };
  const std::string model =
      TrainSentencePieceModel({.vocab_size = 380, .max_sample_bytes = 10'000, .line_ends = LineEnds::kKept}, lines);
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(model, "x", 0);
  EXPECT_EQ(tokenizer->num_sentinels(), 0);
  const std::string text = "The dog sat.\n\nThe cat ran\nto the end.";
  const std::vector<int32_t> ids = tokenizer->Encode(text);
  EXPECT_EQ(tokenizer->Decode(ids), text);
  // A word at the beginning of a line is not spelled letter by letter.
  EXPECT_EQ(tokenizer->Encode("The dog sat.\r\n\r\nThe cat ran\r\nto the end."), ids);
  // A line's first word is that within a line.
  const std::vector<int32_t> within = tokenizer->Encode("ran The"), first = tokenizer->Encode("ran\nThe");
  ASSERT_EQ(first.size(), within.size() + 1);
  EXPECT_EQ(first.back(), within.back());
  // Bytes are those of the text as it is.
  std::string again;
  for (const TokenSpan& span : tokenizer->EncodeSpans(text)) {
    EXPECT_EQ(span.begin, static_cast<int64_t>(again.size()));
    again += text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
  }
  EXPECT_EQ(again, text);
}

// What the SentencePiece library cannot bear is refused before it sees it; what it just bears is not.

// Passes the check, and then is used on a long run of the letter that it is about.
void ExpectUsable(const std::string& model) {
  const std::shared_ptr<const Tokenizer> tokenizer = LoadTokenizer(model, "crafted.model");
  EXPECT_GT(tokenizer->Encode(std::string(500, 'a')).size(), 0u);
  EXPECT_GT(tokenizer->EncodeSpans(std::string(500, 'a') + " b").size(), 0u);
}

std::string UserDefined(int count) {
  std::string pieces;
  for (int i = 2; i < count + 2; ++i) pieces += Piece(std::string(i, 'a'), 0, 4);
  return SmallModel(pieces);
}

std::string NestedRules(int rules, const std::string& text, int on_to) {
  return SmallModel("", NestedTable('a', rules, text, on_to));
}

std::string SelfTests(size_t size, int count) {
  std::string samples;
  for (int i = 0; i < count; ++i) {
    samples += ProtoField(1, ProtoField(1, std::string(size, 'a')) + ProtoField(2, "a"));
  }
  return SmallModel() + ProtoField(4, samples);
}

TEST(SentencePieceModelCheckTest, WhatTheLibraryJustBearsIsUsable) {
  ExpectUsable(UserDefined(64));
  std::string pieces;  // any number of them side by side
  for (int i = 0; i < 500; ++i) pieces += Piece("a" + std::to_string(1000 + i), 0, 4);
  ExpectUsable(SmallModel(pieces));
  ExpectUsable(NestedRules(32, "b", 32));
  ExpectUsable(NestedRules(1, std::string(128, 'a'), 1));
  CheckSentencePieceModel(SelfTests(4096, 200), "fine");
}

TEST(SentencePieceModelCheckTest, WhatItDoesNotBearIsRefused) {
  testing::ExpectRefused<std::string>(
      {{"65 nested pieces", UserDefined(65), {"65 user-defined pieces begin with one another"}},
       {"33 nested rules", NestedRules(33, "b", 33), {"more than 32 rules for one place of a text"}},
       {"a rule to itself", NestedRules(3, "b", 0), {"leads back to where it was"}},
       {"a text of 129", NestedRules(1, std::string(129, 'a'), 1), {"a replacement of 129"}},
       {"a text of a megabyte", NestedRules(1, std::string(1 << 20, 'a'), 1), {"a replacement of 1048576"}},
       {"a long self-test", SelfTests(4097, 1), {"4097 bytes"}},
       {"many self-tests", SelfTests(4096, 300), {"bytes of samples"}}},
      [](const std::string& model) { CheckSentencePieceModel(model, "crafted.model"); }, ErrorKind::kData);
}

TEST(SentencePieceModelCheckTest, AFileThatIsTooLargeIsNotRead) {
  testing::ExpectError([] { LoadTokenizerFile("/dev/zero"); }, ErrorKind::kData, {"/dev/zero"});
}

}  // namespace crosstalk::sentencepiece_tokenizer_test
