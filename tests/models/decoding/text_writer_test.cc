#include "crosstalk/models/decoding/text_writer.h"

#include <gtest/gtest.h>

#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/synthetic/stories.h"
#include "crosstalk/runtime/text.h"

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
