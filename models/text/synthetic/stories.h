// The built-in stories: how one is written, the endless corpus of them, and a bound on their entropy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

// WriteStory: one story of the built-in corpus, with the choices that went into it.

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

#pragma GCC visibility push(default)
namespace crosstalk {

// The built-in corpus: unlimited English-like stories from a seeded generator, made so that a hidden word is often
// told by words far away (names and their pronouns, facts, quotes, counts and sums, agreement), and so that the
// entropy of what is written is known exactly.

// One part of the built-in corpus. It has no end: Example i is story first + i from its beginning, whatever
// the seed, stride and order.
class SyntheticSource : public TextSource {
 public:
  SyntheticSource(uint64_t seed, int64_t first) : seed_(seed), first_(first) {}

  std::string Describe() const override;
  std::optional<int64_t> num_bytes() const override { return std::nullopt; }
  TextSegment ReadDocuments(uint64_t seed, int64_t example, int64_t stride, int64_t min_bytes,
                            Order order) const override;
  // StoryEntropyBound of story_entropy_bound.h.
  std::optional<double> EntropyBound(int64_t example, const ChunkLocation& chunk, const std::vector<bool>& hidden,
                                     const Tokenizer& tokenizer) const override;

 private:
  uint64_t seed_;
  int64_t first_;
};

// Both parts, with no story in common.
TextCorpus MakeSyntheticCorpus(uint64_t seed);

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// A lower bound on the loss of any model that restores hidden tokens of a built-in story.

// In nats: a lower bound, in expectation, on the negative log-likelihood that any model can reach on the hidden ones of
// `tokens`, which are cut from the beginning of `story`; hidden[i] says whether tokens[i] is hidden.
// It is the entropy of the words drawn whose every mention in the tokens is hidden, given everything else that was
// drawn, which tokens are hidden, and the number of tokens of each word: information that a model does not have in
// full. Left out, so the bound is not tight: hidden choices of what kind of sentence comes next, words half hidden,
// counts that also occur in a sum, and where each hidden span ends.
double StoryEntropyBound(const Story& story, const std::vector<TokenSpan>& tokens, const std::vector<bool>& hidden,
                         const Tokenizer& tokenizer);

}  // namespace crosstalk
