// WriteStory: one story of the built-in corpus, with the choices that went into it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

// A place in the text that shows a free choice.
struct ChoiceMention {
  int64_t begin;  // bytes [begin, end) of the text
  int64_t end;
  int column;        // which form of the word stands there (a noun's plural, …); -1: derived from it, as a sum is
  bool capitalised;  // it opens a sentence
};

// A word drawn from a table. All that depends on which word was drawn is in `mentions`: what kind of sentence follows,
// and everything else, does not.
struct WordChoice {
  int table;
  int row;
  int group;  // choices of one table and group differ from each other; -1: drawn independently
  std::vector<ChoiceMention> mentions;
};

struct Story {
  std::string text;
  double nats = 0;  // -ln of the probability of all choices made in the writing of `text`
  std::vector<WordChoice> choices;
};

// The story number `index`: a pure function of (seed, index), the same bytes on every machine. A story has no end:
// what is returned is the beginning, whole sentences, at least min_bytes long; a longer one starts with the same text.
Story WriteStory(uint64_t seed, int64_t index, int64_t min_bytes);

}  // namespace crosstalk
