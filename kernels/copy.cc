#include "crosstalk/kernels/copy.h"

#include <algorithm>
#include <cstring>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/copy.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

template <typename T>
void AddRow(int64_t n, const T* x, T* y) {
  Map2(n, x, y, y, [](auto v, auto sum) HWY_ATTR { return hn::Add(sum, v); });
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(AddRow)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr int64_t kCopyTile = 8192;      // elements a tile
constexpr int64_t kTransposeBlock = 16;  // 16 elements of 4 bytes: one cache line each way

// y[i · step_y + j] = x[i + j · step_x], i < rows, j < cols: blocks of cache lines, written row by row.
template <typename T>
void TransposeTile(int64_t rows, int64_t cols, const T* x, int64_t step_x, T* y, int64_t step_y) {
  for (int64_t j0 = 0; j0 < cols; j0 += kTransposeBlock) {
    const int64_t j1 = std::min(cols, j0 + kTransposeBlock);
    for (int64_t i0 = 0; i0 < rows; i0 += kTransposeBlock) {
      const int64_t i1 = std::min(rows, i0 + kTransposeBlock);
      if (j1 - j0 == kTransposeBlock && i1 - i0 == kTransposeBlock) {
        for (int64_t i = 0; i < kTransposeBlock; ++i) {
          const T* from = x + (i0 + i) + j0 * step_x;
          T* to = y + (i0 + i) * step_y + j0;
          for (int64_t j = 0; j < kTransposeBlock; ++j) to[j] = from[j * step_x];
        }
      } else {
        for (int64_t i = i0; i < i1; ++i) {
          for (int64_t j = j0; j < j1; ++j) y[i * step_y + j] = x[i + j * step_x];
        }
      }
    }
  }
}

template <typename T>
void CopyRow(int64_t n, const T* x, int64_t step_x, T* y, int64_t step_y) {
  if (step_x == 1 && step_y == 1) {
    if (n >= 64) {
      std::memcpy(y, x, n * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i];
    }
  } else if (step_x == 0 && step_y == 1) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i * step_y] = x[i * step_x];
  }
}

// The dimension, other than the last, along which x is contiguous and which is worth a blocked transpose; -1 if none.
int TransposedDimension(const StridedLoop<2>& loop) {
  const int last = loop.rank - 1;
  if (loop.rank < 2 || loop.stride[1][last] != 1 || loop.stride[0][last] <= 1 || loop.size[last] < 4) return -1;
  for (int i = 0; i < last; ++i) {
    if (loop.stride[0][i] == 1 && loop.size[i] >= 4) return i;
  }
  return -1;
}

// Dimension `dim` becomes the last but one.
StridedLoop<2> MoveBeforeLast(StridedLoop<2> loop, int dim) {
  for (int i = dim; i + 2 < loop.rank; ++i) {
    std::swap(loop.size[i], loop.size[i + 1]);
    for (auto& stride : loop.stride) std::swap(stride[i], stride[i + 1]);
  }
  return loop;
}

template <typename T>
void CopyTransposed(const StridedLoop<2>& loop, const T* x, T* y) {
  const int last = loop.rank - 1;
  const int64_t rows = loop.size[last - 1];
  const int64_t cols = loop.size[last];
  const int64_t step_x = loop.stride[0][last];
  const int64_t step_y = loop.stride[1][last - 1];
  const int64_t planes = loop.rows() / rows;
  // A tile is a band of rows of one plane, whole blocks; or, where planes are small, several planes.
  int64_t band = std::max<int64_t>(kTransposeBlock, kCopyTile / cols / kTransposeBlock * kTransposeBlock);
  band = std::min(band, rows);
  const int64_t bands = CeilDivide(rows, band);
  const int64_t grain = std::max<int64_t>(1, kCopyTile / (band * cols));
  ParallelForRange(planes * bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile % bands * band;
      const auto offsets = loop.RowOffsets(tile / bands * rows);
      TransposeTile(std::min(band, rows - first), cols, x + offsets[0] + first, step_x, y + offsets[1] + first * step_y,
                    step_y);
    }
  });
}

}  // namespace

template <typename T>
void CopyStrided(const Shape& shape, const T* x, const Strides& strides_x, T* y, const Strides& strides_y) {
  const auto loop = MergeDimensions<2>(shape, {&strides_x, &strides_y});
  const int64_t inner = loop.inner();
  const int64_t rows = loop.rows();
  if (inner == 0 || rows == 0) return;
  if (const int dim = TransposedDimension(loop); dim >= 0) return CopyTransposed(MoveBeforeLast(loop, dim), x, y);

  const int64_t step_x = loop.stride[0][loop.rank - 1];
  const int64_t step_y = loop.stride[1][loop.rank - 1];
  const int64_t pieces = CeilDivide(inner, kCopyTile);  // a row's
  const int64_t grain = std::max<int64_t>(1, kCopyTile / inner);
  ParallelForRange(rows * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto offsets = loop.RowOffsets(i / pieces);
      const int64_t first = i % pieces * kCopyTile;
      CopyRow(std::min(kCopyTile, inner - first), x + offsets[0] + first * step_x, step_x,
              y + offsets[1] + first * step_y, step_y);
    }
  });
}

template void CopyStrided<float>(const Shape&, const float*, const Strides&, float*, const Strides&);
template void CopyStrided<double>(const Shape&, const double*, const Strides&, double*, const Strides&);
template void CopyStrided<int32_t>(const Shape&, const int32_t*, const Strides&, int32_t*, const Strides&);
template void CopyStrided<int64_t>(const Shape&, const int64_t*, const Strides&, int64_t*, const Strides&);
template void CopyStrided<uint16_t>(const Shape&, const uint16_t*, const Strides&, uint16_t*, const Strides&);
template void CopyStrided<uint8_t>(const Shape&, const uint8_t*, const Strides&, uint8_t*, const Strides&);

template <typename T>
void GatherRows(int64_t count, int64_t cols, const T* table, const int32_t* ids, T* y) {
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, cols));
  ParallelForRange(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(table + ids[i] * cols, cols, y + i * cols);
  });
}

// A tile owns a range of the table's rows and of its columns, and walks all ids: reading an id costs nothing beside
// adding a row, as long as there are few ranges of rows. Text is skewed towards some ids, columns are not.
template <typename T>
void ScatterAddRows(int64_t count, int64_t vocabulary, int64_t cols, const int32_t* ids, const T* dy, T* dtable) {
  if (count == 0 || vocabulary == 0 || cols == 0) return;
  constexpr int64_t kColumns = 64;
  constexpr int64_t kRanges = 4;
  const auto add = AddRowOnTarget<T>();
  const int64_t column_tiles = CeilDivide(cols, kColumns);
  const int64_t range = CeilDivide(vocabulary, kRanges);
  const LoopWork work = LoopWork::OfElements(static_cast<double>(count) * static_cast<double>(kRanges + cols));
  ParallelFor(column_tiles * kRanges, [&](int64_t tile) {
    const int64_t first = tile / kRanges * kColumns;
    const int64_t n = std::min(kColumns, cols - first);
    const int64_t low = tile % kRanges * range;
    const int64_t high = low + range;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = ids[i];
      if (id >= low && id < high) add(n, dy + i * cols + first, dtable + id * cols + first);
    }
  });
}

CROSSTALK_INSTANTIATE(GatherRows)
CROSSTALK_INSTANTIATE(ScatterAddRows)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
