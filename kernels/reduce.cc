#include <algorithm>

#include "crosstalk/kernels/rows.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/reduce.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

constexpr int64_t kColumns = 128;  // columns that one tile of a column reduction holds in cache

template <typename T>
double SumTile(int64_t n, const T* x) {
  return SumOf(n, x);
}

// In double: squares of float gradients may overflow or underflow, so they are widened before the product.
template <typename T>
double SumOfSquaresTile(int64_t n, const T* x) {
  if constexpr (sizeof(T) == 8) {
    return SumOfSquaresOf(n, x);
  } else {
    return SumVectors<double>(n, [&](auto at) HWY_ATTR {
      const auto v = at.LoadWidened(x);
      return hn::Mul(v, v);
    });
  }
}

// total[cols] = Σ_r x[r · stride + j], cols ≤ kColumns.
template <typename T>
void SumColumnsTile(int64_t rows, int64_t cols, int64_t stride, const T* x, T* total) {
  HWY_ALIGN T block[kColumns];
  std::memset(total, 0, cols * sizeof(T));
  constexpr int64_t kBlockRows = 64;
  for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
    const int64_t end = begin + kBlockRows < rows ? begin + kBlockRows : rows;
    std::memset(block, 0, cols * sizeof(T));
    for (int64_t r = begin; r < end; ++r) {
      Map2(cols, block, x + r * stride, block, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    }
    Map2(cols, total, block, total, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  }
}

template <typename T>
T MaxTile(int64_t n, const T* x) {
  return MaxOf(n, x);
}

template <typename T>
int64_t FirstNonFiniteTile(int64_t n, const T* x) {
  const Tag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    // v - v is 0 for a finite v, NaN otherwise.
    if (!hn::AllTrue(d, hn::Eq(hn::Sub(v, v), zero))) break;
  }
  for (; i < n; ++i) {
    if (!std::isfinite(x[i])) return i;
  }
  return -1;
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(SumTile)
CROSSTALK_DISPATCH(SumOfSquaresTile)
CROSSTALK_DISPATCH(SumColumnsTile)
CROSSTALK_DISPATCH(MaxTile)
CROSSTALK_DISPATCH(FirstNonFiniteTile)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

using HWY_NAMESPACE::kColumns;
constexpr int64_t kTile = 32768;       // elements a tile
constexpr int64_t kMaxPartials = 256;  // partial sums of a whole array

// Σ over pieces of [0, count) of piece(begin, end), in order; at most kMaxPartials pieces, cut by count alone.
template <typename Piece>
double SumOverPieces(int64_t count, const Piece& piece) {
  if (count <= 0) return 0;
  const int64_t grain = std::max(kTile, RoundUp(CeilDivide(count, kMaxPartials), kTile));
  double partial[kMaxPartials];
  ParallelForRange(count, grain, [&](int64_t begin, int64_t end) { partial[begin / grain] = piece(begin, end); });
  double total = 0;
  for (int64_t i = 0; i < CeilDivide(count, grain); ++i) total += partial[i];
  return total;
}

template <typename T>
void SumRows(int64_t rows, int64_t cols, const T* x, T* y) {
  const auto sum = SumTileOnTarget<T>();
  if (rows <= 8 && cols > 2 * kTile) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * cols;
      y[r] = static_cast<T>(SumOverPieces(cols, [&](int64_t b, int64_t e) { return sum(e - b, row + b); }));
    }
    return;
  }
  ParallelForRange(rows, std::max<int64_t>(1, kTile / std::max<int64_t>(1, cols)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) y[r] = static_cast<T>(sum(cols, x + r * cols));
  });
}

// Few columns and many rows: the rows are cut into pieces whose column sums meet in order.
template <typename T>
void SumFewColumns(int64_t reduced, int64_t inner, const T* x, T* y) {
  const auto sum_columns = SumColumnsTileOnTarget<T>();
  constexpr int64_t kPieces = 32;
  T partial[kPieces * kColumns];
  const int64_t grain = CeilDivide(reduced, kPieces);
  ParallelForRange(reduced, grain, [&](int64_t begin, int64_t end) {
    sum_columns(end - begin, inner, inner, x + begin * inner, partial + begin / grain * inner);
  });
  sum_columns(CeilDivide(reduced, grain), inner, inner, partial, y);
}

template <typename T>
void SumColumns(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  if (outer <= 4 && inner <= kColumns && reduced * inner > 2 * kTile) {
    for (int64_t o = 0; o < outer; ++o) SumFewColumns(reduced, inner, x + o * reduced * inner, y + o * inner);
    return;
  }
  const auto sum_columns = SumColumnsTileOnTarget<T>();
  const int64_t chunks = CeilDivide(inner, kColumns);
  const int64_t work = std::max<int64_t>(1, std::min(inner, kColumns) * reduced);
  ParallelForRange(outer * chunks, std::max<int64_t>(1, kTile / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i / chunks;
      const int64_t first = i % chunks * kColumns;
      sum_columns(reduced, std::min(kColumns, inner - first), inner, x + o * reduced * inner + first,
                  y + o * inner + first);
    }
  });
}

template <typename T>
void MaxRow(T (*max)(int64_t, const T*), int64_t n, const T* x, T* y, int64_t* index) {
  *y = max(n, x);
  if (index == nullptr) return;
  int64_t i = 0;
  while (x[i] != *y && !(*y != *y && x[i] != x[i])) ++i;
  *index = i;
}

}  // namespace

template <typename T>
void Sum(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  if (inner == 1) {
    SumRows(outer, reduced, x, y);
  } else {
    SumColumns(outer, reduced, inner, x, y);
  }
}

template <typename T>
void Max(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y, int64_t* index) {
  const auto max = MaxTileOnTarget<T>();
  const int64_t grain = std::max<int64_t>(1, kTile / std::max<int64_t>(1, reduced * inner));
  ParallelForRange(outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* block = x + o * reduced * inner;
      T* best = y + o * inner;
      int64_t* where = index == nullptr ? nullptr : index + o * inner;
      if (inner == 1) {
        MaxRow(max, reduced, block, best, where);
        continue;
      }
      std::copy_n(block, inner, best);
      if (where != nullptr) std::fill_n(where, inner, 0);
      for (int64_t r = 1; r < reduced; ++r) {
        for (int64_t j = 0; j < inner; ++j) {
          const T v = block[r * inner + j];
          if (v > best[j] || (v != v && best[j] == best[j])) {
            best[j] = v;
            if (where != nullptr) where[j] = r;
          }
        }
      }
    }
  });
}

template <typename T>
void MaxGradient(int64_t outer, int64_t reduced, int64_t inner, const int64_t* index, const T* dy, T* dx) {
  const int64_t grain = std::max<int64_t>(1, kTile / std::max<int64_t>(1, reduced * inner));
  ParallelForRange(outer, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      T* block = dx + o * reduced * inner;
      std::fill_n(block, reduced * inner, T(0));
      for (int64_t j = 0; j < inner; ++j) block[index[o * inner + j] * inner + j] = dy[o * inner + j];
    }
  });
}

template <typename T>
double SumOfSquares(int64_t count, const T* x) {
  const auto sum_of_squares = SumOfSquaresTileOnTarget<T>();
  return SumOverPieces(count, [&](int64_t begin, int64_t end) { return sum_of_squares(end - begin, x + begin); });
}

template <typename T>
int64_t FirstNonFinite(int64_t count, const T* x) {
  const auto first_non_finite = FirstNonFiniteTileOnTarget<T>();
  if (count <= 0) return -1;
  const int64_t grain = std::max(kTile, RoundUp(CeilDivide(count, kMaxPartials), kTile));
  int64_t found[kMaxPartials];
  ParallelForRange(count, grain, [&](int64_t begin, int64_t end) {
    found[begin / grain] = first_non_finite(end - begin, x + begin);
  });
  for (int64_t i = 0; i < CeilDivide(count, grain); ++i) {
    if (found[i] >= 0) return i * grain + found[i];
  }
  return -1;
}

CROSSTALK_INSTANTIATE(Sum)
CROSSTALK_INSTANTIATE(Max)
CROSSTALK_INSTANTIATE(MaxGradient)
CROSSTALK_INSTANTIATE(SumOfSquares)
CROSSTALK_INSTANTIATE(FirstNonFinite)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
