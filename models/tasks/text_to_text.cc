#include "crosstalk/models/tasks/text_to_text.h"

#include <charconv>
#include <cmath>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// RE2's \s and [[:punct:]]: ASCII alone.
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }
bool IsPunctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

}  // namespace

std::string TaskInput(std::string_view task, const std::vector<std::pair<std::string_view, std::string_view>>& fields) {
  std::string input(task);
  for (const auto& [name, text] : fields) input.append(" ").append(name).append(": ").append(text);
  return input;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = "\t\n\v\f\r\x1C\x1D\x1E\x1F ";
  const size_t begin = text.find_first_not_of(kSpaces);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

std::string CollapsedSpace(std::string_view text) {
  std::string collapsed;
  collapsed.reserve(text.size());
  for (const char c : text) {
    if (!IsSpace(c)) {
      collapsed += c;
    } else if (collapsed.empty() || collapsed.back() != ' ') {
      collapsed += ' ';
    }
  }
  return collapsed;
}

std::string SpacedPunctuation(std::string_view text) {
  std::string spaced;
  spaced.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    if (IsPunctuation(c)) {
      spaced.append({' ', c, ' '});
    } else {
      spaced += c;
    }
  }
  return CollapsedSpace(spaced);
}

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    replaced += text.substr(at, found == std::string_view::npos ? found : found - at);
    if (found == std::string_view::npos) return replaced;
    replaced += to;
    at = found + from.size();
  }
}

size_t CountOf(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string SimilarityText(double score) {
  const float fifths = static_cast<float>(score) * 5.0f;
  CROSSTALK_CHECK(fifths >= 0 && fifths < 1e6f, "a similarity of ", score);
  auto whole = static_cast<int64_t>(fifths);
  const float rest = fifths - static_cast<float>(whole);
  if (rest > 0.5f || (rest == 0.5f && whole % 2 == 1)) ++whole;
  // whole/5 in tenths is even: no rounding is left.
  return StrCat(whole / 5, ".", whole % 5 * 2);
}

bool ParseNumber(std::string_view text, double* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*number);
}

int FindWord(const std::vector<const char*>& words, std::string_view text) {
  text = Trimmed(text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (text == words[i]) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace crosstalk
