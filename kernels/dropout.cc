#include "crosstalk/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/dropout.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_DROPOUT_TABLE_
#define CROSSTALK_KERNELS_DROPOUT_TABLE_
namespace crosstalk::kernels {

template <typename T>
struct DropoutTile {
  int64_t count;
  uint32_t threshold;  // dropped where the 24 high bits of the element's number are less
  RandomKey key;
  uint64_t first_index;  // a multiple of 4
  const T* x;
  T scale;
  T* y;
};

}  // namespace crosstalk::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

using Tag32 = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<Tag32>;

// words[4 · lanes]: the words of blocks `block` … block + lanes - 1, as RandomKey::Block gives them. All blocks have
// the same high half of their number.
void PhiloxWords(const RandomKey& key, uint64_t block, uint32_t* words) {
  const Tag32 d;
  Words c0 = hn::Add(hn::Set(d, static_cast<uint32_t>(block)), hn::Iota(d, 0));
  Words c1 = hn::Set(d, static_cast<uint32_t>(block >> 32));
  Words c2 = hn::Set(d, key.step);
  Words c3 = hn::Set(d, key.stream);
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
#if HWY_TARGET != HWY_SCALAR
  const hn::Repartition<uint64_t, Tag32> d64;
  const Words m0 = hn::Set(d, 0xD2511F53u);
  const Words m1 = hn::Set(d, 0xCD9E8D57u);
  // The 64-bit products of all lanes, as their high and low halves.
  const auto multiply = [&](Words a, Words m, Words& high, Words& low) HWY_ATTR {
    const auto even = hn::MulEven(a, m);
    const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), m);
    high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
    low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  };
#else
  const Words m0 = hn::Set(d, 0xD2511F53u);
  const Words m1 = hn::Set(d, 0xCD9E8D57u);
  const auto multiply = [&](Words a, Words m, Words& high, Words& low) HWY_ATTR {
    const uint64_t product = static_cast<uint64_t>(hn::GetLane(a)) * hn::GetLane(m);
    high = hn::Set(d, static_cast<uint32_t>(product >> 32));
    low = hn::Set(d, static_cast<uint32_t>(product));
  };
#endif
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high1, low1;
    multiply(c0, m0, high0, low0);
    multiply(c2, m1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, words);
}

// y = 0 where the word says so, x · scale elsewhere.
template <typename T>
HWY_INLINE void Apply(int64_t n, const uint32_t* words, uint32_t threshold, const T* x, T scale, T* y) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> di;
    const auto limit = hn::Set(di, static_cast<int32_t>(threshold));
    const auto factor = hn::Set(d, scale);
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= n; i += lanes) {
      const auto high = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(Tag32(), words + i)));
      const auto dropped = hn::RebindMask(d, hn::Gt(limit, high));
      hn::StoreU(hn::IfThenZeroElse(dropped, hn::Mul(factor, hn::LoadU(d, x + i))), d, y + i);
    }
  }
  for (; i < n; ++i) y[i] = (words[i] >> 8) < threshold ? T(0) : x[i] * scale;
}

template <typename T>
void RunTile(const DropoutTile<T>& t) {
  const Tag32 d;
  const uint64_t lanes = hn::Lanes(d);
  HWY_ALIGN uint32_t words[4 * HWY_MAX_BYTES / sizeof(uint32_t)];
  int64_t done = 0;
  while (done < t.count) {
    const uint64_t block = (t.first_index + static_cast<uint64_t>(done)) / 4;
    int64_t n;
    if (static_cast<uint32_t>(block) <= UINT32_MAX - static_cast<uint32_t>(lanes)) {
      PhiloxWords(t.key, block, words);
      n = std::min<int64_t>(t.count - done, 4 * static_cast<int64_t>(lanes));
    } else {  // the low half of the block number is about to wrap
      const auto one = t.key.Block(block);
      std::copy(one.begin(), one.end(), words);
      n = std::min<int64_t>(t.count - done, 4);
    }
    Apply(n, words, t.threshold, t.x + done, t.scale, t.y + done);
    done += n;
  }
}

void DropoutFloat(const DropoutTile<float>& tile) { RunTile(tile); }
void DropoutDouble(const DropoutTile<double>& tile) { RunTile(tile); }

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

HWY_EXPORT(DropoutFloat);
HWY_EXPORT(DropoutDouble);

}  // namespace

template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, uint64_t first_index, const T* x, T* y) {
  CROSSTALK_DCHECK(rate >= 0 && rate < 1 && first_index % 4 == 0);
  // Uniform is bits · 2^-24 with 24 bits, so it is less than the rate exactly where bits < ⌈rate · 2^24⌉.
  const auto threshold = static_cast<uint32_t>(std::ceil(rate * 0x1p24));
  constexpr int64_t kTile = 8192;
  ParallelForRange(count, kTile, [&](int64_t begin, int64_t end) {
    const DropoutTile<T> tile{end - begin, threshold,
                              key,         first_index + static_cast<uint64_t>(begin),
                              x + begin,   static_cast<T>(1 / (1 - rate)),
                              y + begin};
    if constexpr (sizeof(T) == 4) {
      HWY_DYNAMIC_DISPATCH(DropoutFloat)(tile);
    } else {
      HWY_DYNAMIC_DISPATCH(DropoutDouble)(tile);
    }
  });
}

template void Dropout<float>(int64_t, double, const RandomKey&, uint64_t, const float*, float*);
template void Dropout<double>(int64_t, double, const RandomKey&, uint64_t, const double*, double*);

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
