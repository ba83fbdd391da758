// Sentences: where a text of any language can be cut, by a rule that needs no model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace crosstalk {

// Bytes from which on a sentence is cut: about 70 English words or 130 Chinese characters.
inline constexpr int64_t kLongestSentence = 400;

// Bytes [begin, end) of a text.
struct TextRange {
  int64_t begin;
  int64_t end;

  friend bool operator==(const TextRange&, const TextRange&) = default;
};

// The sentences of one document (UTF-8), in order, without the white space between them. A sentence ends
//   - at a blank line, which ends a paragraph, and at the end of the text; a single line end is a space;
//   - after . ! ? … । ۔ ؟ (one or several, with the closing quotes and brackets after them), if white space follows,
//     and the first character after it that is no opening quote, bracket or dash is no small letter (Latin, Greek or
//     Cyrillic) and no mark of punctuation that goes on, such as a comma;
//     but not after a single full stop after an abbreviation (Mr Mrs Ms Dr St …: the list is in sentences.cc) or after
//     an initial, a capital letter alone, I excepted;
//   - after 。！？｡ (likewise), whatever follows;
//   - where it would have more than kLongestSentence bytes: at its last white space before that, or at a character if
//     it has none.
// The sentences of the beginning of a text are those of the text, except the last one.
std::vector<TextRange> SplitSentences(std::string_view text);

// The bytes of a sentence, each run of white space as one space.
std::string SentenceText(std::string_view text, const TextRange& sentence);

}  // namespace crosstalk
