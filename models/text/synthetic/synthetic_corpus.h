// The built-in corpus: unlimited English-like stories from a seeded generator, made so that a hidden word is often
// told by words far away (names and their pronouns, facts, quotes, counts and sums, agreement), and so that the
// entropy of what is written is known exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
