#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace crosstalk::fuzz {
namespace {

constexpr size_t kMaxText = 4096;

// The characters of `bytes`, a space instead of all that is none: the pieces of a model are among them.
std::string TextIn(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size() && text.size() < kMaxText;) {
    const size_t length = Utf8Length(bytes, i);
    if (length == 0 || bytes[i] == '\0') {
      text += ' ';
      ++i;
    } else {
      text += bytes.substr(i, length);
      i += length;
    }
  }
  return text;
}

std::string Repeated(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

void RequireTokens(const Tokenizer& tokenizer, const Tokenizer& again, const std::string& text) {
  std::vector<int32_t> ids;
  if (!Accepts([&] { ids = tokenizer.Encode(text); })) return;
  const std::vector<TokenSpan> spans = tokenizer.EncodeSpans(text);
  Require(spans.size() == ids.size(), ids.size(), " ids, but ", spans.size(), " spans");
  int64_t begin = 0, end = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    Require(ids[i] >= 0 && ids[i] < tokenizer.vocab_size(), "the id ", ids[i], " of ", tokenizer.vocab_size());
    Require(spans[i].id == ids[i], "a span's id is another");
    Require(spans[i].begin >= begin && spans[i].end >= end && spans[i].end >= spans[i].begin &&
                spans[i].end <= static_cast<int64_t>(text.size()),
            "a span from ", spans[i].begin, " to ", spans[i].end, " after ", begin, " to ", end, " in ", text.size(),
            " bytes");
    begin = spans[i].begin, end = spans[i].end;
  }
  tokenizer.Decode(ids);
  Require(tokenizer.WordStarts(ids).size() == ids.size(), "words begin at other tokens");
  Require(again.Encode(text) == ids, "the kept tokenizer gives other ids");
}

}  // namespace

void RequireTokenizer(const Tokenizer& tokenizer, std::string_view input) {
  const std::unique_ptr<Tokenizer> again = LoadTokenizer(tokenizer.FileContents(), "kept");
  Require(again->vocab_size() == tokenizer.vocab_size() && again->special_tokens() == tokenizer.special_tokens() &&
              again->num_sentinels() == tokenizer.num_sentinels(),
          "the kept tokenizer is another");
  static const std::vector<std::string>& texts =
      *new std::vector<std::string>{"",
                                    "The old boats sing slowly at Fernhill.",
                                    "\xE6\x97\xA5 caf\xC3\xA9\t\xF0\x9F\x99\x82\n",
                                    "[MASK] \xCC\x81\xCC\xA3``x'' I\xCC\x87\xC4\xB0 \xC2\xBD<extra_id_0>",
                                    Repeated("a", 300),
                                    Repeated("ab", 200),
                                    Repeated(" ", 100),
                                    Repeated("\xE2\x96\x81", 80),
                                    Repeated("\xEF\xBC\xA1", 100)};
  for (const std::string& text : texts) RequireTokens(tokenizer, *again, text);
  RequireTokens(tokenizer, *again, TextIn(input));
  const int ids = tokenizer.vocab_size();
  for (int id = 0; id < ids; id += 1 + ids / 1000) {
    const int32_t one[] = {id};
    tokenizer.Decode(one);
    tokenizer.TokenText(id);
  }
}

// A tokenizer's file.
void FuzzTokenizer(std::string_view input) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (Accepts([&] { tokenizer = LoadTokenizer(input, "input"); })) RequireTokenizer(*tokenizer, input);
}

}  // namespace crosstalk::fuzz
