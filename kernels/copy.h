// Copies: strided ones, and rows of a table by their ids.
#pragma once

#include <array>
#include <cstdint>

#include "crosstalk/runtime/shape.h"

namespace crosstalk::kernels {

// Strided copies: transposes, permutations, slices, concatenation and broadcasts made contiguous.

// y[i…] = x[i…] over `shape`, any strides (in elements; 0 in x where it is stretched, never in y). Threaded;
// dimensions are merged where the strides allow it, and a transpose goes in square blocks through the cache.
// T is float, double, int32_t, int64_t, uint8_t (kBool) or uint16_t (kBFloat16).
template <typename T>
void CopyStrided(const Shape& shape, const T* x, const Strides& strides_x, T* y, const Strides& strides_y);

// A loop nest over a shape with several operands, each with its own strides: dimensions of size 1 dropped and
// neighbours merged where every operand allows it. Shared by the strided kernels.

template <int kOperands>
struct StridedLoop {
  int rank = 0;  // ≥ 1 after merging; the last dimension is the inner loop
  std::array<int64_t, kMaxRank> size{};
  std::array<std::array<int64_t, kMaxRank>, kOperands> stride{};

  int64_t inner() const { return size[rank - 1]; }
  int64_t rows() const {  // iterations of all loops but the last
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank; ++i) rows *= size[i];
    return rows;
  }
  // Where row `row` (0 … rows()-1, row-major) begins in each operand.
  std::array<int64_t, kOperands> RowOffsets(int64_t row) const {
    std::array<int64_t, kOperands> offsets{};
    for (int i = rank - 2; i >= 0; --i) {
      const int64_t index = row % size[i];
      row /= size[i];
      for (int k = 0; k < kOperands; ++k) offsets[k] += index * stride[k][i];
    }
    return offsets;
  }
};

// Strides have the shape's rank. A shape with no elements gives one loop of size 0.
template <int kOperands>
StridedLoop<kOperands> MergeDimensions(const Shape& shape, const std::array<const Strides*, kOperands>& strides) {
  StridedLoop<kOperands> loop;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 0) {
      loop.rank = 1;
      loop.size[0] = 0;
      return loop;
    }
    if (shape[i] == 1) continue;
    bool merges = loop.rank > 0;
    for (int k = 0; k < kOperands && merges; ++k) {
      merges = loop.stride[k][loop.rank - 1] == (*strides[k])[i] * shape[i];
    }
    if (!merges) loop.size[loop.rank++] = 1;
    const int last = loop.rank - 1;
    loop.size[last] *= shape[i];
    for (int k = 0; k < kOperands; ++k) loop.stride[k][last] = (*strides[k])[i];
  }
  if (loop.rank == 0) {
    loop.rank = 1;
    loop.size[0] = 1;
  }
  return loop;
}

// Rows of a table by number, and the sum of row gradients back into it. The caller has checked that ids[i] <
// vocabulary, and 0 ≤ ids[i] where rows are gathered.

// y[count, cols]: y[i] = table[ids[i]].
template <typename T>
void GatherRows(int64_t count, int64_t cols, const T* table, const int32_t* ids, T* y);

// dtable[vocabulary, cols]: dtable[ids[i]] += dy[i], in the order of i for any number of threads (the work is cut by
// rows of the table and by columns). Here ids[i] may be negative: nothing is added for it.
template <typename T>
void ScatterAddRows(int64_t count, int64_t vocabulary, int64_t cols, const int32_t* ids, const T* dy, T* dtable);

}  // namespace crosstalk::kernels
