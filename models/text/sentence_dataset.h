// SentenceDataset: example index to consecutive sentences of one document, as a pure function of (seed, index), over a
// TextSource of any size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/dataset.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

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
