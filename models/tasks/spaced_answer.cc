#include "crosstalk/models/tasks/spaced_answer.h"

#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

bool IsAsciiPunctuation(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x80 && IsPunctuation(code);
}

// Where the part of `passage` from `begin` on that reads as `text` ends; npos if none does. White space is the same as
// white space, and as nothing beside punctuation.
size_t EndOfMatch(std::string_view passage, size_t begin, std::string_view text) {
  size_t at = begin;
  for (size_t i = 0; i < text.size();) {
    if (!IsAsciiSpace(text[i])) {
      if (at == passage.size() || passage[at] != text[i]) return std::string_view::npos;
      ++at, ++i;
      continue;
    }
    while (IsAsciiSpace(text[i])) ++i;
    const size_t space = at;
    while (at < passage.size() && IsAsciiSpace(passage[at])) ++at;
    if (at == space && !IsAsciiPunctuation(text[i]) && !IsAsciiPunctuation(passage[at - 1])) {
      return std::string_view::npos;
    }
  }
  return at;
}

}  // namespace

std::string UnspacedAnswer(std::string_view text, std::string_view passage) {
  text = Trimmed(text);
  for (size_t begin = 0; begin < passage.size() && !text.empty(); ++begin) {
    const size_t end = EndOfMatch(passage, begin, text);
    if (end != std::string_view::npos) return std::string(passage.substr(begin, end - begin));
  }
  return std::string(text);
}

}  // namespace crosstalk
