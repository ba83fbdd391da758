#include "crosstalk/models/tasks/text_to_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

// str.split() also parts at the ASCII separators.
bool IsPythonSpace(char32_t code) { return IsWhiteSpace(code) || (code >= 0x1C && code <= 0x1F); }

bool IsArticle(std::u32string_view word) { return word == U"a" || word == U"an" || word == U"the"; }

// `words` are sorted; each counts as often as both have it.
size_t CountCommon(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  size_t common = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) {
      ++common, ++i, ++j;
    } else {
      *i < *j ? ++i : ++j;
    }
  }
  return common;
}

AnswerMatch Match(const std::vector<std::string>& answer, const std::vector<std::string>& sorted,
                  std::vector<std::string> right, NoWords no_words) {
  AnswerMatch match;
  match.exact = answer == right ? 1 : 0;
  if (no_words == NoWords::kMatchEachOther && (answer.empty() || right.empty())) {
    match.f1 = match.exact;
    return match;
  }
  std::sort(right.begin(), right.end());
  const size_t common = CountCommon(sorted, right);
  if (common == 0) return match;
  // The scripts' own order of roundings.
  const double precision = static_cast<double>(common) / static_cast<double>(answer.size());
  const double recall = static_cast<double>(common) / static_cast<double>(right.size());
  match.f1 = 2 * precision * recall / (precision + recall);
  return match;
}

}  // namespace

bool IsAsciiPunctuation(char32_t code) { return code < 0x80 && IsPunctuation(code); }

std::vector<std::string> AnswerWords(std::string_view text) {
  std::u32string kept = LowerCaseOf(ToUtf32(text));
  std::erase_if(kept, IsAsciiPunctuation);
  for (size_t begin = 0; begin < kept.size();) {
    size_t end = begin;
    while (end < kept.size() && IsWordCharacter(kept[end])) ++end;
    if (IsArticle(std::u32string_view(kept).substr(begin, end - begin))) {
      std::fill(kept.begin() + static_cast<std::ptrdiff_t>(begin), kept.begin() + static_cast<std::ptrdiff_t>(end),
                U' ');
    }
    begin = std::max(end, begin + 1);
  }
  std::vector<std::string> words;
  for (size_t begin = 0; begin < kept.size();) {
    size_t end = begin;
    while (end < kept.size() && !IsPythonSpace(kept[end])) ++end;
    if (end > begin) words.push_back(ToUtf8(std::u32string_view(kept).substr(begin, end - begin)));
    begin = end + 1;
  }
  return words;
}

AnswerMatch BestMatch(std::string_view answer, const std::vector<std::string>& right, NoWords no_words) {
  const std::vector<std::string> words = AnswerWords(answer);
  std::vector<std::string> sorted = words;
  std::sort(sorted.begin(), sorted.end());
  AnswerMatch best;
  for (const std::string& one : right) {
    const AnswerMatch match = Match(words, sorted, AnswerWords(one), no_words);
    best.exact = std::max(best.exact, match.exact);
    best.f1 = std::max(best.f1, match.f1);
  }
  return best;
}

namespace {

// RE2's \s: ASCII alone.
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'; }

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
    if (IsAsciiPunctuation(c)) {
      spaced.append({' ', c, ' '});
    } else {
      spaced += c;
    }
  }
  return CollapsedSpace(spaced);
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
