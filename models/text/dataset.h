// Numbered examples of a text: what an example of any number holds is a pure function of (seed, number).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

// ChunkDataset: example index to raw tokens, as a pure function of (seed, index), over a TextSource of any size.

// A key of random numbers for one example: independent of those of all other examples and purposes.

inline RandomKey ExampleKey(uint64_t seed, std::string_view purpose, int64_t example) {
  const std::array<uint32_t, 4> words = RandomKey{seed, StreamId(purpose), 0}.Block(static_cast<uint64_t>(example));
  return RandomKey{(uint64_t{words[0]} << 32) | words[1], words[2], words[3]};
}

// A random order of 0 … count-1 that is computed one place at a time, so it takes no memory whatever the count.

// The number at place `index` of a permutation of 0 … count-1 that the key chooses: a Feistel network of four rounds on
// the next power of four, walked until it falls below count. 0 ≤ index < count ≤ 2^62.
int64_t PermutedIndex(int64_t index, int64_t count, const RandomKey& key);

// Where an example begins in a ring of `size` elements, of which a pass takes one in `stride`:
// TextSource::ReadDocuments has the order.
int64_t PlaceInRing(int64_t size, int64_t stride, uint64_t seed, int64_t example, TextSource::Order order);

// A sample of a text, evenly spread: for training a tokenizer, measuring, and telling corpora apart.

// `count` segments of at least `bytes` bytes, evenly spread over the source, or as many as cover it where fewer do;
// the first ones of a source without an end. A pure function of its arguments.
class SegmentSampler {
 public:
  static constexpr int64_t kEndlessSample = 1'000'000;  // bytes

  // `source` must outlive this object. count and bytes must be at least 1.
  SegmentSampler(const TextSource& source, int64_t count, int64_t bytes);
  // Segments of about `bytes` bytes that cover `most_bytes` of the source: all of it if it has fewer, and of one
  // without an end kEndlessSample if that is less.
  static SegmentSampler Covering(const TextSource& source, int64_t bytes, int64_t most_bytes = INT64_MAX);
  // The next segment, or false after the last one.
  bool Next(std::string* text);

 private:
  const TextSource& source_;
  int64_t count_;
  int64_t bytes_;
  int64_t stride_;
  int64_t next_ = 0;
};

// Places in a source that are about so many tokens apart.
struct TextPlaces {
  double bytes_per_token;  // measured on a sample of the source
  int64_t stride;          // bytes from one place to the next
  int64_t count;           // in one pass over the source; INT64_MAX if it has no end
};
// Error(kData) if the source has fewer than `least` tokens.
TextPlaces PlacesOf(const TextSource& source, const Tokenizer& tokenizer, int64_t length, int64_t least);

// Thread-safe; keeps no state but its arguments, so a resumed run needs only the number of the next example.
class ChunkDataset {
 public:
  // Chunks of exactly `length` tokens, of a text or of its ids. Throws Error(kData) if the source is too short for one.
  ChunkDataset(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer, int64_t length,
               uint64_t seed, TextSource::Order order);

  // The tokens of example ≥ 0, `length` of them.
  std::vector<int32_t> Chunk(int64_t example) const;
  // The same tokens, each with its bytes in the text that they were cut from.
  ChunkLocation LocateChunk(int64_t example) const;
  // TextSource::EntropyBound of that chunk; hidden has length() entries.
  std::optional<double> EntropyBound(int64_t example, const std::vector<bool>& hidden) const;
  // TextSource::AskedFor of that chunk; where the source asks for all, without reading it.
  std::vector<bool> AskedFor(int64_t example) const;
  // Number of chunks in one pass over the source; INT64_MAX if it has no end.
  int64_t chunks_per_epoch() const { return places_.count; }
  int64_t length() const { return length_; }
  // Measured on a sample of the source.
  double bytes_per_token() const { return places_.bytes_per_token; }

 private:
  template <typename Tokens, typename Encode>
  Tokens Read(int64_t example, std::string* text, const Encode& encode) const;

  std::shared_ptr<const TextSource> source_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t length_;
  uint64_t seed_;
  TextSource::Order order_;
  TextPlaces places_ = {};
};

}  // namespace crosstalk
