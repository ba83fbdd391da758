// ByT5's tokenizer, which a folder's tokenizer_config.json alone says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/text/tokenizer_files.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/json.h"
#include "tests/support/messages.h"
#include "tests/support/temp_dir.h"

namespace crosstalk {
namespace byt5_tokenizer_test {

class ByT5TokenizerTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Tokenizer> Read(const std::string& more = "") {
    WriteFileAtomically(dir_ / "tokenizer_config.json", "{\"tokenizer_class\": \"ByT5Tokenizer\"" + more + "}");
    return OpenTokenizer(dir_ / ".");
  }

  TempDir dir_;
};

// What Hugging Face's own code makes of texts, with </s> after them.
TEST_F(ByT5TokenizerTest, EncodesAsTheReference) {
  const char* data = std::getenv("CROSSTALK_DATA");
  const std::string path = std::string(data == nullptr ? "" : data) + "/parity5/byt5_style/byt5_texts.json";
  if (data == nullptr || !std::filesystem::exists(path)) GTEST_SKIP() << "there is no $CROSSTALK_DATA/parity5";
  const std::shared_ptr<const Tokenizer> tokenizer = Read();
  EXPECT_EQ(tokenizer->vocab_size(), 384);
  const Json texts = ReadJsonFile(path);
  for (const Json& one : texts.At("texts").AsArray()) {
    std::vector<int32_t> expected;
    for (const Json& id : one.At("ids").AsArray()) expected.push_back(static_cast<int32_t>(id.AsInt()));
    std::vector<int32_t> ids = tokenizer->Encode(one.At("text").AsString());
    ids.push_back(tokenizer->special_tokens().end);
    EXPECT_EQ(ids, expected) << one.At("text").AsString();
    if (one.At("text").AsString().find("extra_id") != std::string::npos) continue;
    EXPECT_EQ(tokenizer->Decode(ids), one.At("decoded_skip_special").AsString());
  }
}

TEST_F(ByT5TokenizerTest, TokensInTextAreItsSpecialOnes) {
  const std::shared_ptr<const Tokenizer> tokenizer = Read();
  EXPECT_EQ(tokenizer->num_sentinels(), 125);
  EXPECT_EQ(tokenizer->Encode("a </s> b<unk>"), (std::vector<int32_t>{100, 1, 101, 2}));
  EXPECT_EQ(tokenizer->Encode("<extra_id_0> <extra_id_124>"), (std::vector<int32_t>{259, 35, 383}));
  EXPECT_EQ(tokenizer->Sentinel(1), 260);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a<extra_id_3>b")), "a<extra_id_3>b");
  // The published folders have tokens with flags of their own.
  const auto own = Read(
      ", \"extra_ids\": 2, \"additional_special_tokens\": [\"<extra_id_0>\", \"<extra_id_1>\", \"<new>\"], "
      "\"eos_token\": {\"content\": \"</s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
      "\"normalized\": true, \"__type\": \"AddedToken\"}");
  EXPECT_EQ(own->vocab_size(), 262);
  EXPECT_EQ(own->Encode("a </s><new>"), (std::vector<int32_t>{100, 35, 1, 261}));
  EXPECT_EQ(own->Decode(std::vector<int32_t>{100, 261}), "a<new>");
}

TEST_F(ByT5TokenizerTest, ItsFileGivesItAgain) {
  const std::shared_ptr<const Tokenizer> tokenizer = Read();
  const auto again = LoadTokenizer(tokenizer->FileContents(), tokenizer->FileName(), 3);
  EXPECT_EQ(TokenizerDifference(*tokenizer, *again), "");
  EXPECT_EQ(tokenizer->kind(), "bytes");
}

TEST_F(ByT5TokenizerTest, WhatCannotBeIsRefused) {
  const auto refuse = [&](const std::string& more, const std::vector<std::string>& words) {
    testing::ExpectError([&] { Read(more); }, ErrorKind::kData, words);
  };
  refuse(", \"added_tokens_decoder\": {\"7\": {\"content\": \"<x>\"}}", {"tokenizer_config.json", "<x>", "7"});
  refuse(", \"added_tokens_decoder\": {\"300\": {\"content\": \"<x>\"}}", {"<x>", "300", "259"});
  refuse(", \"added_tokens_decoder\": {\"5\": {\"content\": \"</s>\"}}", {"</s>", "5", "1"});
  refuse(", \"additional_special_tokens\": [\"<extra_id_1>\"]", {"<extra_id_0>"});
  refuse(", \"split_special_tokens\": true", {"split_special_tokens"});
  WriteFileAtomically(dir_ / "tokenizer_config.json", "{\"tokenizer_class\": \"CanineTokenizer\"}");
  EXPECT_THROW(OpenTokenizer(dir_ / "."), Error);
}

}  // namespace byt5_tokenizer_test
}  // namespace crosstalk
