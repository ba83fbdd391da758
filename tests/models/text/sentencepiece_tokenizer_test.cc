#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>

#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/sentencepiece_model_check.h"
#include "crosstalk/models/text/stories/synthetic_corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {
namespace {

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
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const std::string again = TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  EXPECT_THROW(LoadTokenizer("not a model", "x"), Error);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(again, TrainedModel());
}

TEST(SentencePieceTokenizerTest, TrainingRefusesWhatItCannotDo) {
  const auto nothing = [](std::string*) { return false; };
  EXPECT_THROW(TrainSentencePieceModel({100, 1000}, nothing), Error);
  try {
    TrainSentencePieceModel({1000, 1000}, nothing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
  }
  int left = 1;  // 2,000 different letters do not fit a vocabulary of 320
  try {
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
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
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

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string Field(int number, const std::string& value) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(value.size()) + value;
}
std::string Number(int number, uint64_t value) { return Varint(static_cast<uint64_t>(number) << 3) + Varint(value); }
std::string Score(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return Varint(2 << 3 | 5) + bytes;
}
std::string Piece(const std::string& text, float score, int type) {
  return Field(1, Field(1, text) + Score(score) + Number(3, type));
}
// pad, eos, unk and two letters; unigram.
std::string SmallModel(const std::string& more = "", const std::string& normalizer = "") {
  return Piece("<pad>", 0, 3) + Piece("</s>", 0, 3) + Piece("<unk>", 0, 2) + Piece("a", -1, 1) +
         Piece("\xE2\x96\x81", -2, 1) + more +
         Field(2, Number(3, 1) + Number(40, 2) + Number(41, uint64_t(-1)) + Number(42, 1) + Number(43, 0)) +
         Field(3, Field(1, "identity") + normalizer);
}
std::string CharsMap(uint32_t trie_bytes, const std::string& trie, const std::string& texts) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &trie_bytes, 4);
  return Field(2, bytes + trie + texts);
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
      {"a word model", SmallModel(Field(2, Number(3, 3)))},
      {"a charsmap of 1 byte", SmallModel("", Field(2, "x"))},
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
      {"a piece whose text is a number", SmallModel(Field(1, Number(1, 5)))},
      {"nothing but pieces", Piece("a", 0, 1)},
      {"no bytes", ""},
      {"text", "Agnes was a baker from Ashford."},
      {"the wrong special ids", Piece("<unk>", 0, 2) + Piece("a", 0, 1) + Field(2, Number(3, 1))},
  };
  for (const auto& [what, model] : cases) {
    try {
      MakeSentencePieceTokenizer(model, "crafted.model");
      ADD_FAILURE() << "accepted " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << what;
      EXPECT_NE(std::string(error.what()).find("crafted.model"), std::string::npos) << what << ": " << error.what();
    }
  }
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

}  // namespace
}  // namespace crosstalk
