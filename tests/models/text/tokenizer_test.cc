#include "crosstalk/models/text/tokenizer.h"

#include <gtest/gtest.h>

#include <string>

#include "crosstalk/models/text/sentencepiece_training.h"
#include "crosstalk/models/text/stories/synthetic_corpus.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

TEST(TokenizerTest, BytesAreTheirValuePlusThree) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeByteTokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 359);
  EXPECT_EQ(tokenizer->special_tokens(), SpecialTokens{});
  EXPECT_EQ(tokenizer->Sentinel(0), 358);
  EXPECT_EQ(tokenizer->Sentinel(99), 259);
  EXPECT_THROW(tokenizer->Sentinel(100), Error);
  EXPECT_FALSE(tokenizer->IsSentinel(258));
  const std::string text = "a \xC3\xA9\n";
  EXPECT_EQ(tokenizer->Encode(text), (std::vector<int32_t>{100, 35, 198, 172, 13}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text)), text);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{358, 100, 1, 0, 357}), "<extra_id_0>a<extra_id_1>");
  EXPECT_THROW(tokenizer->Decode(std::vector<int32_t>{359}), Error);
  EXPECT_THROW(tokenizer->Decode(std::vector<int32_t>{-1}), Error);
}

TEST(TokenizerTest, FilesMakeTheSameTokenizerAgain) {
  const std::unique_ptr<Tokenizer> bytes = MakeByteTokenizer(7);
  EXPECT_EQ(bytes->FileName(), "tokenizer.json");
  const std::unique_ptr<Tokenizer> bytes_again = LoadTokenizer(bytes->FileContents(), "x");
  EXPECT_EQ(bytes_again->kind(), "bytes");
  EXPECT_EQ(bytes_again->vocab_size(), bytes->vocab_size());

  const std::string model = TrainTokenizer(*MakeSyntheticCorpus(1).training, {700, 100'000})->FileContents();
  const std::unique_ptr<Tokenizer> bare = LoadTokenizer(MakeByteTokenizer(0)->FileContents(), "x");
  EXPECT_EQ(bare->vocab_size(), 259);
  EXPECT_FALSE(bare->IsSentinel(258));
  EXPECT_THROW(bare->Sentinel(0), Error);

  const std::unique_ptr<Tokenizer> pieces = LoadTokenizer(model, "x");
  EXPECT_EQ(pieces->kind(), "sentencepiece");
  EXPECT_EQ(pieces->FileName(), "tokenizer.model");
  EXPECT_EQ(pieces->FileContents(), model);

  for (const char* bad :
       {"", "{", "{\"kind\": \"words\", \"sentinels\": 3}", "{\"kind\": \"bytes\"}",
        "{\"kind\": \"bytes\", \"sentinels\": -1}", "{\"kind\": \"bytes\", \"sentinels\": 3, \"x\": 1}"}) {
    try {
      LoadTokenizer(bad, "that file");
      ADD_FAILURE() << "accepted " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << bad;
      EXPECT_NE(std::string(error.what()).find("that file"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace crosstalk
