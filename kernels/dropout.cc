#include <algorithm>
#include <cmath>

#include "crosstalk/kernels/elementwise.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/dropout.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/philox-inl.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// y = 0 where the 24 high bits of the element's word are below the threshold, x · scale elsewhere.
template <typename T>
HWY_INLINE void ApplyDropout(int64_t n, const uint32_t* words, uint32_t threshold, const T* x, T scale, T* y) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const hn::RebindToSigned<Tag<T>> di;
    const auto limit = hn::Set(di, static_cast<int32_t>(threshold));
    const auto factor = hn::Set(d, scale);
    for (; i + kLanesOf<T> <= n; i += kLanesOf<T>) {
      const auto high = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(Tag<uint32_t>(), words + i)));
      const auto dropped = hn::RebindMask(d, hn::Gt(limit, high));
      hn::StoreU(hn::IfThenZeroElse(dropped, hn::Mul(factor, hn::LoadU(d, x + i))), d, y + i);
    }
  }
  for (; i < n; ++i) y[i] = (words[i] >> 8) < threshold ? T(0) : x[i] * scale;
}

// Elements first … first + count - 1 of the whole array, of which x and y point to the first; it is a multiple of 4.
template <typename T>
void DropoutTile(int64_t first, int64_t count, const RandomKey& key, uint32_t threshold, const T* x, T scale, T* y) {
  // Two calls' words at a time, whose rounds overlap.
  constexpr int64_t kWords = 2 * 4 * kPhiloxBlocks;
  HWY_ALIGN uint32_t words[kWords];
  for (int64_t done = 0; done < count; done += kWords) {
    const uint64_t block = static_cast<uint64_t>(first + done) / 4;
    PhiloxWords(key, block, words);
    PhiloxWords(key, block + kPhiloxBlocks, words + 4 * kPhiloxBlocks);
    ApplyDropout(std::min(kWords, count - done), words, threshold, x + done, scale, y + done);
  }
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(DropoutTile)

#if HWY_ONCE
namespace crosstalk::kernels {

template <typename T>
void Dropout(int64_t count, double rate, const RandomKey& key, const T* x, T* y) {
  CROSSTALK_DCHECK(rate >= 0 && rate < 1);
  // Uniform is bits · 2^-24 with 24 bits, so it is less than the rate exactly where bits < ⌈rate · 2^24⌉.
  const auto threshold = static_cast<uint32_t>(std::ceil(rate * 0x1p24));
  const T scale = static_cast<T>(1 / (1 - rate));
  constexpr int64_t kTile = 8192;
  const auto tile = DropoutTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t begin, int64_t end) {
    tile(begin, end - begin, key, threshold, x + begin, scale, y + begin);
  });
}

CROSSTALK_INSTANTIATE(Dropout)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
