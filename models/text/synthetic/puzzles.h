// Built-in puzzles: text without an end whose last letters follow from the ones before, and from nothing else. A model
// of next tokens is asked for these letters alone, so its loss says how far it solves them: 0 where it does, ln 26
// where it guesses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"

namespace crosstalk {

// Lines of puzzles, and which of their bytes follow from those before. The targets are in brackets here:
//   retrieval      kQbXwA…;w[A]k[Q]…      15 pairs of a key and its value, then the keys in another order
//   copying        qmcz…;[qmcz…]          31 letters, then the same
//   letter-blocks  abcd efgh …?gf[efgh]…  6 blocks of four different letters, then three times two letters of a block:
//                                         the first block that has both. After Golovneva et al., "Multi-Token
//                                         Attention" (2025), section 4.1.
struct Puzzles {
  std::string text;
  std::vector<bool> asked;  // by byte
};
// At least `min_bytes` of them, a pure function of the others. More bytes begin with fewer.
Puzzles WritePuzzles(CorpusKind kind, uint64_t seed, int64_t example, int64_t min_bytes);

// One part of such a text. Example i is sequence first + i of lines from its beginning, whatever the stride and order.
class PuzzleSource : public TextSource {
 public:
  PuzzleSource(CorpusKind kind, uint64_t seed, int64_t first) : kind_(kind), seed_(seed), first_(first) {}

  std::string Describe() const override;
  std::optional<int64_t> num_bytes() const override { return std::nullopt; }
  TextSegment ReadDocuments(uint64_t seed, int64_t example, int64_t stride, int64_t min_bytes,
                            Order order) const override;
  bool asks_for_all() const override { return false; }
  // A token is asked for where all of its bytes are.
  std::vector<bool> AskedFor(int64_t example, const ChunkLocation& chunk) const override;
  // 0 where nothing is hidden but what is asked for; otherwise unknown.
  std::optional<double> EntropyBound(int64_t example, const ChunkLocation& chunk, const std::vector<bool>& hidden,
                                     const Tokenizer& tokenizer) const override;

 private:
  CorpusKind kind_;
  uint64_t seed_;
  int64_t first_;
};

// Both parts, with no sequence in common. Not of stories, which are in synthetic_corpus.h.
TextCorpus MakePuzzleCorpus(CorpusKind kind, uint64_t seed);

}  // namespace crosstalk
