// ChunkDataset: example index to raw tokens, as a pure function of (seed, index), over a TextSource of any size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"

namespace crosstalk {

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
  // Chunks of exactly `length` tokens. Throws Error(kData) if the source is too short for one.
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
