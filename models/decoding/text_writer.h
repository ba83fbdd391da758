// TextWriter: how a model reads texts and writes them, whichever model it is. A language model goes on with a text; a
// T5 fills the blanks of one, or answers one without blanks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/model.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
