// Byte-pair encoding against Hugging Face's library, and against a slow double of our own.
#include "crosstalk/models/text/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
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
    if (pair != nullptr) EXPECT_EQ(segments, IdsOf(one.At("type_ids")));
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
  const std::shared_ptr<const Tokenizer> tokenizer = OpenTokenizer(SourceFolder("tiny_added_tokens"), 0);
  EXPECT_EQ(tokenizer->kind(), "bpe");
  ExpectCases(*tokenizer, SourceFolder("tiny_added_tokens/cases.json"));
  ExpectKeptAndPublished(*tokenizer);
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
    ExpectKeptAndPublished(*tokenizer);
  }
}

}  // namespace crosstalk::bpe_tokenizer_test
