// Text that a model writes, on its way to a person: the model's words told apart from the prompt's.
#pragma once

#include <string>
#include <string_view>

#include "crosstalk/models/decoding/text_writer.h"

namespace crosstalk {

// To standard output as it comes: on a terminal the model's words bold, and U+FFFD for characters that would control
// it; the bare text elsewhere. Ends with a line end.
class TextOutput {
 public:
  TextOutput();
  void Put(std::string_view piece, Author author);
  void EndText();

 private:
  bool terminal_;
  bool bold_;
  Author author_ = Author::kPrompt;  // of the last piece
  char last_ = '\n';
};

// A short text to look at, for a message: the model's words bold or, where that cannot be seen, in brackets.
const char* ShownAs();  // "bold" or "in brackets"
std::string ShownText(const Model& model, const TextWriter& writer, const std::string& prompt,
                      const SearchOptions& options);

}  // namespace crosstalk
