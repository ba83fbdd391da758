// What the SentencePiece library cannot bear is refused before it sees it; what it just bears is not.
#include "crosstalk/models/text/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <string>

#include "crosstalk/models/text/tokenizer.h"
#include "tests/support/crafted_model.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace sentencepiece_model_test {

using testing::Contains;

std::string RefusalOf(const std::string& model) {
  return testing::MessageOf([&] { CheckSentencePieceModel(model, "crafted.model"); }, ErrorKind::kData);
}

// Passes the check, and then is used on a long run of the letter that it is about.
void ExpectUsable(const std::string& model) {
  const std::unique_ptr<Tokenizer> tokenizer = LoadTokenizer(model, "crafted.model");
  EXPECT_GT(tokenizer->Encode(std::string(500, 'a')).size(), 0u);
  EXPECT_GT(tokenizer->EncodeSpans(std::string(500, 'a') + " b").size(), 0u);
}

std::string UserDefined(int count) {
  std::string pieces;
  for (int i = 2; i < count + 2; ++i) pieces += Piece(std::string(i, 'a'), 0, 4);
  return SmallModel(pieces);
}

TEST(SentencePieceModelCheckTest, UserDefinedPiecesMayBeNestedAsDeepAsTheLibraryBears) {
  ExpectUsable(UserDefined(64));
  EXPECT_TRUE(Contains(RefusalOf(UserDefined(65)), "65 user-defined pieces begin with one another"));
  // Any number of pieces side by side.
  std::string pieces;
  for (int i = 0; i < 500; ++i) pieces += Piece("a" + std::to_string(1000 + i), 0, 4);
  ExpectUsable(SmallModel(pieces));
}

std::string NestedRules(int rules, const std::string& text, int on_to) {
  return SmallModel("", NestedTable('a', rules, text, on_to));
}

TEST(SentencePieceModelCheckTest, RulesMayBeNestedAsDeepAsTheLibraryBears) {
  ExpectUsable(NestedRules(32, "b", 32));
  EXPECT_TRUE(Contains(RefusalOf(NestedRules(33, "b", 33)), "more than 32 rules for one place of a text"));
  EXPECT_TRUE(Contains(RefusalOf(NestedRules(3, "b", 0)), "leads back to where it was"));
}

TEST(SentencePieceModelCheckTest, AReplacementMayNotMakeATextManyTimesAsLong) {
  ExpectUsable(NestedRules(1, std::string(128, 'a'), 1));
  for (const size_t size : {size_t{129}, size_t{1} << 20}) {
    EXPECT_TRUE(
        Contains(RefusalOf(NestedRules(1, std::string(size, 'a'), 1)), "a replacement of " + std::to_string(size)));
  }
}

TEST(SentencePieceModelCheckTest, SelfTestsAreShort) {
  const auto with_sample = [](size_t size, int count) {
    const std::string sample = ProtoField(1, ProtoField(1, std::string(size, 'a')) + ProtoField(2, "a"));
    std::string samples;
    for (int i = 0; i < count; ++i) samples += sample;
    return SmallModel() + ProtoField(4, samples);
  };
  CheckSentencePieceModel(with_sample(4096, 200), "fine");
  EXPECT_TRUE(Contains(RefusalOf(with_sample(4097, 1)), "4097 bytes"));
  EXPECT_TRUE(Contains(RefusalOf(with_sample(4096, 300)), "bytes of samples"));
}

TEST(SentencePieceModelCheckTest, AFileThatIsTooLargeIsNotRead) {
  testing::ExpectError([] { LoadTokenizerFile("/dev/zero"); }, ErrorKind::kData, {"/dev/zero"});
}

}  // namespace sentencepiece_model_test
}  // namespace crosstalk
