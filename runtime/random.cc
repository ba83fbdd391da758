#include "crosstalk/runtime/random.h"

#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int64_t kFillGrain = 1 << 14;  // elements; part of no result

double ToUnit53(uint32_t high, uint32_t low) {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

template <typename Distribution>
void FillWith(const Tensor& tensor, const Distribution& distribution) {
  CROSSTALK_CHECK(tensor.is_contiguous(), "random fill: needs a contiguous tensor, got strides ", tensor.strides());
  Launch("random fill", tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* data = tensor.data<T>();
    ParallelForRange(tensor.num_elements(), kFillGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data[i] = static_cast<T>(distribution(static_cast<uint64_t>(i)));
    });
  });
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * counter[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> RandomKey::Block(uint64_t index) const {
  return Philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), step, stream},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

uint32_t RandomKey::Bits(uint64_t index) const { return Block(index / 4)[index % 4]; }

uint32_t StreamId(std::string_view purpose) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : purpose) hash = (hash ^ c) * 16777619u;
  return hash;
}

float Uniform(const RandomKey& key, uint64_t index) { return static_cast<float>(key.Bits(index) >> 8) * 0x1p-24f; }

double UniformDouble(const RandomKey& key, uint64_t index) {
  const auto block = key.Block(index);
  return ToUnit53(block[0], block[1]);
}

double Normal(const RandomKey& key, uint64_t index) {
  const auto block = key.Block(index);
  const uint64_t bits = (static_cast<uint64_t>(block[0]) << 32 | block[1]) >> 12;
  return InverseNormal((static_cast<double>(bits) + 0.5) * 0x1p-52);  // exact, and never 0 or 1
}

double TruncatedNormal(const RandomKey& key, uint64_t index) {
  constexpr double kTail = 0.022750131948179207;  // Phi(-2)
  return InverseNormal(kTail + (1 - 2 * kTail) * UniformDouble(key, index));
}

uint64_t UniformInt(const RandomKey& key, uint64_t index, uint64_t bound) {
  CROSSTALK_CHECK(bound >= 1, "UniformInt: the bound must be at least 1");
  const auto block = key.Block(index);
  const uint64_t bits = static_cast<uint64_t>(block[0]) << 32 | block[1];
  return static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * bound >> 64);
}

void FillUniform(const Tensor& tensor, const RandomKey& key, double low, double high) {
  FillWith(tensor, [&](uint64_t i) { return low + (high - low) * UniformDouble(key, i); });
}

void FillNormal(const Tensor& tensor, const RandomKey& key, double mean, double stddev) {
  FillWith(tensor, [&](uint64_t i) { return mean + stddev * Normal(key, i); });
}

void FillTruncatedNormal(const Tensor& tensor, const RandomKey& key, double stddev) {
  FillWith(tensor, [&](uint64_t i) { return stddev * TruncatedNormal(key, i); });
}

}  // namespace crosstalk
