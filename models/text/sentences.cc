#include "crosstalk/models/text/sentences.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

using Characters = std::span<const std::string_view>;

constexpr std::string_view kMarks[] = {".", "!", "?", "…", "।", "۔", "؟", "。", "！", "？", "｡"};
constexpr std::string_view kWideMarks[] = {"。", "！", "？", "｡"};
constexpr std::string_view kClosing[] = {"\"", "'", ")", "]", "}", "”", "’", "»", "›", "」", "』", "）", "】", "》"};
constexpr std::string_view kOpening[] = {"\"", "'", "(", "[", "{", "“", "‘",  "«",  "‹",  "„",  "‚", "¿",
                                         "¡",  "-", "–", "—", "_", "*", "「", "『", "（", "【", "《"};
constexpr std::string_view kGoingOn[] = {",", ";", ":", ".", "!", "?", "…", ")", "]", "}", "»", "›", "”"};
// Before a name, a number or another word of the same sentence.
constexpr std::string_view kAbbreviations[] = {
    "Mr",  "Mrs",  "Ms", "Messrs", "Dr",  "Prof", "St",  "Rev", "Hon", "Gen", "Col", "Capt", "Lieut", "Lt", "Sgt",
    "Mme", "Mlle", "vs", "cf",     "viz", "Fig",  "fig", "Vol", "vol", "Ch",  "pp",  "Hr",   "Fr",    "bzw"};

// The one of `characters` that text[at] begins with; empty if none.
std::string_view Match(std::string_view text, size_t at, Characters characters) {
  for (const std::string_view one : characters) {
    if (text.substr(at, one.size()) == one) return one;
  }
  return {};
}

size_t Skip(std::string_view text, size_t at, Characters characters) {
  while (true) {
    const std::string_view one = Match(text, at, characters);
    if (one.empty()) return at;
    at += one.size();
  }
}

struct Space {
  size_t end;
  bool ends_paragraph;  // it holds a blank line
};
Space SkipSpace(std::string_view text, size_t at) {
  int line_ends = 0;
  for (; at < text.size() && IsAsciiSpace(text[at]); ++at) line_ends += text[at] == '\n';
  return {at, line_ends >= 2};
}

// ß … ÿ, ά … ώ, а … џ, by the bytes of their UTF-8.
bool IsSmallLetter(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const auto second = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
  switch (first) {
    case 0xC3:
      return second >= 0x9F;
    case 0xCE:
      return second >= 0xAC;
    case 0xCF:
      return second <= 0x8E;
    case 0xD0:
      return second >= 0xB0;
    case 0xD1:
      return second <= 0x9F;
    default:
      return first >= 'a' && first <= 'z';
  }
}

// Whether the full stop at text[at] belongs to the word before it.
bool IsAbbreviation(std::string_view text, size_t at) {
  size_t word = at;
  while (word > 0 && IsAsciiLetter(text[word - 1])) --word;
  const std::string_view letters = text.substr(word, at - word);
  if (letters.empty() || (word > 0 && static_cast<unsigned char>(text[word - 1]) >= 0x80)) return false;
  if (letters.size() == 1) return letters[0] <= 'Z' && letters[0] != 'I';
  return std::find(std::begin(kAbbreviations), std::end(kAbbreviations), letters) != std::end(kAbbreviations);
}

// After opening marks and the spaces after them.
size_t SkipOpening(std::string_view text, size_t at) {
  for (size_t end = Skip(text, at, kOpening); end > at; end = Skip(text, at, kOpening)) {
    const Space space = SkipSpace(text, end);
    if (space.ends_paragraph) return end;
    at = space.end;
  }
  return at;
}

// Where a sentence ends that goes to a mark at [at, after), if it ends there; else 0. text.size() where the text does
// not go far enough to tell: more text could still go on with the sentence.
size_t EndAtMark(std::string_view text, size_t at, size_t after) {
  const bool one_stop = text.substr(at, after - at) == ".";
  const size_t closed = Skip(text, after, kClosing);
  if (closed == text.size()) return closed;
  for (size_t i = at; i < after; i += Match(text, i, kMarks).size()) {
    if (!Match(text, i, kWideMarks).empty()) return closed;
  }
  const Space space = SkipSpace(text, closed);
  if (space.end == closed) return 0;
  if (space.ends_paragraph) return closed;
  if (space.end == text.size()) return space.end;
  const size_t letter = SkipOpening(text, space.end);
  if (letter == text.size()) return letter;
  if (IsSmallLetter(text, letter) || !Match(text, letter, kGoingOn).empty()) return 0;
  return one_stop && closed == after && IsAbbreviation(text, at) ? 0 : closed;
}

constexpr auto kLongest = static_cast<size_t>(kLongestSentence);

// Where the sentence ends that `text` begins with.
size_t SentenceEnd(std::string_view text) {
  const std::string_view rest = text.substr(0, 2 * kLongest);  // no more is looked at
  size_t last_space = 0;
  for (size_t i = 0; i < rest.size() && i <= kLongest;) {
    if (IsAsciiLetter(rest[i])) {  // most of a text, quickly
      ++i;
      continue;
    }
    if (IsAsciiSpace(rest[i])) {
      last_space = i;
      const Space space = SkipSpace(rest, i);
      if (space.ends_paragraph) return i;
      i = space.end;
      continue;
    }
    const size_t after = Skip(rest, i, kMarks);
    if (after == i) {
      i += std::max<size_t>(1, Utf8Length(rest, i));
      continue;
    }
    const size_t end = EndAtMark(rest, i, after);
    if (end == text.size() || (end > 0 && end <= kLongest)) return end;
    i = after;
  }
  if (text.size() <= kLongest) return text.size();
  if (last_space > 0) return last_space;
  size_t cut = kLongest;
  while (IsUtf8Continuation(text[cut])) --cut;
  return cut;
}

}  // namespace

std::vector<TextRange> SplitSentences(std::string_view text) {
  std::vector<TextRange> sentences;
  for (size_t begin = SkipSpace(text, 0).end; begin < text.size();) {
    const size_t next = begin + SentenceEnd(text.substr(begin));
    size_t end = next;
    while (end > begin && IsAsciiSpace(text[end - 1])) --end;
    sentences.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
    begin = SkipSpace(text, next).end;
  }
  return sentences;
}

std::string SentenceText(std::string_view text, const TextRange& sentence) {
  std::string words;
  for (int64_t i = sentence.begin; i < sentence.end; ++i) {
    const char byte = text[static_cast<size_t>(i)];
    if (!IsAsciiSpace(byte)) {
      words += byte;
    } else if (!words.empty() && words.back() != ' ') {
      words += ' ';
    }
  }
  return words;
}

}  // namespace crosstalk
