// Sentences: where a text can be cut, and rows of whole sentences as numbered examples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// Sentences: where a text of any language can be cut, by a rule that needs no model.

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

// SentenceDataset: example index to consecutive sentences of one document, as a pure function of (seed, index), over a
// TextSource of any size.

struct EncodedSentence {
  std::string text;          // SentenceText
  std::vector<int32_t> ids;  // of the text alone; at least one
  bool spaced = true;        // white space stands before it: not in Chinese
};

// Thread-safe; keeps no state but its arguments.
class SentenceDataset {
 public:
  // Places are about `length` tokens apart. Error(kData) if the source has fewer, or has no sentence.
  SentenceDataset(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer, int64_t length,
                  uint64_t seed, TextSource::Order order);

  // The sentences from a place on until they have `tokens` tokens or their document ends. The first one is the first
  // that begins after the place; where what is left of that document has less than half of the tokens, the first one
  // of the next document. So each sentence of a long document is reached, and short documents are given whole.
  std::vector<EncodedSentence> Read(int64_t place, int64_t tokens) const;
  // In one pass over the source; INT64_MAX if it has no end.
  int64_t num_places() const { return places_.count; }

 private:
  std::shared_ptr<const TextSource> source_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  uint64_t seed_;
  TextSource::Order order_;
  TextPlaces places_;
};

}  // namespace crosstalk
