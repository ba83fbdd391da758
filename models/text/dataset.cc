#include "crosstalk/models/text/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"

namespace crosstalk {

int64_t PermutedIndex(int64_t index, int64_t count, const RandomKey& key) {
  CROSSTALK_CHECK(index >= 0 && index < count && count <= int64_t{1} << 62, "permutation: index ", index, " of ",
                  count);
  int half = 1;  // bits of each half
  while (half < 31 && int64_t{1} << (2 * half) < count) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t mixed = key.Block((round << 32) | right)[0] & mask;
      const uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    value = (left << half) | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

int64_t PlaceInRing(int64_t size, int64_t stride, uint64_t seed, int64_t example, TextSource::Order order) {
  const int64_t per_epoch = std::max<int64_t>(1, size / stride);
  if (order == TextSource::Order::kSequential) return example % per_epoch * stride;
  const RandomKey key = ExampleKey(seed, "models.text.corpus", example / per_epoch);
  const auto offset = static_cast<int64_t>(UniformInt(key, ~uint64_t{0}, size));
  return (PermutedIndex(example % per_epoch, per_epoch, key) * stride + offset) % size;
}

SegmentSampler::SegmentSampler(const TextSource& source, int64_t count, int64_t bytes)
    : source_(source), count_(count), bytes_(bytes), stride_(bytes) {
  CROSSTALK_CHECK(count >= 1 && bytes >= 1, "sample: ", count, " segments of ", bytes,
                  " bytes; both must be at least 1");
  if (!source.num_bytes()) return;
  const int64_t total = std::max<int64_t>(1, *source.num_bytes());
  bytes_ = std::min(bytes, total);
  count_ = std::min(count, (total + bytes_ - 1) / bytes_);
  stride_ = std::max<int64_t>(1, total / count_);
}

SegmentSampler SegmentSampler::Covering(const TextSource& source, int64_t bytes, int64_t most_bytes) {
  const int64_t wanted = std::min(source.num_bytes().value_or(kEndlessSample), most_bytes);
  return SegmentSampler(source, std::max<int64_t>(1, CeilDivide(wanted, bytes)), bytes);
}

bool SegmentSampler::Next(std::string* text) {
  if (next_ == count_) return false;
  *text = source_.ReadSegment(0, next_++, stride_, bytes_, TextSource::Order::kSequential);
  return true;
}

namespace {

constexpr int64_t kSamples = 8;  // segments that bytes_per_token is measured on
constexpr int64_t kSampleBytes = 2048;
// A chunk that begins elsewhere may cut one word at each end into more tokens.
constexpr int64_t kTokensToSpare = 2;

}  // namespace

TextPlaces PlacesOf(const TextSource& source, const Tokenizer& tokenizer, int64_t length, int64_t least) {
  SegmentSampler samples(source, kSamples, kSampleBytes);
  int64_t bytes = 0, sampled_tokens = 0;
  for (std::string text; samples.Next(&text);) {
    bytes += static_cast<int64_t>(text.size());
    sampled_tokens += static_cast<int64_t>(tokenizer.Encode(text).size());
  }
  TextPlaces places;
  places.bytes_per_token = static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, sampled_tokens));
  places.stride = std::max<int64_t>(1, static_cast<int64_t>(places.bytes_per_token * static_cast<double>(length)));
  places.count = std::numeric_limits<int64_t>::max();
  if (!source.num_bytes()) return places;
  const int64_t total = *source.num_bytes();
  places.count = std::max<int64_t>(1, total / places.stride);
  if (total > 16 * places.stride) return places;
  const std::string all = source.ReadSegment(0, 0, 1, total, TextSource::Order::kSequential);
  const auto tokens = static_cast<int64_t>(tokenizer.Encode(all).size());
  if (tokens < least) {
    Fail(ErrorKind::kData, source.Describe(), ": too short for one example: ", tokens, " tokens, where one takes ",
         least, ": give more text or shorter inputs");
  }
  return places;
}

ChunkDataset::ChunkDataset(std::shared_ptr<const TextSource> source, std::shared_ptr<const Tokenizer> tokenizer,
                           int64_t length, uint64_t seed, TextSource::Order order)
    : source_(std::move(source)), tokenizer_(std::move(tokenizer)), length_(length), seed_(seed), order_(order) {
  CROSSTALK_CHECK(length >= 2, "dataset: chunks of ", length, " tokens; must be at least 2");
  const std::vector<int32_t>* const ids = source_->ids();
  if (ids == nullptr) {
    places_ = PlacesOf(*source_, *tokenizer_, length, length + kTokensToSpare);
    return;
  }
  if (std::ssize(*ids) < length) {
    Fail(ErrorKind::kData, source_->Describe(), ": too short for one example, which takes ", length,
         ": give more or shorter inputs");
  }
  places_ = {.bytes_per_token = 1, .stride = length, .count = std::ssize(*ids) / length};
}

template <typename Tokens, typename Encode>
Tokens ChunkDataset::Read(int64_t example, std::string* text, const Encode& encode) const {
  const int64_t total = source_->num_bytes().value_or(std::numeric_limits<int64_t>::max());
  // The first guess is an eighth more than the average. Denser text takes a longer segment, which begins with the
  // shorter one.
  for (int64_t bytes = std::min(total, places_.stride + places_.stride / 8 + 64);; bytes = std::min(total, 2 * bytes)) {
    *text = source_->ReadSegment(seed_, example, places_.stride, bytes, order_);
    Tokens tokens = encode(*text);
    if (static_cast<int64_t>(tokens.size()) >= length_) {
      tokens.resize(length_);
      return tokens;
    }
    if (bytes == total) {
      Fail(ErrorKind::kData, source_->Describe(), ": too short for one example of ", length_, " tokens");
    }
  }
}

std::vector<int32_t> ChunkDataset::Chunk(int64_t example) const {
  if (const std::vector<int32_t>* const ids = source_->ids()) {
    CROSSTALK_CHECK(example >= 0, "dataset: example ", example, " must not be negative");
    const auto from = ids->begin() + PlaceInRing(std::ssize(*ids), length_, seed_, example, order_);
    std::vector<int32_t> chunk(from, from + std::min(length_, std::distance(from, ids->end())));
    chunk.insert(chunk.end(), ids->begin(), ids->begin() + (length_ - std::ssize(chunk)));
    return chunk;
  }
  std::string text;
  return Read<std::vector<int32_t>>(example, &text, [&](const std::string& t) { return tokenizer_->Encode(t); });
}

ChunkLocation ChunkDataset::LocateChunk(int64_t example) const {
  ChunkLocation chunk;
  chunk.tokens = Read<std::vector<TokenSpan>>(example, &chunk.text,
                                              [&](const std::string& t) { return tokenizer_->EncodeSpans(t); });
  return chunk;
}

std::vector<bool> ChunkDataset::AskedFor(int64_t example) const {
  if (source_->asks_for_all()) return std::vector<bool>(static_cast<size_t>(length_), true);
  return source_->AskedFor(example, LocateChunk(example));
}

std::optional<double> ChunkDataset::EntropyBound(int64_t example, const std::vector<bool>& hidden) const {
  if (source_->ids() != nullptr) return std::nullopt;
  return source_->EntropyBound(example, LocateChunk(example), hidden, *tokenizer_);
}

}  // namespace crosstalk
