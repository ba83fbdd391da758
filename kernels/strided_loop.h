// A loop nest over a shape with several operands, each with its own strides: dimensions of size 1 dropped and
// neighbours merged where every operand allows it. Shared by the strided kernels.
#pragma once

#include <array>
#include <cstdint>

#include "crosstalk/runtime/shape.h"

namespace crosstalk::kernels {

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

}  // namespace crosstalk::kernels
