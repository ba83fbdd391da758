#include "tests/fuzz/fuzz.h"

#include <cstring>
#include <memory>

#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk::fuzz {

uint64_t BytesOf(const Tensor& tensor) { return static_cast<uint64_t>(tensor.num_elements()) * SizeOf(tensor.dtype()); }

void RequireSameTensors(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  Require(a.size() == b.size(), a.size(), " tensors became ", b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto& [name, tensor] = a[i];
    const Tensor& other = b[i].tensor;
    Require(name == b[i].name && tensor.dtype() == other.dtype() && tensor.shape() == other.shape(), "tensor ", i,
            " is another");
    Require(BytesOf(tensor) == 0 || std::memcmp(tensor.raw_data(), other.raw_data(), BytesOf(tensor)) == 0, "tensor ",
            i, " has other values");
  }
}

FirstLine SplitFirstLine(std::string_view input) {
  const size_t end = input.find('\n');
  if (end == std::string_view::npos) return {input, {}};
  return {input.substr(0, end), input.substr(end + 1)};
}

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
    const TokenSpan& span = spans[i];
    Require(ids[i] >= 0 && ids[i] < tokenizer.vocab_size(), "the id ", ids[i], " of ", tokenizer.vocab_size());
    Require(span.id == ids[i], "a span's id is another");
    Require(span.begin >= begin && span.end >= end && span.end >= span.begin && span.end <= std::ssize(text),
            "a span from ", span.begin, " to ", span.end, " after ", begin, " to ", end, " in ", text.size(), " bytes");
    begin = span.begin, end = span.end;
  }
  tokenizer.Decode(ids);
  Require(tokenizer.WordStarts(ids).size() == ids.size(), "words begin at other tokens");
  Require(again.Encode(text) == ids, "the kept tokenizer gives other ids");
}

}  // namespace

void RequireTokenizer(const Tokenizer& tokenizer, std::string_view input) {
  const std::shared_ptr<const Tokenizer> again = LoadTokenizer(tokenizer.FileContents(), "kept");
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

}  // namespace crosstalk::fuzz
