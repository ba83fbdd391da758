#include "tools/written_text.h"

#include <unistd.h>

#include <cstdlib>

#include "tools/output.h"
#include "tools/report/samples.h"

namespace crosstalk {
namespace {

// Without what a terminal would obey: C0 but line ends and tabs, delete, and C1 (U+0080 … U+009F). A carriage return is
// part of a line end, and left out.
std::string WithoutControls(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (byte == '\r') continue;
    if (c1 || byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t')) {
      plain += "\uFFFD";
    } else {
      plain += static_cast<char>(byte);
    }
  }
  return plain;
}

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

std::string ShownText(const Model& model, const TextWriter& writer, const std::string& prompt,
                      const SearchOptions& options) {
  std::string shown;
  for (const auto& [kind, text] : WrittenParts(model, writer, prompt, options)) {
    const std::string plain = WithoutControls(text);
    if (kind == SamplePart::Kind::kGiven || prompt.empty()) {
      shown += plain;
    } else {
      shown += ColourWanted() && ErrorIsTerminal() && !plain.empty() ? Bold(plain) : "[" + plain + "]";
    }
  }
  return shown;
}

}  // namespace crosstalk
