// TextWriter: a trained model that writes text, whichever model it is. A language model goes on with a text; a T5 fills
// the blanks of one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "crosstalk/models/decoding/sampling.h"
#include "crosstalk/models/text/stop_request.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct WritingOptions {
  int64_t max_tokens = 200;  // of a text, or of each blank
  SamplingOptions sampling;
  uint64_t seed = 1;
  uint32_t sample = 0;  // another number, another text of the same seed
  StopRequest stop;     // asked before every token: true ends the text there

  // Throws a usage error that names the field.
  void Validate() const {
    CROSSTALK_CHECK_FIELD(max_tokens >= 1, "max_tokens", max_tokens, " is less than 1");
    sampling.Validate();
  }
};

// Whose words a piece of text is.
enum class Author { kPrompt, kModel };

class TextWriter {
 public:
  // Takes a piece of the text, whole UTF-8 characters, as soon as it is written; an empty one where the model has
  // written nothing.
  using Emit = std::function<void(std::string_view piece, Author author)>;

  virtual ~TextWriter() = default;

  // Writes a text with the prompt's words in it: a pure function of model, prompt and options. Error(kUsage) of the
  // field "prompt" for one that the model cannot take, and as of WritingOptions::Validate.
  virtual void Write(const std::string& prompt, const WritingOptions& options, const Emit& emit) const = 0;

  // A prompt for showing what was learnt, made from a piece of text that the model has not seen.
  virtual std::string PromptFrom(const std::string& text) const = 0;
  // What suits the model where the user says nothing.
  virtual WritingOptions Defaults() const = 0;
};

}  // namespace crosstalk
