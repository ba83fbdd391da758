// Products in double, which check those in float: one single-threaded OpenBLAS call for each tile of C, the tiles cut
// by shape alone, so that the bits do not depend on the number of threads.
#include <algorithm>

#include "crosstalk/kernels/gemm/gemm_internal.h"
#include "crosstalk/runtime/parallel.h"

namespace crosstalk::kernels {
namespace {

constexpr int64_t kTileRows = 256, kTileColumns = 1024;

}  // namespace

void ComputeProduct(const GemmArguments<double>& g) {
  if (g.k == 0 || g.alpha == 0) return ScaleResult(g);
  const int64_t row_tiles = (g.m + kTileRows - 1) / kTileRows;
  const int64_t column_tiles = (g.n + kTileColumns - 1) / kTileColumns;
  ParallelFor(row_tiles * column_tiles, [&](int64_t tile) {
    const int64_t row = tile / column_tiles * kTileRows, column = tile % column_tiles * kTileColumns;
    GetOpenBlas().dgemm(kCblasRowMajor, Cblas(g.transpose_a), Cblas(g.transpose_b),
                        static_cast<int>(std::min(kTileRows, g.m - row)),
                        static_cast<int>(std::min(kTileColumns, g.n - column)), static_cast<int>(g.k), g.alpha,
                        g.a + (g.transpose_a == Transpose::kYes ? row : row * g.lda), static_cast<int>(g.lda),
                        g.b + (g.transpose_b == Transpose::kYes ? column * g.ldb : column), static_cast<int>(g.ldb),
                        g.beta, g.c + row * g.ldc + column, static_cast<int>(g.ldc));
  });
}

}  // namespace crosstalk::kernels
