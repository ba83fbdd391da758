#include "crosstalk/models/tasks/answer_text.h"

#include <algorithm>

#include "crosstalk/models/text/traced_text.h"

namespace crosstalk {
namespace {

// string.punctuation, of which utf8proc's categories and ours are no part.
bool IsAsciiPunctuationCode(char32_t code) { return code < 0x80 && IsPunctuation(code); }

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

std::vector<std::string> AnswerWords(std::string_view text) {
  std::u32string kept = LowerCaseOf(ToUtf32(text));
  std::erase_if(kept, IsAsciiPunctuationCode);
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

}  // namespace crosstalk
