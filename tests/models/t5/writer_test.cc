// A T5 as a writer: what it puts into blanks is what it gives as targets.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "crosstalk/autograd/scopes.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/t5/blanks.h"
#include "crosstalk/models/t5/t5.h"
#include "crosstalk/models/text/character_tokenizer.h"
#include "crosstalk/runtime/check.h"
#include "tests/support/messages.h"
#include "tests/support/t5_cases.h"

namespace crosstalk {
namespace {

// Each of its tokens is a letter.
std::shared_ptr<const Tokenizer> Letters() { return MakeCharacterTokenizer("abcdefghijklmnopqrstuvwxyz", "x", 4); }

T5 LetterModel() {
  T5Config config = TinyT5("talking");
  config.vocabulary = Letters()->vocab_size();
  return {config, 5, DType::kFloat64};
}

using Parts = std::vector<std::pair<Author, std::string>>;

Parts Write(const TextWriter& writer, const std::string& prompt, const WritingOptions& options) {
  Parts parts;
  writer.Write(prompt, options, [&](std::string_view piece, Author author) {
    if (parts.empty() || parts.back().first != author) parts.emplace_back(author, "");
    parts.back().second += piece;
  });
  return parts;
}

TEST(T5WriterTest, ThePromptStaysAndEachBlankHasItsWords) {
  const T5 model = LetterModel();
  const auto writer = model.MakeWriter(Letters());
  const Parts parts = Write(*writer, "the___sat___on", {.max_tokens = 5, .sampling = {.temperature = 1}});
  std::string prompt;
  for (const auto& [author, text] : parts) {
    if (author == Author::kPrompt) prompt += text;
  }
  EXPECT_EQ(prompt, "thesaton");
  EXPECT_EQ(Write(*writer, "the___sat___on", {.max_tokens = 5, .sampling = {.temperature = 1}}), parts);
}

// The same by whole passes over the targets so far.
TEST(T5WriterTest, WhatFillsABlankIsTheLikeliestTarget) {
  const T5 model = LetterModel();
  const auto tokenizer = Letters();
  const auto writer = model.MakeWriter(tokenizer);
  const std::string prompt = "ab___cd___";
  const std::vector<int32_t> ids = EncodeBlanks(SplitAtBlanks(prompt), *tokenizer);
  const Tensor inputs = Tensor::FromValues<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
  std::vector<int32_t> targets = {kPadId};
  std::vector<std::string> fills;
  const NoGradScope no_grad;
  const Variable encoded = model.Encode(inputs, {});
  for (int blank = 0; blank < 2; ++blank) {
    targets.push_back(tokenizer->Sentinel(blank));
    std::vector<int32_t> fill;
    for (int i = 0; i < 6; ++i) {
      const auto m = static_cast<int64_t>(targets.size());
      const Tensor logits = model
                                .Logits(model.Decode(encoded, NotPadding(inputs, kPadId),
                                                     Tensor::FromValues<int32_t>({1, m}, targets), {}))
                                .value();
      int32_t best = 1;
      for (int32_t id = 1; id < tokenizer->vocab_size(); ++id) {
        const bool text = id >= 3 && id < 29;
        if (id != 1 && !text && id != tokenizer->Sentinel(blank + 1)) continue;
        if (logits.At({0, m - 1, id}) > logits.At({0, m - 1, best})) best = id;
      }
      if (best == 1 || best >= 29) break;
      targets.push_back(best);
      fill.push_back(best);
    }
    fills.push_back(tokenizer->Decode(fill));
  }
  EXPECT_FALSE(fills[0].empty() && fills[1].empty());
  std::string written;
  writer->Write(prompt, {.max_tokens = 6, .sampling = {.temperature = 0}},
                [&](std::string_view piece, Author) { written += piece; });
  EXPECT_EQ(written, "ab" + fills[0] + "cd" + fills[1]);
}

TEST(T5WriterTest, APromptWithoutBlanksOrWithTooManyIsRefused) {
  const T5 model = LetterModel();
  const auto writer = model.MakeWriter(Letters());
  for (const char* prompt : {"noblank", "", "___a___b___c___d___"}) {
    try {
      Write(*writer, prompt, {});
      ADD_FAILURE() << prompt;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_EQ(error.field(), "prompt");
    }
  }
}

}  // namespace
}  // namespace crosstalk
