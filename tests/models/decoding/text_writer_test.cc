#include "crosstalk/models/decoding/text_writer.h"

#include <gtest/gtest.h>

#include "crosstalk/models/text/bpe_training.h"
#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/text.h"
#include "tests/support/temp_dir.h"

namespace crosstalk::text_writer_test {

std::string All(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& before,
                const std::vector<int32_t>& ids) {
  TextPieces pieces(tokenizer, before);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = pieces.Add(id);
    EXPECT_EQ(FindInvalidUtf8(piece), std::string::npos) << piece;
    text += piece;
  }
  return text + pieces.Rest();
}

TEST(TextPiecesTest, PiecesAddUpToTheText) {
  const TextCorpus corpus = MakeSyntheticCorpus(1);
  const std::string text = corpus.training->ReadSegment(1, 3, 500, 500, TextSource::Order::kShuffled);
  const std::shared_ptr<const Tokenizer> pieces = TrainTokenizer(*corpus.training, {700, 50'000});
  const std::shared_ptr<const Tokenizer> lines = TrainTokenizer(
      *corpus.training, {.vocab_size = 700, .max_sample_bytes = 50'000, .line_ends = LineEnds::kKept}, 0);
  for (const std::shared_ptr<const Tokenizer>& tokenizer :
       {pieces, lines, std::shared_ptr<const Tokenizer>(MakeByteTokenizer())}) {
    const std::vector<int32_t> ids = tokenizer->Encode(text + " caf\u00e9 \u4e2d\u6587 \U0001F600 end");
    const std::string whole = tokenizer->Decode(ids);
    EXPECT_EQ(All(tokenizer, {}, ids), whole);
    for (const size_t cut : {1u, 7u, 20u}) {
      const std::vector<int32_t> before(ids.begin(), ids.begin() + static_cast<int64_t>(cut));
      const std::vector<int32_t> after(ids.begin() + static_cast<int64_t>(cut), ids.end());
      EXPECT_EQ(tokenizer->Decode(before) + All(tokenizer, before, after), whole);
    }
  }
}

// Tokens that end within a character, and begin within the one before.
TEST(TextPiecesTest, CharactersOfByteLevelTokensComeWhole) {
  std::string many;
  for (int i = 0; i < 40; ++i) many += "\u2018\u201Ca\u201D\u2019 \u00E9\u00EA \u6F22\u6F23 \U0001F600\U0001F601 ";
  const TempDir dir;
  WriteFileAtomically(dir / "text.txt", many);
  WriteFileAtomically(dir / "held.txt", "held out");
  const TextCorpus corpus = OpenFileCorpus({.path = dir / "text.txt", .validation_path = dir / "held.txt"}, {});
  const std::shared_ptr<const Tokenizer> tokenizer = TrainBpeTokenizer(*corpus.training, {.vocab_size = 275}, 0);
  const std::string text = "a\u201C\u2018 \u00E9\u00EB\u6F22\u6F24 \U0001F601\U0001F603\u20AC.";
  const std::vector<int32_t> ids = tokenizer->Encode(text);
  int within = 0;
  for (const int32_t id : ids) {
    const std::string one = tokenizer->Decode({{id}});
    within += one.size() > 1 && FindInvalidUtf8(one) != std::string::npos;
  }
  EXPECT_GT(within, 3);
  EXPECT_EQ(All(tokenizer, {}, ids), text);
  EXPECT_EQ(All(tokenizer, ids, ids), text);
  // A character that ends too early is replaced, and what follows is whole.
  const std::vector<int32_t> first = tokenizer->Encode("\u6F22"), broken(first.begin(), first.begin() + 1);
  EXPECT_EQ(All(tokenizer, broken, tokenizer->Encode("x\u201C")), "x\u201C");
}

TEST(TextPiecesTest, ACharacterComesWholeAndWhatIsNoneIsReplaced) {
  const std::shared_ptr<const Tokenizer> bytes = MakeByteTokenizer();
  TextPieces pieces(bytes);
  const std::vector<int32_t> ids = bytes->Encode("\u4e2d");
  EXPECT_EQ(pieces.Add(ids[0]), "");
  EXPECT_EQ(pieces.Add(ids[1]), "");
  EXPECT_EQ(pieces.Add(ids[2]), "\u4e2d");
  EXPECT_EQ(All(bytes, {},
                bytes->Encode("a\xff"
                              "b")),
            "a\uFFFDb");
  EXPECT_EQ(All(bytes, {}, {ids[0]}), "\uFFFD");
  // Stray beginnings of characters take nothing from the one after them.
  EXPECT_EQ(All(bytes, {}, bytes->Encode("\xCE\xE4\xE7\xB8\x82x")), "\uFFFD\uFFFD\u7E02x");
}

}  // namespace crosstalk::text_writer_test
