// What every SIMD kernel file shares, compiled once for each instruction set: vector loads and stores of a remainder,
// functions that Highway lacks or leaves undefined at the ends of their range, and blocked sums. Included after
// hwy/foreach_target.h, like any per-target header; hence no #pragma once.
#if defined(CROSSTALK_KERNELS_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_SIMD_INL_H_
#undef CROSSTALK_KERNELS_SIMD_INL_H_
#else
#define CROSSTALK_KERNELS_SIMD_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Before a loop over registers.
#define CROSSTALK_UNROLL _Pragma("GCC unroll 16")

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
inline constexpr int kLanesOf = HWY_LANES(T);

// Brings what a product will read next into the second-level cache while it runs, `step` elements for each step of k:
// the hardware's own prefetchers lag behind at the third level's latency. Spread evenly, because only a dozen lines can
// be on their way at a time.
template <class T>
struct PrefetchSpread {
  const T* from;
  int64_t step;
  HWY_INLINE void Next() {
    __builtin_prefetch(from, 0, 2);
    from += step;
  }
  HWY_INLINE void Skip(int64_t steps) { from += steps * step; }
};

// The first n < Lanes(d) elements at p, zeros above. Native masked loads where they cannot touch memory behind p + n,
// a copy through the stack elsewhere.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T* p, size_t n) {
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(buffer, p, n * sizeof(T));
  return hn::Load(d, buffer);
#endif
}

// Writes the first n < Lanes(d) lanes to p and nothing else.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T* p, size_t n) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, n * sizeof(T));
#endif
}

// Calls full(i) for every whole vector of [0, count), then rest(i, n) once if n > 0 elements remain.
template <class D, class Full, class Rest>
HWY_INLINE void ForVectors(D d, int64_t count, Full full, Rest rest) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) full(i);
  if (i < count) rest(i, static_cast<size_t>(count - i));
}

// y[i] = f(x[i]…): the remainder goes through the same vector arithmetic, so an element's bits do not depend on its
// place in the array.
template <class T, class F>
HWY_INLINE void Map1(int64_t count, const T* x, T* y, F f) {
  const Tag<T> d;
  ForVectors(
      d, count, [&](int64_t i) HWY_ATTR { hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i); },
      [&](int64_t i, size_t n) HWY_ATTR { StoreFirst(f(LoadFirst(d, x + i, n)), d, y + i, n); });
}
template <class T, class F>
HWY_INLINE void Map2(int64_t count, const T* a, const T* b, T* y, F f) {
  const Tag<T> d;
  ForVectors(
      d, count, [&](int64_t i) HWY_ATTR { hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i); },
      [&](int64_t i, size_t n)
          HWY_ATTR { StoreFirst(f(LoadFirst(d, a + i, n), LoadFirst(d, b + i, n)), d, y + i, n); });
}

// A sum in blocks of this many elements: lanes within a block, blocks in double.
inline constexpr int64_t kSumBlock = 2048;

// Σ_i term(v_i) where term gets whole vectors (load(i)) and a last one (load_rest(i, n)) whose missing lanes it must
// make 0. Four accumulators hide the latency of the addition.
template <class T, class Full, class Rest>
HWY_INLINE double SumVectors(int64_t count, Full full, Rest rest) {
  const Tag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = hn::Add(s0, full(i));
      s1 = hn::Add(s1, full(i + lanes));
      s2 = hn::Add(s2, full(i + 2 * lanes));
      s3 = hn::Add(s3, full(i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) s0 = hn::Add(s0, full(i));
    if (i < end) s1 = hn::Add(s1, rest(i, static_cast<size_t>(end - i)));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))));
  }
  return total;
}

// e^x, within 1 ulp; NaN stays NaN, overflow gives infinity, x below the range of subnormals gives 0. For float and
// double. The attention has a shorter one, Exponential in attention/elements-inl.h: float, x ≤ 88, accurate relative
// to e^0 only.
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V ExpFull(D d, V x) {
  const V limit = hn::Set(d, static_cast<T>(sizeof(T) == 4 ? 104 : 720));
  const V clamped = hn::IfThenElse(hn::Gt(x, limit), limit, x);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, clamped));
}

// log x, within 4 ulp; log 0 = -infinity, NaN below.
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V LogFull(D d, V x) {
  const V zero = hn::Zero(d);
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  return hn::IfThenElse(hn::Ge(x, zero), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
}

// tanh x, within 4 ulp.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TanhFull(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
}

// 1 / (1 + e^-x).
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, T(1));
  return hn::Div(one, hn::Add(one, ExpFull(d, hn::Neg(x))));
}

// f(x) lane by lane, for functions that have no vector form in this precision.
template <class D, class F, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V LaneByLane(D d, V x, F f) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(x, d, buffer);
  for (size_t i = 0; i < hn::Lanes(d); ++i) buffer[i] = f(buffer[i]);
  return hn::Load(d, buffer);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
