// What the SentencePiece library cannot bear is refused before it sees it; what it just bears is not.
#include "crosstalk/models/text/sentencepiece_model.h"

#include <gtest/gtest.h>

#include "crosstalk/models/text/tokenizer.h"
#include "tests/support/crafted_model.h"
#include "tests/support/messages.h"

namespace crosstalk::sentencepiece_model_test {

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

}  // namespace crosstalk::sentencepiece_model_test
