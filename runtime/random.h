// Random numbers as a pure function of (seed, stream, step, index): Philox 4x32-10, with our own distributions, so
// that the same key gives the same bits with every compiler, thread count and starting point.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// One block of the generator: 128 random bits from a 128-bit counter and a 64-bit key.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Names what the numbers are for. Two keys that differ in any field give independent sequences.
struct RandomKey {
  uint64_t seed = 0;
  uint32_t stream = 0;  // a purpose: see StreamId
  uint32_t step = 0;    // a training step, an example number's high part, …

  // The four words for block `index` (each block serves four indices).
  std::array<uint32_t, 4> Block(uint64_t index) const;
  // The 32 bits that belong to `index`: word index%4 of block index/4.
  uint32_t Bits(uint64_t index) const;
};

// A stream number from a purpose written out ("encoder.block_0.dropout"): 32-bit FNV-1a of the text.
uint32_t StreamId(std::string_view purpose);

// Distributions at one index. Uniform in [0, 1) with 24 bits; the normal (at most 8.3 standard deviations) and the
// truncated normal (cut at ±2) in double, by the inverse of the distribution function.
float Uniform(const RandomKey& key, uint64_t index);
double UniformDouble(const RandomKey& key, uint64_t index);  // 53 bits, from block `index`
double Normal(const RandomKey& key, uint64_t index);
double TruncatedNormal(const RandomKey& key, uint64_t index);
// Uniform integer in [0, bound), bound ≥ 1, without bias worth measuring (64-bit multiply-shift).
uint64_t UniformInt(const RandomKey& key, uint64_t index, uint64_t bound);

// Fills `tensor` (float or double, contiguous): element i from index i. Threaded; the bits depend on the key alone.
void FillUniform(const Tensor& tensor, const RandomKey& key, double low, double high);
void FillNormal(const Tensor& tensor, const RandomKey& key, double mean, double stddev);
void FillTruncatedNormal(const Tensor& tensor, const RandomKey& key, double stddev);  // mean 0, cut at ±2 stddev

// A sequence for code that draws one number after another; same key, same sequence.
class RandomSequence {
 public:
  explicit RandomSequence(const RandomKey& key) : key_(key) {}
  float Uniform() { return crosstalk::Uniform(key_, next_++); }
  double UniformDouble() { return crosstalk::UniformDouble(key_, next_++); }
  double Normal() { return crosstalk::Normal(key_, next_++); }
  uint64_t UniformInt(uint64_t bound) { return crosstalk::UniformInt(key_, next_++, bound); }

 private:
  RandomKey key_;
  uint64_t next_ = 0;
};

}  // namespace crosstalk
#pragma GCC visibility pop
