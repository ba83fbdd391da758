// Common code of the SIMD kernels, compiled once for each instruction set: vectors of a remainder, and sums and
// maxima in one order for every width. Included after hwy/foreach_target.h, like any per-target header; hence no
// #pragma once.
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

#include "crosstalk/kernels/targets.h"

CROSSTALK_BEGIN_TARGET

// Before a loop over registers.
#define CROSSTALK_UNROLL _Pragma("GCC unroll 16")

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
inline constexpr int kLanesOf = static_cast<int>(hn::MaxLanes(Tag<T>()));

// Brings what a product will read next into the second-level cache while it runs, `step` elements for each step of k:
// the hardware's own prefetchers are late at the third level's latency. Spread evenly, because only a dozen lines can
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

// The first n < Lanes(d) elements at p, zeros above. Native masked loads where they cannot touch memory past p + n,
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

// A vector's worth of arrays' elements, i and those that follow: all its lanes, or the first n of them. A kernel is
// one function of such a place, at.Load(x) … at.Store(v, y), and the remainder goes through the same vector arithmetic:
// an element's bits do not depend on where in the array it stands.
template <class T>
struct WholePlace {
  using V = hn::Vec<Tag<T>>;
  int64_t i;
  HWY_INLINE V Load(const T* p) const { return hn::LoadU(Tag<T>(), p + i); }
  HWY_INLINE V LoadWidened(const float* p) const { return hn::PromoteTo(Tag<T>(), hn::LoadU(Narrow(), p + i)); }
  HWY_INLINE void Store(V v, T* p) const { hn::StoreU(v, Tag<T>(), p + i); }
  HWY_INLINE V Keep(V v) const { return v; }
  HWY_INLINE V KeepOr(V v, V /*missing*/) const { return v; }

 private:
  using Narrow = hn::Rebind<float, Tag<T>>;
};
template <class T>
struct PartialPlace {
  using V = hn::Vec<Tag<T>>;
  int64_t i;
  size_t n;
  HWY_INLINE V Load(const T* p) const { return LoadFirst(Tag<T>(), p + i, n); }  // 0 where elements are missing
  HWY_INLINE V LoadWidened(const float* p) const { return hn::PromoteTo(Tag<T>(), LoadFirst(Narrow(), p + i, n)); }
  HWY_INLINE void Store(V v, T* p) const { StoreFirst(v, Tag<T>(), p + i, n); }
  HWY_INLINE V Keep(V v) const { return hn::IfThenElseZero(hn::FirstN(Tag<T>(), n), v); }
  HWY_INLINE V KeepOr(V v, V missing) const { return hn::IfThenElse(hn::FirstN(Tag<T>(), n), v, missing); }

 private:
  using Narrow = hn::Rebind<float, Tag<T>>;
};

// f(place) for every vector of [0, count).
template <class T, class F>
HWY_INLINE void ForPlaces(int64_t count, F f) {
  ForVectors(
      Tag<T>(), count, [&](int64_t i) HWY_ATTR { f(WholePlace<T>{i}); },
      [&](int64_t i, size_t n) HWY_ATTR {
        f(PartialPlace<T>{i, n});
      });
}

// y[i] = f(x[i]…).
template <class T, class F>
HWY_INLINE void Map1(int64_t count, const T* x, T* y, F f) {
  ForPlaces<T>(count, [&](auto at) HWY_ATTR { at.Store(f(at.Load(x)), y); });
}
template <class T, class F>
HWY_INLINE void Map2(int64_t count, const T* a, const T* b, T* y, F f) {
  ForPlaces<T>(count, [&](auto at) HWY_ATTR { at.Store(f(at.Load(a), at.Load(b)), y); });
}

// Every sum has one order, that of vectors of 64 bytes, whatever the width of the target's: its bits are the same on
// all of them. kSumLanes<T> partial sums stand side by side in one, two or four registers, as lane l of an accumulator
// takes the elements l, l + kSumLanes, …; SumOfLanes64 folds them by halves.
template <class T>
inline constexpr int kSumLanes = 64 / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kSumRegisters = kSumLanes<T> / kLanesOf<T>;

// The sum of a register's lanes, by halves: lane l + lane (l + Lanes/2), and so on.
template <class D>
HWY_INLINE hn::TFromD<D> SumOfHalves([[maybe_unused]] D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> dh;
    return SumOfHalves(dh, hn::Add(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)));
  }
  return hn::GetLane(v);
}
// The sum of kSumLanes<T> lanes in consecutive registers: lane l + lane (l + 8), + 4, + 2, + 1 in float, as
// _mm512_reduce_add_ps has it. Overwrites the registers.
template <class T>
HWY_INLINE T SumOfLanes64(hn::Vec<Tag<T>>* registers) {
  CROSSTALK_UNROLL for (int half = kSumRegisters<T> / 2; half > 0; half /= 2) {
    CROSSTALK_UNROLL for (int r = 0; r < half; ++r) registers[r] = hn::Add(registers[r], registers[r + half]);
  }
  return SumOfHalves(Tag<T>(), registers[0]);
}

// A sum in blocks of this many elements: lanes within a block, blocks in double.
inline constexpr int64_t kSumBlock = 2048;

// Σ_i term(place of i), which may also store what it computes; what the lanes of missing elements hold is left out.
// Four accumulators hide the latency of the addition; what is left after the last whole 64 bytes goes to the second.
template <class T, class Term>
HWY_INLINE double SumVectors(int64_t count, Term term) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  constexpr int64_t kAll = kSumLanes<T>, kLanes = kLanesOf<T>;
  constexpr int kRegisters = kSumRegisters<T>;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
    V s[4][kRegisters];
    CROSSTALK_UNROLL for (int a = 0; a < 4; ++a) {
      CROSSTALK_UNROLL for (int r = 0; r < kRegisters; ++r) s[a][r] = hn::Zero(d);
    }
    int64_t i = begin;
    for (; i + 4 * kAll <= end; i += 4 * kAll) {
      CROSSTALK_UNROLL for (int a = 0; a < 4; ++a) {
        CROSSTALK_UNROLL for (int r = 0; r < kRegisters; ++r) {
          s[a][r] = hn::Add(s[a][r], term(WholePlace<T>{i + a * kAll + r * kLanes}));
        }
      }
    }
    for (; i + kAll <= end; i += kAll) {
      CROSSTALK_UNROLL for (int r = 0; r < kRegisters; ++r) {
        s[0][r] = hn::Add(s[0][r], term(WholePlace<T>{i + r * kLanes}));
      }
    }
    // A partial sum is never -0, so that adding 0 to the lanes without an element leaves their bits alone.
    CROSSTALK_UNROLL for (int r = 0; r < kRegisters; ++r, i += kLanes) {
      if (i >= end) break;
      const V v = i + kLanes <= end ? term(WholePlace<T>{i}) : [&]() HWY_ATTR {
        const PartialPlace<T> at{i, static_cast<size_t>(end - i)};
        return at.Keep(term(at));
      }();
      s[1][r] = hn::Add(s[1][r], v);
    }
    CROSSTALK_UNROLL for (int r = 0; r < kRegisters; ++r) {
      s[0][r] = hn::Add(hn::Add(s[0][r], s[1][r]), hn::Add(s[2][r], s[3][r]));
    }
    total += static_cast<double>(SumOfLanes64<T>(s[0]));
  }
  return total;
}

// Σ x, Σ x².
template <class T>
HWY_INLINE double SumOf(int64_t n, const T* x) {
  return SumVectors<T>(n, [&](auto at) HWY_ATTR { return at.Load(x); });
}
template <class T>
HWY_INLINE double SumOfSquaresOf(int64_t n, const T* x) {
  return SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto v = at.Load(x);
    return hn::Mul(v, v);
  });
}

// The maximum: NaN if x holds one, -infinity of nothing. No order shows in a maximum but that of zeros of either sign:
// one of zero is +0.
template <class T>
HWY_INLINE T MaxOf(int64_t n, const T* x) {
  const Tag<T> d;
  const auto none = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto m = none;
  auto bad = hn::Zero(d);  // hn::Max may drop a NaN, so they are looked for beside
  ForPlaces<T>(n, [&](auto at) HWY_ATTR {
    const auto v = at.KeepOr(at.Load(x), none);
    m = hn::Max(v, m);
    bad = hn::IfThenElse(hn::IsNaN(v), hn::Set(d, T(1)), bad);
  });
  if (hn::GetLane(hn::MaxOfLanes(d, bad)) > 0) return std::numeric_limits<T>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, m)) + T(0);
}

CROSSTALK_END_TARGET

#endif
