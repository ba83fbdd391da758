// What commands that let a model write share: their inputs, the text on its way to a person, and the sample at the end
// of a training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/decoding/search.h"
#include "crosstalk/models/decoding/text_writer.h"
#include "crosstalk/models/training/run.h"

namespace crosstalk {

// The inputs of `crosstalk generate`: texts of the user's, or ids.

struct GenerateInput {
  std::string text;    // none of ids
  std::string source;  // "questions.txt, line 3"; empty: an option's value
};

// TEXT as it is, or of "-" all of standard input except its last line end. Error(kUsage) if it is no UTF-8 text.
std::vector<GenerateInput> ReadText(const std::string& text);
// The lines of a file, or of "-" standard input. Error(kData) that names the line if it is no UTF-8 text.
std::vector<GenerateInput> ReadLines(const std::string& path);
// The rows input_ids[b, n] of a safetensors file, with attention_mask[b, n], or without it all but padding.
// Error(kData) that names the file and the tensor.
std::vector<SearchInput> ReadIds(const std::string& path, int64_t vocabulary, int32_t pad);

// Text that a model writes, on its way to a person: the model's words told apart from the prompt's.

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

// What a trained model writes, at the end of its training: so that one sees what was learnt.

// Prints what the model makes of held-out text, as `generate` would. Returns the rest of "what next": the command for
// more, or "" of a model that writes nothing. What goes wrong is a message: the run is finished and saved.
std::string ShowClosingSample(const TrainingRun& run);

}  // namespace crosstalk
