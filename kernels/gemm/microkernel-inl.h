// The register tile of the blocked product, and what becomes of its sums. Compiled once per target.
#if defined(CROSSTALK_GEMM_MICROKERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_MICROKERNEL_INL_H_
#undef CROSSTALK_GEMM_MICROKERNEL_INL_H_
#else
#define CROSSTALK_GEMM_MICROKERNEL_INL_H_
#endif

#include <concepts>
#include <cstdint>

#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/simd-inl.h"

CROSSTALK_BEGIN_TARGET

// MR rows × two vectors of accumulators: of 32 registers with AVX-512, of 16 elsewhere. Each number of rows up to MR is
// a function to compile. Where speed is not the point there are just enough to hide the latency of a multiply-add: in
// double, which checks float, and without vectors.
template <typename T>
constexpr int kMR = kLanesOf<float> == 1    ? 3
                    : sizeof(T) == 8        ? 4
                    : kLanesOf<float> >= 16 ? 12
                                            : 6;
template <typename T>
constexpr int kNR = 2 * kLanesOf<T>;

// The use of a sum: C ← alpha · sum + beta · C, where beta = 0 overwrites, and + bias with the last block of k.
template <typename T>
struct Update {
  T alpha, beta;
  const T* bias;             // at the tile's first column; null: none, or not yet
  const T* start = nullptr;  // [R][NR], the sums so far (product-inl.h); null: 0. May be C
};

// How a tile's rows of A lie: A[k][stride] or A[R][stride]. Packed as A[k][R], or as A[R][stride] where they are used
// so little that transposing them would show; or where A itself has them.
enum class RowLayout { kByDepth, kByRow };

template <typename Packed>
struct RowTiles {
  const Packed* data;
  RowLayout layout;
  int64_t stride;  // from one row to the next, or from one k; 0: a tile's rows
  int64_t tile;    // from one tile's rows to the next one's
};

// The packed form of the blocked product's operands, and the tile that multiplies them: Elements<T> (elements-inl.h),
// as they are; RoundedPairs<unit> (pairs-inl.h), two terms of a sum rounded to bfloat16 in one; AmxPairs.
template <class Operands>
concept BlockedOperands = requires(const GemmArguments<typename Operands::Sum>& g,
                                   typename Operands::Arithmetic& arithmetic, typename Operands::Packed* packed,
                                   typename Operands::Sum* c, const Update<typename Operands::Sum>& update,
                                   const PrefetchSpread<typename Operands::Packed>& ahead, int64_t i) {
  { Operands::kTerms } -> std::convertible_to<int64_t>;               // terms of a sum in one Packed
  { Operands::kStep } -> std::convertible_to<int64_t>;                // packed operands of a sum are a multiple of it
  { Operands::kMR + Operands::kNR } -> std::convertible_to<int64_t>;  // rows and columns of a tile
  { Operands::kRowStride } -> std::convertible_to<int64_t>;  // if packed kByRow, in Packed like all lengths of k
  { Operands::kInPlace } -> std::convertible_to<bool>;       // A and B may be read where they lie
  { Operands::kHasStart } -> std::convertible_to<bool>;      // TileOf heeds update.start
  { Operands::LayoutOf(g) } -> std::same_as<RowLayout>;
  Operands::PackA(g, i, i, i, i, packed);   // op(A)[first, rows, k, depth]
  Operands::PackPanel(g, i, i, i, packed);  // op(B)[k, depth] of kNR columns from the first on
  Operands::TileOf(arithmetic, RowTiles<typename Operands::Packed>(), i, i, packed, i, c, i, i, update, ahead);
};

// And of the register tile: what it does with a vector of each operand, pass by pass.
template <class Operands>
concept RegisterOperands = BlockedOperands<Operands> &&
    requires(typename Operands::Part part, hn::Vec<Tag<typename Operands::Packed>> packed,
             hn::Vec<Tag<typename Operands::Sum>> sum) {
  { Operands::kPasses } -> std::convertible_to<int>;
  { Operands::PartOf(0, packed) } -> std::same_as<typename Operands::Part>;
  { Operands::MulAdd(part, part, sum) } -> std::same_as<decltype(sum)>;
};

// C[R, columns] ← Σ_k A[R, k] · B[k, NV vectors]; columns ≤ NV vectors. A function of its own: the registers are just
// enough, and what surrounds it would take some.
template <int R, int NV, RowLayout kLayout, class Operands, typename T = typename Operands::Sum,
          typename Packed = typename Operands::Packed>
HWY_NOINLINE void Microkernel(int64_t depth, const Packed* HWY_RESTRICT a, int64_t a_stride,
                              const Packed* HWY_RESTRICT b, int64_t b_depth, T* HWY_RESTRICT c, int64_t ldc,
                              int64_t columns, const Update<T>& update, PrefetchSpread<Packed> ahead) {
  constexpr int kLanes = kLanesOf<T>;
  const Tag<T> d;
  const Tag<Packed> dp;
  hn::Vec<Tag<T>> sum[R][NV];
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  if (update.start != nullptr) {
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) {
      CROSSTALK_UNROLL
      for (int v = 0; v < NV; ++v) sum[r][v] = hn::LoadU(d, update.start + r * Operands::kNR + v * kLanes);
    }
  }
  // C is read or written only at the end, and often comes from memory.
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) __builtin_prefetch(c + r * ldc + v * kLanes, 1, 2);
  }
  // Three rows are reached from one address, by the stride once and twice: there are not as many registers as rows.
  const Packed* a_rows[(R + 2) / 3];
  for (int i = 0; i < (R + 2) / 3; ++i) a_rows[i] = a + 3 * i * a_stride;
  // In A as it lies each k is in a line of its own, which no hardware prefetcher foresees: it is asked for so many
  // early. Packed lines are there anyway.
  constexpr int64_t kAhead = 16;
  for (int64_t k = 0; k < depth; ++k) {
    ahead.Next();
    if constexpr (kLayout == RowLayout::kByDepth) {
      __builtin_prefetch(a + kAhead * a_stride, 0, 3);
      __builtin_prefetch(a + kAhead * a_stride + R - 1, 0, 3);
    }
    CROSSTALK_UNROLL
    for (int pass = 0; pass < Operands::kPasses; ++pass) {
      typename Operands::Part y[NV];
      CROSSTALK_UNROLL
      for (int v = 0; v < NV; ++v) y[v] = Operands::PartOf(pass, hn::LoadU(dp, b + v * kLanes));
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) {
        const Packed a_r = kLayout == RowLayout::kByRow ? a_rows[r / 3][r % 3 * a_stride] : a[r];
        const auto x = Operands::PartOf(pass, hn::Set(dp, a_r));
        CROSSTALK_UNROLL
        for (int v = 0; v < NV; ++v) sum[r][v] = Operands::MulAdd(x, y[v], sum[r][v]);
      }
    }
    if constexpr (kLayout == RowLayout::kByDepth) a += a_stride;
    CROSSTALK_UNROLL
    for (int i = 0; i < (R + 2) / 3; ++i) ++a_rows[i];
    b += b_depth;
  }
  const auto alpha = hn::Set(d, update.alpha), beta = hn::Set(d, update.beta);
  const bool overwrite = update.beta == T(0);
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) {
      T* at = c + r * ldc + v * kLanes;
      auto y = hn::Mul(alpha, sum[r][v]);
      const int64_t here = columns - v * kLanes;
      if (HWY_LIKELY(here >= kLanes)) {
        if (!overwrite) y = hn::Add(hn::Mul(beta, hn::LoadU(d, at)), y);
        if (update.bias != nullptr) y = hn::Add(y, hn::LoadU(d, update.bias + v * kLanes));
        hn::StoreU(y, d, at);
      } else if (here > 0) {
        const size_t rest = static_cast<size_t>(here);
        if (!overwrite) y = hn::Add(hn::Mul(beta, LoadFirst(d, at, rest)), y);
        if (update.bias != nullptr) y = hn::Add(y, LoadFirst(d, update.bias + v * kLanes, rest));
        StoreFirst(y, d, at, rest);
      }
    }
  }
}

// A vector of a row, of which `count` elements are left: it may have more.
template <typename T>
HWY_INLINE hn::Vec<Tag<T>> LoadOfRow(const T* row, int64_t count) {
  const Tag<T> d;
  return count >= kLanesOf<T> ? hn::LoadU(d, row) : LoadFirst(d, row, static_cast<size_t>(count));
}

// Updates C's elements at `at`, a row's from `column` on, of which `count` are left, by their sums.
template <typename T>
HWY_INLINE void StoreUpdated(const Update<T>& update, int64_t column, hn::Vec<Tag<T>> sum, int64_t count, T* at) {
  const Tag<T> d;
  auto y = hn::Mul(hn::Set(d, update.alpha), sum);
  if (update.beta != T(0)) y = hn::Add(hn::Mul(hn::Set(d, update.beta), LoadOfRow(at, count)), y);
  if (update.bias != nullptr) y = hn::Add(y, LoadOfRow(update.bias + column, count));
  if (count >= kLanesOf<T>) {
    hn::StoreU(y, d, at);
  } else {
    StoreFirst(y, d, at, static_cast<size_t>(count));
  }
}

// Microkernel for run-time numbers of rows ≤ R and columns ≤ NR.
template <class Operands, int R, RowLayout kLayout, typename T = typename Operands::Sum,
          typename Packed = typename Operands::Packed>
HWY_INLINE void RegisterTile(int64_t rows, int64_t depth, const Packed* a, int64_t a_stride, const Packed* b,
                             int64_t b_depth, T* c, int64_t ldc, int64_t columns, const Update<T>& update,
                             const PrefetchSpread<Packed>& ahead) {
  if (rows == R) {
    if (columns > kLanesOf<T>) {
      Microkernel<R, 2, kLayout, Operands>(depth, a, a_stride, b, b_depth, c, ldc, columns, update, ahead);
    } else {
      Microkernel<R, 1, kLayout, Operands>(depth, a, a_stride, b, b_depth, c, ldc, columns, update, ahead);
    }
  } else if constexpr (R > 1) {
    RegisterTile<Operands, R - 1, kLayout>(rows, depth, a, a_stride, b, b_depth, c, ldc, columns, update, ahead);
  }
}

// From one k to the next in a tile of `rows` rows.
template <typename Packed>
HWY_INLINE int64_t DepthStride(const RowTiles<Packed>& a, int64_t rows) {
  return a.stride == 0 ? rows : a.stride;
}

// Common to all policies with sums in registers.
template <class Operands, typename T, typename Packed_, int kRows = HWY_NAMESPACE::kMR<T>>
struct RegisterTiles {
  static constexpr int kMR = kRows, kNR = HWY_NAMESPACE::kNR<T>;
  static constexpr bool kHasStart = true;
  template <class Arithmetic>
  static HWY_INLINE void TileOf(Arithmetic& /*arithmetic*/, const RowTiles<Packed_>& a, int64_t rows, int64_t depth,
                                const Packed_* b, int64_t b_depth, T* c, int64_t ldc, int64_t columns,
                                const Update<T>& update, const PrefetchSpread<Packed_>& ahead) {
    if (a.layout == RowLayout::kByRow) {
      RegisterTile<Operands, kMR, RowLayout::kByRow>(rows, depth, a.data, a.stride, b, b_depth, c, ldc, columns, update,
                                                     ahead);
    } else {
      RegisterTile<Operands, kMR, RowLayout::kByDepth>(rows, depth, a.data, DepthStride(a, rows), b, b_depth, c, ldc,
                                                       columns, update, ahead);
    }
  }
};

CROSSTALK_END_TARGET

#endif
