// The product of very few rows whose operands are rounded to bfloat16: B is read row after row as in thin-inl.h, and
// rounded in registers on the way. The bits are those of the blocked product of pairs. Compiled once per target.
#if defined(CROSSTALK_GEMM_THIN_ROUNDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_THIN_ROUNDED_INL_H_
#undef CROSSTALK_GEMM_THIN_ROUNDED_INL_H_
#else
#define CROSSTALK_GEMM_THIN_ROUNDED_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "crosstalk/kernels/flush_subnormals.h"
#include "crosstalk/kernels/gemm/pack_rounded-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// Tiles form sums in another order.
inline bool IsThinRounded(const GemmArguments<float>& g, BFloat16Unit unit) {
  return IsThin(g) && g.transpose_a == Transpose::kNo && unit != BFloat16Unit::kTiles;
}

// The pairs of A's rows, k … k + depth of each, kPairsOfBlock apart.
constexpr int64_t kPairsOfBlock = kKC / 2 + 1;
template <BFloat16Unit kUnit>
HWY_INLINE void PairThinRows(const GemmArguments<float>& g, int64_t k, int64_t depth, uint32_t* pairs) {
  for (int64_t r = 0; r < g.m; ++r) {
    g.a.Visit([&](const auto* a)
                  HWY_ATTR { PairNeighbours<kUnit>(a + r * g.a.stride + k, depth, pairs + r * kPairsOfBlock); });
  }
}

// Pairs of terms as a unit multiplies them: A's, the same in all lanes, and B's, of two rows as they lie in memory or
// of one and zeros.
template <BFloat16Unit kUnit>
struct ThinPairs {
  static HWY_INLINE ThinPairs Same(uint32_t pair) { return {hn::Set(Tag<uint32_t>(), pair)}; }
  template <int kRows, typename Source>
  static HWY_INLINE ThinPairs OfRows(const Source* rows, int64_t ldb, int64_t count) {
    return {PairRows<kUnit>(rows, kRows == 2 ? rows + ldb : nullptr, count)};
  }
  static HWY_INLINE FloatVector MulAdd(const ThinPairs& a, const ThinPairs& b, FloatVector sum) {
    return Pairs<kUnit>::MulAdd(a.pairs, b.pairs, sum);
  }
  PairVector pairs;
};
// Never joined, as they would only be separated again.
template <>
struct ThinPairs<BFloat16Unit::kWidened> {
  static HWY_INLINE ThinPairs Same(uint32_t pair) {
    const auto pairs = hn::Set(Tag<uint32_t>(), pair);
    return {FirstOfPairs(pairs), SecondOfPairs(pairs)};
  }
  template <int kRows, typename Source>
  static HWY_INLINE ThinPairs OfRows(const Source* rows, int64_t ldb, int64_t count) {
    const FloatVector first = LoadRounded(rows, count);
    if constexpr (kRows == 1) return {first, hn::Zero(Tag<float>())};
    return {first, LoadRounded(rows + ldb, count)};
  }
  static HWY_INLINE FloatVector MulAdd(const ThinPairs& a, const ThinPairs& b, FloatVector sum) {
    return hn::MulAdd(a.first, b.first, hn::MulAdd(a.second, b.second, sum));
  }
  FloatVector first, second;
};

// sums[R][columns] += Σ_k a[R][k] · b[k, columns], k < depth, pair after pair. a[r][p] holds the terms 2p and 2p + 1;
// whole vectors of sums are read and written.
template <BFloat16Unit kUnit, int R, typename Source>
HWY_NOINLINE void AddThinPairs(int64_t depth, const uint32_t* a, int64_t a_stride, const Source* HWY_RESTRICT b,
                               int64_t ldb, int64_t columns, float* HWY_RESTRICT sums, int64_t sums_stride) {
  using Terms = ThinPairs<kUnit>;
  constexpr int kLanes = kLanesOf<float>;
  const Tag<float> d;
  const auto add = [&](auto streams, auto rows_of_pair, int64_t p) HWY_ATTR {
    constexpr int kPairs = decltype(streams)::value, kRows = decltype(rows_of_pair)::value;
    constexpr int64_t kLine = 64 / int64_t{sizeof(Source)};
    uint32_t x[R][kPairs];
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kPairs; ++i) x[r][i] = a[r * a_stride + p + i];
    }
    const Source* const rows = b + 2 * p * ldb;
    const bool more = 2 * (p + 2 * kPairs) <= depth;
    const auto one = [&](int64_t column, int64_t count) HWY_ATTR {
      FloatVector sum[R];
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) sum[r] = hn::LoadU(d, sums + r * sums_stride + column);
      CROSSTALK_UNROLL
      for (int i = 0; i < kPairs; ++i) {
        const Terms y = Terms::template OfRows<kRows>(rows + 2 * i * ldb + column, ldb, count);
        CROSSTALK_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = Terms::MulAdd(Terms::Same(x[r][i]), y, sum[r]);
      }
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) hn::StoreU(sum[r], d, sums + r * sums_stride + column);
    };
    int64_t column = 0;
    for (; column + kLanes <= columns; column += kLanes) {
      // A row's run of halves ends before the processor has learnt to read ahead in it.
      if (more && column % kLine == 0) {
        CROSSTALK_UNROLL
        for (int i = 0; i < 2 * kPairs; ++i) __builtin_prefetch(rows + (2 * kPairs + i) * ldb + column, 0, 2);
      }
      one(column, kLanes);
    }
    if (column < columns) one(column, columns - column);
  };
  constexpr int kPairStreams = kStreams / 2;
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  int64_t p = 0;
  for (; p + kPairStreams <= depth / 2; p += kPairStreams) add(std::integral_constant<int, kPairStreams>(), Two(), p);
  for (; p < depth / 2; ++p) add(One(), Two(), p);
  if (depth % 2 != 0) add(One(), One(), p);
}

// AddThinPairs for a run-time number of rows ≤ R.
template <BFloat16Unit kUnit, int R, typename Source>
HWY_INLINE void AddThinPairsOf(int64_t rows, int64_t depth, const uint32_t* a, int64_t a_stride, const Source* b,
                               int64_t ldb, int64_t columns, float* sums, int64_t sums_stride) {
  if (rows == R) {
    AddThinPairs<kUnit, R>(depth, a, a_stride, b, ldb, columns, sums, sums_stride);
  } else if constexpr (R > 1) {
    AddThinPairsOf<kUnit, R - 1>(rows, depth, a, a_stride, b, ldb, columns, sums, sums_stride);
  }
}

// What a task needs is on the stack: its columns' sums, and the rows of A in pairs, which it makes itself.
template <BFloat16Unit kUnit>
void ThinRoundedProduct(const GemmArguments<float>& g) {
  constexpr int64_t kSums = 4096, kRoom = kSums + kThinRows * 16;
  const Tag<float> d;
  const Blocks depths(g.k, kKC, 2);
  const int64_t grain = std::min(ThinGrain<float>(g, kNR<float>), kSums / g.m / kNR<float> * kNR<float>);
  ParallelForRange(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    const FlushSubnormals arithmetic;
    alignas(kAlignment) float sums[kRoom];
    uint32_t a[kThinRows * kPairsOfBlock];
    const int64_t columns = end - begin, stride = RoundUp<int64_t>(columns, 16);
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k);
      PairThinRows<kUnit>(g, k, depth, a);
      std::fill_n(sums, g.m * stride, 0.0f);
      g.b.Visit([&](const auto* b) HWY_ATTR {
        AddThinPairsOf<kUnit, kThinRows>(g.m, depth, a, kPairsOfBlock, b + k * g.b.stride + begin, g.b.stride, columns,
                                         sums, stride);
      });
      const Update<float> update = {g.alpha, k == 0 ? g.beta : 1.0f,
                                    g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + begin};
      for (int64_t r = 0; r < g.m; ++r) {
        for (int64_t column = 0; column < columns; column += kLanesOf<float>) {
          StoreUpdated(update, column, hn::LoadU(d, sums + r * stride + column), static_cast<size_t>(columns - column),
                       g.c + r * g.ldc + begin + column);
        }
      }
    }
  });
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
