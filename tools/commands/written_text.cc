#include "tools/commands/written_text.h"

#include <unistd.h>

#include <cstdlib>

#include "tools/cli/output.h"
#include "tools/page/samples.h"

namespace crosstalk {
namespace {

bool BoldIsSeen() { return ColourWanted() && ErrorIsTerminal(); }

}  // namespace

TextOutput::TextOutput() : terminal_(isatty(STDOUT_FILENO) == 1), bold_(terminal_ && ColourWanted()) {}

void TextOutput::Put(std::string_view piece, Author author) {
  if (piece.empty()) return;
  last_ = piece.back();
  const std::string text = terminal_ ? WithoutControls(piece) : std::string(piece);
  PrintResult(bold_ && author != author_ ? (author == Author::kModel ? "\033[1m" : "\033[0m") + text : text);
  author_ = author;
}

void TextOutput::EndText() {
  PrintResult(StrCat(bold_ && author_ == Author::kModel ? "\033[0m" : "", last_ != '\n' ? "\n" : ""));
  author_ = Author::kPrompt;
  last_ = '\n';
}

const char* ShownAs() { return BoldIsSeen() ? "bold" : "in brackets"; }

std::string ShownText(const Model& model, const TextWriter& writer, const std::string& prompt,
                      const SearchOptions& options) {
  std::string shown;
  for (const auto& [kind, text] : WrittenParts(model, writer, prompt, options)) {
    const std::string plain = WithoutControls(text);
    if (kind == SamplePart::Kind::kGiven) {
      shown += plain;
    } else {
      shown += BoldIsSeen() && !plain.empty() ? Bold(plain) : "[" + plain + "]";
    }
  }
  return shown;
}

}  // namespace crosstalk
