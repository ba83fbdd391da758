#include "crosstalk/models/tasks/winograd.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/models/text/traced_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The word with the pronoun in it marked; nothing if it is another word.
std::optional<std::string> Marked(std::string_view word, std::string_view pronoun) {
  const size_t at = word.find(pronoun);
  if (pronoun.empty() || at == std::string_view::npos) return std::nullopt;
  const std::string_view before = word.substr(0, at), after = word.substr(at + pronoun.size());
  const auto is_letter = [](char c) { return IsAsciiLetter(c) || (c & 0x80) != 0; };
  if (std::any_of(before.begin(), before.end(), is_letter) || std::any_of(after.begin(), after.end(), is_letter)) {
    return std::nullopt;
  }
  return StrCat(before, before.empty() ? "" : " ", "*", pronoun, "*", after.empty() ? "" : " ", after);
}

std::vector<std::string> CleanWords(std::string_view text) {
  static const std::set<std::string_view> determiners = {"a",     "an",    "few",  "her",   "his",   "each",  "every",
                                                         "many",  "much",  "my",   "our",   "some",  "that",  "the",
                                                         "their", "these", "this", "those", "which", "whose", "your"};
  text = Trimmed(text);
  TracedText traced = TraceText(text, 0, std::ssize(text));
  Apply({.kind = RewriteKind::kLowerCase}, &traced);
  std::vector<std::string> words = Split(ToUtf8(traced).text, ' ');
  std::erase_if(words, [](const std::string& word) { return determiners.count(word) > 0; });
  return words;
}

}  // namespace

std::string MarkPronoun(std::string_view text, std::string_view pronoun, int64_t index, const JsonReader& object,
                        const char* key) {
  std::vector<std::string> words = Split(text, ' ');
  const auto count = std::ssize(words);
  if (index < 0 || index >= count) object.FailAt(key, index, " is no word of a text of ", count);
  if (words[static_cast<size_t>(index)] == pronoun) {
    words[static_cast<size_t>(index)] = StrCat("*", pronoun, "*");
    return Join(words, " ");
  }
  for (int64_t distance = 0; distance < count; ++distance) {
    for (const int64_t at : {index + distance, index - distance}) {
      if (at < 0 || at >= count) continue;
      const std::optional<std::string> marked = Marked(words[static_cast<size_t>(at)], pronoun);
      if (!marked) continue;
      words[static_cast<size_t>(at)] = *marked;
      return std::string(Trimmed(Join(words, " ")));
    }
  }
  object.FailAt(key, "the text has no word ", Quoted(pronoun));
}

std::string ReferentIn(const std::string& text, const std::string& span, int64_t index) {
  if (text.find(span) != std::string::npos) return span;
  std::string found = Replaced(span, "\n", " ");
  while (found.ends_with('.')) found.pop_back();
  const std::vector<std::string> words = Split(text, ' ');
  if (!found.empty() && index >= 0 && index < std::ssize(words)) {
    const std::string& word = words[static_cast<size_t>(index)];
    if (!word.empty() && IsAsciiLetter(word[0]) && IsAsciiLetter(found[0])) {
      found[0] = static_cast<char>((found[0] & ~0x20) | (word[0] & 0x20));
    }
  }
  return text.find(found) != std::string::npos ? found : span;
}

std::optional<bool> NamesReferent(std::string_view words, std::string_view referent) {
  const std::vector<std::string> said = CleanWords(words), meant = CleanWords(referent);
  if (Join(said, " ").empty()) return std::nullopt;
  const auto has_apostrophe = [](const std::vector<std::string>& all) {
    return Join(all, " ").find('\'') != std::string::npos;
  };
  if (has_apostrophe(said) != has_apostrophe(meant)) return false;
  const std::set<std::string> a(said.begin(), said.end()), b(meant.begin(), meant.end());
  return std::includes(a.begin(), a.end(), b.begin(), b.end()) || std::includes(b.begin(), b.end(), a.begin(), a.end());
}

}  // namespace crosstalk
