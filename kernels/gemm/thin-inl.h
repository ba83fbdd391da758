// The product of very few rows, which is nothing but reading B: row after row as it lies in memory, so that the memory
// hands it out in long runs, with the sums of all columns in the first-level cache. Compiled once per target.
#if defined(CROSSTALK_GEMM_THIN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_THIN_INL_H_
#undef CROSSTALK_GEMM_THIN_INL_H_
#else
#define CROSSTALK_GEMM_THIN_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// Up to so many rows a product takes as long as B is read, if it is large enough for that to show.
constexpr int kThinRows = 8;
constexpr int64_t kThinSize = 128;  // of k and n, at least

// Each number of rows is a function to compile: on processors without AVX2 the blocked product serves these too, with
// the same bits.
constexpr bool kHasThin = HWY_TARGET != HWY_SSE4 && HWY_TARGET != HWY_SCALAR;

template <typename T>
bool IsThin(const GemmArguments<T>& g) {
  return kHasThin && g.m <= kThinRows && g.n >= kThinSize && g.k >= kThinSize && g.transpose_b == Transpose::kNo;
}

// Rows of B that are read side by side, each a stream of its own: what a load and a store of the sums is shared by.
constexpr int kStreams = 8;

// One row of A: element k at data + k · stride.
template <typename T>
struct ThinRow {
  const T* data;
  int64_t stride;
};

// sums[R][columns] += Σ_k a[R][k] · b[k, columns], k < depth, each in the order of k.
template <int R, typename T>
HWY_NOINLINE void AddThin(int64_t depth, const ThinRow<T>* a, const T* HWY_RESTRICT b, int64_t ldb, int64_t columns,
                          T* HWY_RESTRICT sums, int64_t sums_stride) {
  constexpr int kLanes = kLanesOf<T>;
  const Tag<T> d;
  const auto add = [&](auto streams, int64_t k) HWY_ATTR {
    constexpr int kRows = decltype(streams)::value;
    T x[R][kRows];
    for (int r = 0; r < R; ++r) {
      for (int i = 0; i < kRows; ++i) x[r][i] = a[r].data[(k + i) * a[r].stride];
    }
    const T* const rows = b + k * ldb;
    const auto one = [&](int64_t column, auto load, auto store) HWY_ATTR {
      hn::Vec<Tag<T>> sum[R];
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) sum[r] = load(sums + r * sums_stride + column);
      CROSSTALK_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const auto y = load(rows + i * ldb + column);
        CROSSTALK_UNROLL
        for (int r = 0; r < R; ++r) sum[r] = hn::MulAdd(hn::Set(d, x[r][i]), y, sum[r]);
      }
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) store(sum[r], sums + r * sums_stride + column);
    };
    int64_t column = 0;
    for (; column + kLanes <= columns; column += kLanes) {
      one(
          column, [&](const T* from) HWY_ATTR { return hn::LoadU(d, from); },
          [&](auto values, T* to) HWY_ATTR { hn::StoreU(values, d, to); });
    }
    if (column == columns) return;
    const auto rest = static_cast<size_t>(columns - column);
    one(
        column, [&](const T* from) HWY_ATTR { return LoadFirst(d, from, rest); },
        [&](auto values, T* to) HWY_ATTR { StoreFirst(values, d, to, rest); });
  };
  int64_t k = 0;
  for (; k + kStreams <= depth; k += kStreams) add(std::integral_constant<int, kStreams>(), k);
  for (; k < depth; ++k) add(std::integral_constant<int, 1>(), k);
}

// AddThin for a run-time number of rows ≤ R.
template <int R, typename T>
HWY_INLINE void AddThinOf(int64_t rows, int64_t depth, const ThinRow<T>* a, const T* b, int64_t ldb, int64_t columns,
                          T* sums, int64_t sums_stride) {
  if (rows == R) {
    AddThin<R>(depth, a, b, ldb, columns, sums, sums_stride);
  } else if constexpr (R > 1) {
    AddThinOf<R - 1>(rows, depth, a, b, ldb, columns, sums, sums_stride);
  }
}

// The rows of op(A) from k on.
template <typename T>
void SetThinRows(const GemmArguments<T>& g, int64_t k, ThinRow<T>* rows) {
  const bool transposed = g.transpose_a == Transpose::kYes;
  for (int64_t r = 0; r < g.m; ++r) {
    rows[r] = transposed ? ThinRow<T>{g.a.data() + k * g.a.stride + r, g.a.stride}
                         : ThinRow<T>{g.a.data() + r * g.a.stride + k, 1};
  }
}

// Columns of a task of a thin product, a multiple of `unit`.
template <typename T>
int64_t ThinGrain(const GemmArguments<T>& g, int64_t unit) {
  constexpr double kLeastWork = 1 << 18;  // multiplications
  const auto least = static_cast<int64_t>(kLeastWork / (static_cast<double>(g.m) * static_cast<double>(g.k)));
  return RoundUp(std::max(least, CeilDivide<int64_t>(g.n, kTasksPerThread * NumThreads())), unit);
}

// Very few rows, and B as it lies. The sums of a task's columns are on the stack.
template <typename T>
void ThinProduct(const GemmArguments<T>& g) {
  constexpr int64_t kSums = 16384 / int64_t{sizeof(T)}, kRoom = kSums + 16;  // whole vectors are read
  const Tag<T> d;
  constexpr int kLanes = kLanesOf<T>;
  const Blocks depths(g.k, kKC, 1);
  const int64_t grain = std::min(ThinGrain<T>(g, kNR<T>), kSums / g.m / kNR<T> * kNR<T>);
  ParallelForRange(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    alignas(kAlignment) T sums[kRoom];
    const int64_t columns = end - begin;
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k);
      ThinRow<T> a[kThinRows];
      SetThinRows(g, k, a);
      std::fill_n(sums, g.m * columns, T(0));
      AddThinOf<kThinRows>(g.m, depth, a, g.b.data() + k * g.b.stride + begin, g.b.stride, columns, sums, columns);
      const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                                g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + begin};
      for (int64_t r = 0; r < g.m; ++r) {
        T* const c = g.c + r * g.ldc + begin;
        for (int64_t column = 0; column < columns; column += kLanes) {
          const auto rest = static_cast<size_t>(columns - column);
          StoreUpdated(update, column, hn::LoadU(d, sums + r * columns + column), rest, c + column);
        }
      }
    }
  });
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
