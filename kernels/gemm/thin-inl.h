// GEMM for a few rows, bound by reading B once: row after row as it lies in memory, so that the memory
// hands it out in long runs, with the sums of all columns in the first-level cache. Of elements, or of pairs that are
// rounded to bfloat16 in registers on the way, to the bits of the blocked product. Compiled once per target.
#if defined(CROSSTALK_GEMM_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_THIN_INL_H_
#undef CROSSTALK_GEMM_THIN_INL_H_
#else
#define CROSSTALK_GEMM_THIN_INL_H_
#endif

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

CROSSTALK_BEGIN_TARGET

// Up to so many rows a product takes as long as B is read, if it is large enough for that to show.
constexpr int kThinRows = 8;
constexpr int64_t kThinSize = 128;  // of k and n, at least

// Each number of rows is a function to compile: on processors without AVX2 the blocked product serves these too, with
// the same bits.
constexpr bool kHasThin = HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SCALAR;

// One packed row of A: operand k at data + k · stride.
template <typename Packed>
struct ThinRow {
  const Packed* data;
  int64_t stride;
};

// The interface of an operand policy (microkernel-inl.h) for products of few rows, this one and dots-inl.h's.
template <class Operands>
concept ThinOperands = RegisterOperands<Operands> &&
    requires(const GemmArguments<typename Operands::Sum>& g, typename Operands::ThinRows& a, int64_t i) {
  { Operands::CanBeThin(g) } -> std::same_as<bool>;
  { Operands::CanBeDots(g) } -> std::same_as<bool>;
  a.Set(g, i, i);  // op(A)[…, k … k + depth]
  { a.rows[i] } -> std::same_as<ThinRow<typename Operands::Packed>&>;
  { Operands::kAsksAhead } -> std::convertible_to<bool>;  // for the rows of B that are read next
  Operands::VisitB(g, [](const auto* /*b*/) {});          // with B's elements, of the type that they have
  // Vectors of packed operands: Same(x) in all lanes, OfRows<terms>(b, ldb, count); MulAdd(a, b, sum) to sums of a
  // step, Start(sum so far) to Total(sum so far, sum).
  typename Operands::Terms;
  { Operands::kStepOperands } -> std::convertible_to<int>;  // read side by side
  { Operands::kChains } -> std::convertible_to<int>;  // of a step: 2 where a pair's terms are summed apart, else 1
  { Operands::DotRows(g) } -> std::same_as<const typename Operands::DotSource*>;  // B^T's, kTerms are a packed operand
};

template <ThinOperands Operands, typename T = typename Operands::Sum>
bool IsThin(const GemmArguments<T>& g) {
  return kHasThin && g.m <= kThinRows && g.n >= kThinSize && g.k >= kThinSize && g.transpose_b == Transpose::kNo &&
         Operands::CanBeThin(g);
}

// Rows of B that are read side by side, each a stream of its own: what a load and a store of the sums is shared by.
constexpr int kStreams = 8;

// sums[R][columns] += Σ_k a[R][k] · b[k, columns], k < depth, each in the order of k. Whole vectors of sums are read
// and written.
template <int R, class Operands, typename Source, typename Packed = typename Operands::Packed,
          typename T = typename Operands::Sum>
HWY_NOINLINE void AddThin(int64_t depth, const ThinRow<Packed>* a, const Source* HWY_RESTRICT b, int64_t ldb,
                          int64_t columns, T* HWY_RESTRICT sums, int64_t sums_stride) {
  using Terms = typename Operands::Terms;
  constexpr int kLanes = kLanesOf<T>, kTerms = Operands::kTerms;
  const Tag<T> d;
  // Packed operands k … of so many rows of B each.
  const auto add = [&](auto operands, auto rows_of_each, int64_t k) HWY_ATTR {
    constexpr int kOperands = decltype(operands)::value, kRows = decltype(rows_of_each)::value;
    constexpr int kNext = kOperands * kTerms;
    constexpr int64_t kLine = 64 / int64_t{sizeof(Source)};
    Packed x[R][kOperands];
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kOperands; ++i) x[r][i] = a[r].data[(k + i) * a[r].stride];
    }
    const Source* const rows = b + k * kTerms * ldb;
    const bool more = Operands::kAsksAhead && (k + 2 * kOperands) * kTerms <= depth;
    const auto one = [&](int64_t column, auto count) HWY_ATTR {
      hn::Vec<Tag<T>> before[R];
      decltype(Terms::Start(before[0])) sum[R];
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) {
        before[r] = hn::LoadU(d, sums + r * sums_stride + column);
        sum[r] = Terms::Start(before[r]);
      }
      CROSSTALK_UNROLL
      for (int i = 0; i < kOperands; ++i) {
        const auto y = Terms::template OfRows<kRows>(rows + i * kTerms * ldb + column, ldb, count);
        CROSSTALK_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = Terms::MulAdd(Terms::Same(x[r][i]), y, sum[r]);
      }
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) hn::StoreU(Terms::Total(before[r], sum[r]), d, sums + r * sums_stride + column);
    };
    const int64_t rest = columns % kLanes;
    for (int64_t column = 0; column < columns - rest; column += kLanes) {
      if (more && column % kLine == 0) {
        CROSSTALK_UNROLL
        for (int i = 0; i < kNext; ++i) __builtin_prefetch(rows + (kNext + i) * ldb + column, 0, 2);
      }
      one(column, std::integral_constant<int64_t, kLanes>());
    }
    if (rest > 0) one(columns - rest, rest);
  };
  constexpr int kStep = Operands::kStepOperands;
  using One = std::integral_constant<int, 1>;
  using All = std::integral_constant<int, kTerms>;
  int64_t k = 0;
  for (; k + kStep <= depth / kTerms; k += kStep) add(std::integral_constant<int, kStep>(), All(), k);
  if constexpr (Operands::kChains > 1) {
    // Of the last step, whose missing terms are zeros: they make a chain's -0 a 0.
    for (int64_t column = 0; k * kTerms < depth && column < columns; column += kLanes) {
      const Source* const rows = b + k * kTerms * ldb + column;
      const int64_t count = columns - column;
      for (int r = 0; r < R; ++r) {
        T* const at = sums + r * sums_stride + column;
        const auto before = hn::LoadU(d, at);
        auto sum = Terms::Start(before);
        int64_t i = k;
        for (; i < depth / kTerms; ++i) {
          const auto y = Terms::template OfRows<kTerms>(rows + (i - k) * kTerms * ldb, ldb, count);
          sum = Terms::MulAdd(Terms::Same(a[r].data[i * a[r].stride]), y, sum);
        }
        if (depth % kTerms != 0) {
          const auto y = Terms::template OfRows<1>(rows + (i - k) * kTerms * ldb, ldb, count);
          sum = Terms::MulAdd(Terms::Same(a[r].data[i * a[r].stride]), y, sum);
        }
        sum = Terms::MulAdd(Terms::Same(Packed{}), Terms::Same(Packed{}), sum);
        hn::StoreU(Terms::Total(before, sum), d, at);
      }
    }
  } else {
    for (; k < depth / kTerms; ++k) add(One(), All(), k);
    if (depth % kTerms != 0) add(One(), One(), k);
  }
}

// AddThin for a run-time number of rows ≤ R.
template <int R, class Operands, typename Source, typename Packed = typename Operands::Packed,
          typename T = typename Operands::Sum>
HWY_INLINE void AddThinOf(int64_t rows, int64_t depth, const ThinRow<Packed>* a, const Source* b, int64_t ldb,
                          int64_t columns, T* sums, int64_t sums_stride) {
  if (rows == R) {
    AddThin<R, Operands>(depth, a, b, ldb, columns, sums, sums_stride);
  } else if constexpr (R > 1) {
    AddThinOf<R - 1, Operands>(rows, depth, a, b, ldb, columns, sums, sums_stride);
  }
}

// Columns of a task of a thin product, a multiple of `unit`.
template <typename T>
int64_t ThinGrain(const GemmArguments<T>& g, int64_t unit) {
  constexpr double kLeastWork = 1 << 18;  // multiplications
  const auto least = static_cast<int64_t>(kLeastWork / (static_cast<double>(g.m) * static_cast<double>(g.k)));
  return RoundUp(std::max(least, CeilDivide<int64_t>(g.n, kTasksPerThread * ThreadsOfLoop())), unit);
}

// Very few rows, and B as it lies. A task's workspace is on the stack: its columns' sums, and the rows of A.
template <ThinOperands Operands, typename T = typename Operands::Sum>
void ThinProduct(const GemmArguments<T>& g) {
  constexpr int64_t kSums = 16384 / int64_t{sizeof(T)}, kRoom = kSums + kThinRows * 16;
  const Tag<T> d;
  constexpr int kLanes = kLanesOf<T>;
  const Blocks depths(g.k, kKC, Operands::kTerms);
  const int64_t grain = std::min(ThinGrain<T>(g, kNR<T>), kSums / g.m / kNR<T> * kNR<T>);
  ParallelForRange(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    [[maybe_unused]] const typename Operands::Arithmetic arithmetic;
    alignas(kAlignment) T sums[kRoom];
    typename Operands::ThinRows a;
    const int64_t columns = end - begin, stride = RoundUp<int64_t>(columns, 16);
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k);
      a.Set(g, k, depth);
      std::fill_n(sums, g.m * stride, T(0));
      Operands::VisitB(g, [&](const auto* b) HWY_ATTR {
        AddThinOf<kThinRows, Operands>(g.m, depth, a.rows, b + k * g.b.stride + begin, g.b.stride, columns, sums,
                                       stride);
      });
      const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                                g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + begin};
      for (int64_t r = 0; r < g.m; ++r) {
        T* const c = g.c + r * g.ldc + begin;
        for (int64_t column = 0; column < columns; column += kLanes) {
          StoreUpdated(update, column, hn::LoadU(d, sums + r * stride + column), columns - column, c + column);
        }
      }
    }
  });
}

CROSSTALK_END_TARGET

#endif
