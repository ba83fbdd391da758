// TextWriter: how a model reads texts and writes them, whichever model it is. A language model goes on with a text; a
// T5 fills the blanks of one, or answers one without blanks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

// TextPieces: the text of a growing sequence of tokens, a piece at a time.

// A token's text can depend on the one before it, and a character can have several tokens: each piece is
// the growth of the text of the last few tokens, without an unfinished character at its end.
class TextPieces {
 public:
  // `before`: tokens whose text stands already.
  explicit TextPieces(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<int32_t>& before = {});

  // The text that stands once the token has been added, less what stood: valid UTF-8, with U+FFFD for bytes that are
  // none. Empty while a character is not whole.
  std::string Add(int32_t id);
  // The text held back, at the end.
  std::string Rest();

 private:
  // The text of ids_ from shown_ to `end`, which then stands.
  std::string Take(const std::string& whole, size_t end);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> ids_;  // the last few
  size_t shown_ = 0;          // bytes of their text that stand
  int unfinished_ = 0;        // tokens of the character at its end
};

// Which tokens are text.

// true for the ids of the model's vocabulary that are text: no special token, no sentinel, none above the
// tokenizer's. Error(kUsage) where the tokenizer has more.
inline std::vector<bool> WritableTokens(const Tokenizer& tokenizer, int64_t vocabulary) {
  CROSSTALK_CHECK(tokenizer.vocab_size() <= vocabulary, "text writer: a tokenizer of ", tokenizer.vocab_size(),
                  " ids for a vocabulary of ", vocabulary);
  std::vector<bool> writable(static_cast<size_t>(vocabulary), false);
  std::fill_n(writable.begin(), tokenizer.vocab_size(), true);
  const SpecialTokens& special = tokenizer.special_tokens();
  for (const int32_t id : {special.pad, special.end, special.unknown, special.decoder_start, special.begin,
                           special.separator, special.mask}) {
    if (id != kNoToken) writable[static_cast<size_t>(id)] = false;
  }
  for (int k = 0; k < tokenizer.num_sentinels(); ++k) writable[static_cast<size_t>(tokenizer.Sentinel(k))] = false;
  return writable;
}

}  // namespace crosstalk

#pragma GCC visibility push(default)
namespace crosstalk {

// Whose words a piece of text is.
enum class Author { kPrompt, kModel };

// A text on its way from tokens to its reader.
class TextBeingWritten {
 public:
  // Takes a piece of the text, whole UTF-8 characters, as soon as it is known; an empty one where the model has written
  // nothing.
  using Emit = std::function<void(std::string_view piece, Author author)>;

  virtual ~TextBeingWritten() = default;
  // The next token that was written.
  virtual void Add(int32_t id) = 0;
  // The text after the last one.
  virtual void End() = 0;
};

class TextWriter {
 public:
  virtual ~TextWriter() = default;

  // What the model reads of a text, and which tokens it may write then: `max_length` of them at most, or for each
  // blank. It may be used as long as this. Error(kUsage) of the field "text" for one that the model cannot take.
  virtual SearchInput Read(const std::string& text, int64_t max_length) const = 0;
  // The text that what is written makes of `text`, the prompt's words in it where they belong to it.
  virtual std::unique_ptr<TextBeingWritten> Begin(const std::string& text,
                                                  const TextBeingWritten::Emit& emit) const = 0;
  // The defaults for such a text.
  virtual SearchOptions Defaults(const std::string& text) const = 0;
  // A prompt for showing what was learnt, made from a piece of text that the model has not seen; "" where any text is
  // one.
  virtual std::string PromptFrom(const std::string& text) const = 0;
  // Whether what it writes can have several lines.
  virtual bool WritesLines() const = 0;
};

// The first answer to a text as it is written: a pure function of model, text and options. Without beams. Errors as of
// TextWriter::Read and Search.
void WriteText(const Model& model, const TextWriter& writer, const std::string& text, const SearchOptions& options,
               const TextBeingWritten::Emit& emit);

// The text that an answer to `text` makes.
std::string TextOf(const TextWriter& writer, const std::string& text, const SearchAnswer& answer);

}  // namespace crosstalk
#pragma GCC visibility pop
