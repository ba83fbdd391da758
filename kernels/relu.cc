#include <algorithm>

#include "crosstalk/kernels/elementwise.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/relu.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// Vectors of at most the eight elements whose signs a byte holds.
template <class T>
using ByteTag = hn::CappedTag<T, 8>;

template <typename T>
void ReluTile(int64_t n, const T* x, T* y, uint8_t* positive) {
  const ByteTag<T> d;
  const auto zero = hn::Zero(d);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t byte = 0; byte < n / 8; ++byte) {
    unsigned bits = 0;
    for (int64_t i = 0; i < 8; i += lanes) {
      const auto v = hn::LoadU(d, x + 8 * byte + i);
      uint8_t part[8] = {};  // StoreMaskBits may write eight bytes
      hn::StoreMaskBits(d, hn::Gt(v, zero), part);
      bits |= static_cast<unsigned>(part[0]) << i;
      hn::StoreU(hn::IfThenElse(hn::Lt(v, zero), zero, v), d, y + 8 * byte + i);
    }
    positive[byte] = static_cast<uint8_t>(bits);
  }
  unsigned bits = 0;
  for (int64_t i = n / 8 * 8; i < n; ++i) {
    bits |= unsigned{x[i] > 0} << i % 8;
    y[i] = x[i] < 0 ? T(0) : x[i];
  }
  if (n % 8 != 0) positive[n / 8] = static_cast<uint8_t>(bits);
}

template <typename T>
void ReluGradientTile(int64_t n, const uint8_t* positive, const T* dy, T* dx) {
  const ByteTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t byte = 0; byte < n / 8; ++byte) {
    for (int64_t i = 0; i < 8; i += lanes) {
      const uint8_t part[8] = {static_cast<uint8_t>(positive[byte] >> i)};  // LoadMaskBits may read eight bytes
      hn::StoreU(hn::IfThenElseZero(hn::LoadMaskBits(d, part), hn::LoadU(d, dy + 8 * byte + i)), d, dx + 8 * byte + i);
    }
  }
  for (int64_t i = n / 8 * 8; i < n; ++i) dx[i] = (positive[i / 8] >> i % 8 & 1) != 0 ? dy[i] : T(0);
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(ReluTile)
CROSSTALK_DISPATCH(ReluGradientTile)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr int64_t kTile = 8192;  // elements of a task; whole bytes of signs

}  // namespace

template <typename T>
void Relu(int64_t count, const T* x, T* y, uint8_t* positive) {
  const auto relu = ReluTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { relu(e - b, x + b, y + b, positive + b / 8); });
}

template <typename T>
void ReluGradient(int64_t count, const uint8_t* positive, const T* dy, T* dx) {
  const auto gradient = ReluGradientTileOnTarget<T>();
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) { gradient(e - b, positive + b / 8, dy + b, dx + b); });
}

CROSSTALK_INSTANTIATE(Relu)
CROSSTALK_INSTANTIATE(ReluGradient)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
