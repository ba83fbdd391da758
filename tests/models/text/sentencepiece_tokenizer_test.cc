#include "crosstalk/models/text/sentencepiece_tokenizer.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/models/text/sentencepiece_model.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/crafted_model.h"
#include "tests/support/decimal_comma.h"
#include "tests/support/messages.h"
#include "tests/support/thread_limit.h"

namespace crosstalk {
namespace sentencepiece_tokenizer_test {

const std::string& TrainedModel() {
  static const std::string model = [] {
    return TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  }();
  return model;
}

TEST(SentencePieceTokenizerTest, HasTheSpecialIdsAndSentinelsOfT5) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(TrainedModel(), "trained");
  EXPECT_LE(tokenizer->vocab_size(), 800);
  EXPECT_GT(tokenizer->vocab_size(), 400);
  EXPECT_EQ(tokenizer->Sentinel(0), tokenizer->vocab_size() - 1);
  const std::string text = "Agnes was a baker from Ashford. She kept ten red boxes.";
  const std::vector<int32_t> ids = tokenizer->Encode(text);
  EXPECT_EQ(tokenizer->Decode(ids), text);
  EXPECT_LT(ids.size(), text.size() / 2);
  for (const int32_t id : ids) {
    EXPECT_GT(id, tokenizer->special_tokens().unknown);
    EXPECT_FALSE(tokenizer->IsSentinel(id));
  }
  // Characters that it was never shown are spelled in bytes, so that nothing is unknown.
  const std::string strange = "\xE6\x97\xA5 caf\xC3\xA9 \xF0\x9F\x99\x82";
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(strange)), strange);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{tokenizer->Sentinel(0), ids[0], 1, 0}), "<extra_id_0> Agnes");
  EXPECT_TRUE(tokenizer->Encode("").empty());
}

TEST(SentencePieceTokenizerTest, PiecesBeginWordsAsInAlbert) {
  const std::vector<std::pair<std::string, bool>> pieces = {
      {"\u2581on", true}, {"ce", false}, {"x-Ray", false}, {"b.c", false},    {",", true},  {"'s", true},
      {"1", true},        {"ab2", true}, {"'", true},      {"\u00e9t", true}, {"--", false}};
  std::string more;
  std::vector<int32_t> ids;
  std::vector<bool> starts;
  for (const auto& [piece, starts_word] : pieces) {
    ids.push_back(5 + static_cast<int32_t>(ids.size()));
    starts.push_back(starts_word);
    more += Piece(piece, -3, 1);
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
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(TrainedModel(), "trained");
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

TEST(SentencePieceTokenizerTest, TrainingIsDeterministicAndSilent) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  const std::string again = TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  EXPECT_THROW(LoadTokenizer("not a model", "x"), Error);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(again, TrainedModel());
}

TEST(SentencePieceTokenizerTest, TrainingDoesNotAskTheHostsLocale) {
  const testing::DecimalCommaScope comma;
  EXPECT_EQ(TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents(), TrainedModel());
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
    const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(model, "crafted");
    const std::string text = "The \xC3\xA9\xEF\xBC\xA1 old boats sing slowly at Fernhill, said Agnes.";
    tokenizer->Decode(tokenizer->Encode(text));
    tokenizer->EncodeSpans(text);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kData || error.kind() == ErrorKind::kFailure) << error.what();
    return false;
  }
}

TEST(SentencePieceTokenizerTest, ATruncatedModelIsRefusedOrUsable) {
  const std::string& model = TrainedModel();
  ASSERT_TRUE(Survives(model));
  int accepted = 0;
  for (size_t size = 0; size < model.size(); size += size < 600 ? 1 : model.size() / 150) {
    accepted += Survives(model.substr(0, size));
  }
  EXPECT_EQ(accepted, 0);  // the trainer's and normaliser's part, at the end, are needed
}

TEST(SentencePieceTokenizerTest, AFlippedBitNeverCrashes) {
  const std::string& model = TrainedModel();
  const RandomKey key{1, StreamId("tokenizer_test"), 0};
  const int trials = 400;
  for (int i = 0; i < trials; ++i) {
    std::string bad = model;
    const uint64_t bit = UniformInt(key, i, bad.size() * 8);
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    Survives(bad);
  }
}

TEST(SentencePieceTokenizerTest, CraftedModelsAreRefusedWithTheirName) {
  ASSERT_TRUE(Survives(SmallModel()));
  const float infinity = std::numeric_limits<float>::infinity();
  std::string leaf(1024, '\0');  // unit 0 has a leaf whose text lies far outside
  leaf[1] = 0x01;
  std::string outside(1024, '\0');  // unit 0 leads to unit 2^21
  outside[3] = 0x7F;
  const std::string no_end = CharsMap(1024, std::string(1024, '\0'), "abc");
  const std::pair<const char*, std::string> cases[] = {
      {"a piece of 200 kB", SmallModel(Piece(std::string(200'000, 'x'), -3, 1))},
      {"an empty piece", SmallModel(Piece("", -3, 1))},
      {"a piece twice", SmallModel(Piece("a", -3, 1))},
      {"two unknown pieces", SmallModel(Piece("<unk2>", 0, 2))},
      {"a piece of type 9", SmallModel(Piece("b", -3, 9))},
      {"a score that is NaN", SmallModel(Piece("b", std::numeric_limits<float>::quiet_NaN(), 1))},
      {"an infinite score", SmallModel(Piece("b", infinity, 1))},
      {"a piece that is not UTF-8", SmallModel(Piece("\xFF", -3, 1))},
      {"a piece with a NUL", SmallModel(Piece(std::string("b\0c", 3), -3, 1))},
      {"a word model", SmallModel(ProtoField(2, Number(3, 3)))},
      {"a charsmap of 1 byte", SmallModel("", ProtoField(2, "x"))},
      {"a charsmap whose trie is longer than it", SmallModel("", CharsMap(1 << 20, std::string(1024, '\0'), "a"))},
      {"a charsmap whose trie is cut in a block", SmallModel("", CharsMap(1000, std::string(1024, '\0'), "a"))},
      {"a charsmap without an end", SmallModel("", no_end)},
      {"a charsmap whose text is outside",
       SmallModel("", CharsMap(1024, [&] {
                    std::string trie = leaf;
                    trie[0] = 0x10;  // the unit is its own leaf: value 0x110, beyond the one byte of text
                    return trie;
                  }(), std::string(1, '\0')))},
      {"a charsmap that leads outside", SmallModel("", CharsMap(1024, outside, std::string(1, '\0')))},
      {"a group", SmallModel(std::string("\x0B", 1))},
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
    testing::ExpectError([&] { MakeSentencePieceTokenizer({.bytes = model}, "crafted.model"); }, ErrorKind::kData,
                         {"crafted.model"});
  }
}

// ---- models with other special tokens ----

constexpr int kSentinels = 10;

// Checks everything that follows from the special tokens, and the round trip of `text`, which the model can spell.
void CheckSpecialTokens(const std::string& model, const std::string& name, const SpecialTokens& expected, int text_ids,
                        const std::string& text) {
  SCOPED_TRACE(name);
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(model, name);
  const SpecialTokens& special = tokenizer->special_tokens();
  EXPECT_EQ(special.pad, expected.pad);
  EXPECT_EQ(special.end, expected.end);
  EXPECT_EQ(special.unknown, expected.unknown);
  EXPECT_EQ(special.decoder_start, expected.pad);
  EXPECT_EQ(special.begin, expected.begin);
  EXPECT_EQ(special.separator, expected.separator);
  EXPECT_EQ(special.mask, expected.mask);
  EXPECT_EQ(MakeSentencePieceTokenizer({.bytes = model}, name, kSentinels)->vocab_size(), text_ids + kSentinels);
  EXPECT_EQ(tokenizer->vocab_size(), text_ids + kDefaultSentinels);
  EXPECT_EQ(tokenizer->Sentinel(kDefaultSentinels - 1), text_ids);

  const std::vector<int32_t> ids = tokenizer->Encode(text);
  ASSERT_FALSE(ids.empty());
  for (const int32_t id : ids) {
    EXPECT_FALSE(tokenizer->IsSentinel(id));
    for (const int32_t other :
         {special.pad, special.end, special.unknown, special.begin, special.separator, special.mask}) {
      EXPECT_NE(id, other);
    }
  }
  EXPECT_EQ(tokenizer->Decode(ids), text);
  // In no place does a special token leave a trace.
  for (const int32_t id : {special.pad, special.end, special.begin, special.separator, special.mask}) {
    if (id == kNoToken) continue;
    EXPECT_FALSE(tokenizer->IsSentinel(id));
    std::vector<int32_t> more = ids;
    more.insert(more.begin(), id);
    more.push_back(id);
    EXPECT_EQ(tokenizer->Decode(more), text) << id;
  }
  std::vector<int32_t> target = {tokenizer->Sentinel(0)};
  target.insert(target.end(), ids.begin(), ids.end());
  target.push_back(special.end);
  EXPECT_EQ(tokenizer->Decode(target), "<extra_id_0> " + text);
  EXPECT_EQ(tokenizer->EncodeSpans(text).size(), ids.size());
}

TEST(SentencePieceTokenizerTest, SpecialTokensAreTheModelsOwnAndMissingOnesAreAdded) {
  const std::string letters = Piece("a", -1, 1) + Piece("\xE2\x96\x81", -2, 1);
  const std::string unigram = ProtoField(2, Number(3, 1));
  CheckSpecialTokens(SmallModel(), "T5", {}, 5, "a");
  CheckSpecialTokens(Piece("<unk>", 0, 2) + letters + unigram, "no pad and no end", {.pad = 3, .end = 4, .unknown = 0},
                     5, "a");
  CheckSpecialTokens(Piece("<unk>", 0, 2) + Piece("<s>", 0, 3) + Piece("</s>", 0, 3) + letters + unigram, "no pad",
                     {.pad = 5, .end = 2, .unknown = 0, .begin = 1}, 6, "a");
  CheckSpecialTokens(letters + Piece("</s>", 0, 3) + Piece("<pad>", 0, 3) + Piece("<unk>", 0, 2) + unigram,
                     "special tokens last", {.pad = 3, .end = 2, .unknown = 4}, 5, "a");
  CheckSpecialTokens(Piece("[PAD]", 0, 3) + Piece("[UNK]", 0, 2) + Piece("[CLS]", 0, 3) + Piece("[SEP]", 0, 3) +
                         Piece("[MASK]", 0, 3) + letters + unigram,
                     "BERT's names", {.pad = 0, .end = 3, .unknown = 1, .begin = 2, .separator = 3, .mask = 4}, 7, "a");
  CheckSpecialTokens(
      letters + Piece("<unk>", 0, 2) + Piece("<start>", 0, 3) + Piece("<stop>", 0, 3) + Piece("<fill>", 0, 3) +
          ProtoField(2, Number(3, 1) + ProtoField(46, "<start>") + ProtoField(47, "<stop>") + ProtoField(48, "<fill>")),
      "the trainer's names", {.pad = 5, .end = 4, .unknown = 2, .begin = 3}, 6, "a");
  // Pieces that text can become are no special tokens, whatever their names.
  CheckSpecialTokens(Piece("<unk>", 0, 2) + Piece("</s>", -3, 1) + Piece("[MASK]", 0, 4) + letters + unigram,
                     "text with these names", {.pad = 5, .end = 6, .unknown = 0}, 7, "a");
}

// The pieces of `text` that the trainer takes one after the other.
class Pieces : public sentencepiece::SentenceIterator {
 public:
  explicit Pieces(const std::string& text) : text_(text) { Next(); }
  bool done() const override { return piece_.empty(); }
  void Next() override {
    piece_ = text_.substr(at_, 500);
    at_ += piece_.size();
  }
  const std::string& value() const override { return piece_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::string& text_;
  size_t at_ = 0;
  std::string piece_;
};

TEST(SentencePieceTokenizerTest, ModelsTrainedWithOtherIdsAreRead) {
  const std::string text = WriteStory(1, 0, 60'000).text;
  const auto train = [&](std::unordered_map<std::string, std::string> arguments) {
    arguments.insert({{"vocab_size", "300"}, {"hard_vocab_limit", "false"}, {"minloglevel", "4"}});
    std::string model;
    Pieces sentences(text);
    const sentencepiece::util::Status status =
        sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &model);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return model;
  };
  const auto pieces = [](const std::string& model) {
    sentencepiece::SentencePieceProcessor processor;
    EXPECT_TRUE(processor.LoadFromSerializedProto(model).ok());
    return processor.GetPieceSize();
  };
  const std::string sentence = "Agnes was a baker from Ashford.";
  for (const char* type : {"unigram", "bpe"}) {
    SCOPED_TRACE(type);
    std::string model = train({{"model_type", type}});  // the library's defaults: no pad
    const int count = pieces(model);
    CheckSpecialTokens(model, "defaults", {.pad = count, .end = 2, .unknown = 0, .begin = 1}, count + 1, sentence);
    model = train({{"model_type", type}, {"bos_id", "-1"}, {"eos_id", "-1"}});
    CheckSpecialTokens(model, "neither", {.pad = pieces(model), .end = pieces(model) + 1, .unknown = 0},
                       pieces(model) + 2, sentence);
    model = train({{"model_type", type}, {"unk_id", "3"}, {"bos_id", "0"}, {"eos_id", "1"}, {"pad_id", "2"}});
    CheckSpecialTokens(model, "all four", {.pad = 2, .end = 1, .unknown = 3, .begin = 0}, pieces(model), sentence);
    model = train({{"model_type", type},
                   {"pad_id", "0"},
                   {"unk_id", "1"},
                   {"bos_id", "-1"},
                   {"eos_id", "-1"},
                   {"control_symbols", "[CLS],[SEP],[MASK]"}});
    CheckSpecialTokens(model, "ALBERT's", {.pad = 0, .end = 3, .unknown = 1, .begin = 2, .separator = 3, .mask = 4},
                       pieces(model), sentence);
  }
}

TEST(SentencePieceTokenizerTest, PublishedModelsAreRead) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  struct Published {
    const char* file;
    SpecialTokens special;
    int text_ids;
    const char* text;
  };
  const char* const english = "I was born in the year nineteen hundred and two.";
  const SpecialTokens defaults = {.pad = 1000, .end = 2, .unknown = 0, .begin = 1};
  const Published models[] = {
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
       "\xE7\xA7\x81\xE3\x81\xAF\xE6\x9D\xB1\xE4\xBA\xAC\xE3\x81\xA7\xE7\x94\x9F\xE3\x81\xBE\xE3\x82\x8C\xE3\x81\x9F"},
  };
  int read = 0;
  for (const Published& model : models) {
    const std::string path = std::string(data) + "/fixtures/" + model.file;
    if (!std::filesystem::exists(path)) continue;
    CheckSpecialTokens(ReadFile(path), path, model.special, model.text_ids, model.text);
    ++read;
  }
  if (read == 0) GTEST_SKIP() << "there are no SentencePiece models in " << data << "/fixtures";
}

TEST(SentencePieceTokenizerTest, RealModelsPassTheCheck) {
  const char* data = std::getenv("CROSSTALK_DATA");
  if (data == nullptr) GTEST_SKIP() << "set CROSSTALK_DATA to the folder of real data";
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(data) + "/fixtures")) {
    if (entry.path().extension() != ".model") continue;
    EXPECT_NO_THROW(CheckSentencePieceModel(ReadFile(entry.path().string()), entry.path().string()));
    ++models;
  }
  EXPECT_GE(models, 1);
}

TEST(SentencePieceTrainingTest, KeptLineEndsComeBack) {
  int rest = 40;
  const auto lines = [&](std::string* text) {
    *text = "The cat sat on the mat.\nA dog ran to the cat.\n\nThe end of the day came late.\n";
    return rest-- > 0;
  };
  const std::string model =
      TrainSentencePieceModel({.vocab_size = 380, .max_sample_bytes = 10'000, .line_ends = LineEnds::kKept}, lines);
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(model, "x", 0);
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

}  // namespace sentencepiece_tokenizer_test
}  // namespace crosstalk
