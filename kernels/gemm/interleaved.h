// Batch-interleaved small matrix products, one for each lane of a vector: where the batch dimension of a contraction is
// the contiguous one in memory, transposing it away would cost more than the products.
#pragma once

#include <cstdint>
#include <span>

#include "crosstalk/runtime/dtype.h"

namespace crosstalk::kernels {

// c[r, j, l] = Σ_k a[r, k, l] · b[k, j, l]. Lanes l are contiguous in all three; the other strides are in elements.
template <typename T>
struct InterleavedGemmArguments {
  int64_t rows = 0, columns = 0, inner = 0, lanes = 0;
  const T* a = nullptr;
  int64_t a_row = 0, a_inner = 0;
  const T* b = nullptr;
  int64_t b_inner = 0, b_column = 0;
  T* c = nullptr;
  int64_t c_row = 0, c_column = 0;
  Precision precision = Precision::kFloat32;  // in float: what a and b are rounded to
};

// One such product for each i, at a + offsets_a[i], b + offsets_b[i], c + offsets_c[i]; no two c overlap. inner ≥ 1.
// Threaded over products, blocks of lanes and blocks of rows; each sum runs over k in order. T is float or double.
template <typename T>
void InterleavedGemmBatched(const InterleavedGemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                            std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c);

}  // namespace crosstalk::kernels
