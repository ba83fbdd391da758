#include "crosstalk/models/text/sentences.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "crosstalk/runtime/check.h"
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

namespace {

// A document, or a part of one, within a segment.
struct Part {
  std::string_view text;
  bool from_beginning;
  bool to_end;
};

// In a ring, the last part goes to the end of the text.
std::vector<Part> PartsOf(const TextSegment& segment, bool is_ring) {
  std::vector<Part> parts;
  const std::string_view text = segment.text;
  const std::vector<int64_t>& begins = segment.document_begins;
  if (begins.empty() || begins[0] > 0) {
    parts.push_back({text.substr(0, begins.empty() ? text.size() : begins[0]), false, !begins.empty() || is_ring});
  }
  for (size_t i = 0; i < begins.size(); ++i) {
    const bool last = i + 1 == begins.size();
    const int64_t end = last ? std::ssize(text) : begins[i + 1];
    parts.push_back({text.substr(begins[i], end - begins[i]), true, !last || is_ring});
  }
  return parts;
}

}  // namespace

SentenceDataset::SentenceDataset(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer,
                                 int64_t length, uint64_t seed, TextSource::Order order)
    : source_(std::move(source)), tokenizer_(std::move(tokenizer)), seed_(seed), order_(order) {
  CROSSTALK_CHECK(length >= 1, "dataset: places ", length, " tokens apart; must be at least 1");
  places_ = PlacesOf(*source_, *tokenizer_, length, length);
  Read(0, 1);  // that there is a sentence at all
}

std::vector<EncodedSentence> SentenceDataset::Read(int64_t place, int64_t tokens) const {
  const int64_t total = source_->num_bytes().value_or(std::numeric_limits<int64_t>::max());
  const auto likely = static_cast<int64_t>(places_.bytes_per_token * static_cast<double>(tokens));
  std::vector<EncodedSentence> sentences;
  // Sentence by sentence, from `text` on; true once they have as many tokens as are wanted.
  int64_t count = 0;
  const auto take = [&](std::string_view text, const std::vector<TextRange>& ranges) {
    for (const TextRange& range : ranges) {
      EncodedSentence sentence;
      sentence.spaced = range.begin == 0 || IsAsciiSpace(text[static_cast<size_t>(range.begin - 1)]);
      sentence.text = SentenceText(text, range);
      sentence.ids = tokenizer_->Encode(sentence.text);
      if (sentence.ids.empty()) continue;
      count += std::ssize(sentence.ids);
      sentences.push_back(std::move(sentence));
      if (count >= tokens) return true;
    }
    return false;
  };
  const auto start = [&] {
    sentences.clear();
    count = 0;
  };
  // The first guess holds an average text with the sentences at its ends that are left out.
  for (int64_t bytes = std::min(total, likely + likely / 4 + kLongestSentence);; bytes = std::min(total, 2 * bytes)) {
    const TextSegment segment = source_->ReadDocuments(seed_, place, places_.stride, bytes, order_);
    const bool is_ring = bytes == total;
    for (const Part& part : PartsOf(segment, is_ring)) {
      start();
      std::vector<TextRange> ranges = SplitSentences(part.text);
      // Where text is cut off on either side, so is the sentence there.
      if (!part.to_end && !ranges.empty()) ranges.pop_back();
      if (!part.from_beginning && !ranges.empty()) ranges.erase(ranges.begin());
      if (take(part.text, ranges)) return sentences;
      if (!part.to_end) break;  // it takes more text
      if (!sentences.empty() && (part.from_beginning || 2 * count >= tokens)) return sentences;
    }
    if (!is_ring) continue;
    // Not even one whole sentence: what there is.
    start();
    take(segment.text, SplitSentences(segment.text));
    if (sentences.empty()) Fail(ErrorKind::kData, source_->Describe(), ": there is no sentence in it");
    return sentences;
  }
}

}  // namespace crosstalk
