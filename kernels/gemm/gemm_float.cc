// Products in float. C is made of register tiles of kRows × kPanel; A and B are packed so that a tile reads both in
// order; B's packed block, which all threads share, is visited once per block of A's rows.
//
// Every element of C is  Σ over blocks of k, in order, of  Σ over k within the block, in order,  whatever the sizes,
// the threads and the width of the vectors; by fused multiply-adds on every target that has them (AVX2 and wider, not
// SSE). A row's bits do not depend on how many rows there are.
#include <algorithm>
#include <cstring>

#include "crosstalk/kernels/gemm/gemm_internal.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/gemm_float.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/transpose-inl.h"

#ifndef CROSSTALK_KERNELS_GEMM_FLOAT_BLOCKS_
#define CROSSTALK_KERNELS_GEMM_FLOAT_BLOCKS_
namespace crosstalk::kernels {

// A block of k. A fixed part of what a product is: it decides the order of additions. C is read and written once for
// each, which costs more than what a shorter panel of B saves.
constexpr int64_t kDepth = 768;
constexpr int64_t kBlockColumns = 4096;  // of packed B: 12 MiB with kDepth, a part of the third-level cache
constexpr int64_t kBlockRows = 216;      // of packed A at most, which stay in the second-level cache
constexpr int64_t kLeastBlockRows = 48;  // below, reading B's panels costs too much
constexpr int64_t kFewRows = 48;         // up to here B is not worth packing for all
constexpr int64_t kTasksPerThread = 4;

// Working memory: on the stack where little is needed, else from the pool that tensors come from.
class PackBuffer {
 public:
  explicit PackBuffer(int64_t floats) {
    if (floats <= kOnStack) return;
    storage_ = Storage::Allocate(static_cast<size_t>(floats) * sizeof(float));
  }
  float* data() { return storage_ == nullptr ? stack_ : static_cast<float*>(storage_->data()); }

 private:
  static constexpr int64_t kOnStack = 4096;
  alignas(kAlignment) float stack_[kOnStack];
  std::shared_ptr<Storage> storage_;
};

// Equal blocks of at most `most`, whole multiples of `unit` but for the last.
struct Blocks {
  Blocks(int64_t total, int64_t most, int64_t unit) {
    const int64_t wanted = (total + most - 1) / most;
    size = ((total + wanted - 1) / wanted + unit - 1) / unit * unit;
    count = (total + size - 1) / size;
  }
  int64_t size, count;
};

}  // namespace crosstalk::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

using Lane = hn::ScalableTag<float>;
constexpr int kWidth = HWY_LANES(float);
constexpr int kRows = kWidth >= 16 ? 12 : 6;  // × 2 vectors of accumulators: of 32 registers, or of 16
constexpr int kPanel = 2 * kWidth;
constexpr int64_t kSlack = kPanel;  // packing writes whole vectors

// What becomes of a sum: C ← alpha · sum + beta · C, where beta = 0 overwrites.
struct Update {
  float alpha, beta;
};

// How a tile's rows of A are packed: A[k][R], or A[R][kRowStride] where they are used so little that transposing them
// would show.
enum class RowLayout { kByDepth, kByRow };
constexpr int64_t kFewColumns = 512;
// Fixed, so that all rows are reached from one address; a line more than kDepth keeps rows out of the same cache sets.
constexpr int64_t kRowStride = kDepth + 16;

// C[R, columns] ← Σ_k A[R, k] · B[k, NV vectors]; columns ≤ NV vectors. A function of its own: the registers are just
// enough, and what surrounds it would take some.
template <int R, int NV, RowLayout kLayout>
HWY_NOINLINE void Tile(int64_t depth, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t b_depth,
                       float* HWY_RESTRICT c, int64_t ldc, int64_t columns, const Update& update,
                       PrefetchSpread ahead) {
  const Lane d;
  hn::Vec<Lane> sum[R][NV];
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  // C is read or written only at the end, and often comes from memory.
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) __builtin_prefetch(c + r * ldc + v * kWidth, 1, 2);
  }
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<Lane> y[NV];
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) y[v] = hn::LoadU(d, b + v * kWidth);
    ahead.Next();
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = hn::Set(d, a[kLayout == RowLayout::kByRow ? r * kRowStride : r]);
      CROSSTALK_UNROLL
      for (int v = 0; v < NV; ++v) sum[r][v] = hn::MulAdd(x, y[v], sum[r][v]);
    }
    a += kLayout == RowLayout::kByRow ? 1 : R;
    b += b_depth;
  }
  const auto alpha = hn::Set(d, update.alpha), beta = hn::Set(d, update.beta);
  const bool overwrite = update.beta == 0.0f;
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) {
      float* at = c + r * ldc + v * kWidth;
      auto y = hn::Mul(alpha, sum[r][v]);
      const int64_t here = columns - v * kWidth;
      if (HWY_LIKELY(here >= kWidth)) {
        if (!overwrite) y = hn::Add(hn::Mul(beta, hn::LoadU(d, at)), y);
        hn::StoreU(y, d, at);
      } else if (here > 0) {
        const size_t rest = static_cast<size_t>(here);
        if (!overwrite) y = hn::Add(hn::Mul(beta, LoadFirst(d, at, rest)), y);
        StoreFirst(y, d, at, rest);
      }
    }
  }
}

// Tile for run-time numbers of rows ≤ R and columns ≤ kPanel.
template <int R, RowLayout kLayout>
HWY_INLINE void TileOf(int64_t rows, int64_t depth, const float* a, const float* b, int64_t b_depth, float* c,
                       int64_t ldc, int64_t columns, const Update& update, const PrefetchSpread& ahead) {
  if (rows == R) {
    if (columns > kWidth) {
      Tile<R, 2, kLayout>(depth, a, b, b_depth, c, ldc, columns, update, ahead);
    } else {
      Tile<R, 1, kLayout>(depth, a, b, b_depth, c, ldc, columns, update, ahead);
    }
  } else if constexpr (R > 1) {
    TileOf<R - 1, kLayout>(rows, depth, a, b, b_depth, c, ldc, columns, update, ahead);
  }
}

RowLayout LayoutOf(const GemmArguments<float>& g) {
  return g.transpose_a == Transpose::kNo && g.n < kFewColumns ? RowLayout::kByRow : RowLayout::kByDepth;
}

// Floats from one tile's packed rows to the next one's.
int64_t PackedTile(RowLayout layout, int64_t depth) {
  return kRows * (layout == RowLayout::kByRow ? kRowStride : depth);
}

int64_t PackedBlock(const GemmArguments<float>& g, int64_t rows, int64_t depth) {
  return (rows + kRows - 1) / kRows * PackedTile(LayoutOf(g), depth);
}

// op(A)[first … first + rows, k … k + depth] in tiles of kRows.
HWY_INLINE void PackA(const GemmArguments<float>& g, int64_t first, int64_t rows, int64_t k, int64_t depth,
                      float* out) {
  if (LayoutOf(g) == RowLayout::kByRow) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out + r * kRowStride, g.a + (first + r) * g.lda + k, static_cast<size_t>(depth) * sizeof(float));
    }
    return;
  }
  if (g.transpose_a == Transpose::kNo) {
    for (int64_t t = 0; t < rows; t += kRows) {
      const int64_t tile_rows = std::min<int64_t>(kRows, rows - t);
      TransposeScaled(tile_rows, tile_rows, depth, g.a + (first + t) * g.lda + k, g.lda, 1.0f, out + t * depth,
                      tile_rows);
    }
    return;
  }
  const Lane d;
  for (int64_t t = 0; t < rows; t += kRows) {
    const int64_t tile_rows = std::min<int64_t>(kRows, rows - t);
    // Whole vectors as long as they stay within a row of A; what a store writes too much the next one overwrites.
    const bool whole = first + t + (tile_rows + kWidth - 1) / kWidth * kWidth <= g.m;
    for (int64_t i = 0; i < depth; ++i) {
      const float* in = g.a + (k + i) * g.lda + first + t;
      for (int64_t r = 0; r < tile_rows; r += kWidth) {
        const int64_t rest = tile_rows - r;
        hn::StoreU(whole || rest >= kWidth ? hn::LoadU(d, in + r) : LoadFirst(d, in + r, static_cast<size_t>(rest)), d,
                   out + t * depth + i * tile_rows + r);
      }
    }
  }
}

// out[k][kPanel] = op(B)[k, first + column], zeros behind the last column.
HWY_NOINLINE inline void PackPanel(const GemmArguments<float>& g, int64_t first, int64_t k, int64_t depth, float* out) {
  const Lane d;
  const int64_t columns = std::min<int64_t>(kPanel, g.n - first);
  if (g.transpose_b == Transpose::kYes) {
    TransposeScaled(columns, kPanel, depth, g.b + first * g.ldb + k, g.ldb, 1.0f, out, kPanel);
    return;
  }
  const float* in = g.b + k * g.ldb + first;
  if (columns == kPanel) {
    for (int64_t i = 0; i < depth; ++i) {
      hn::Store(hn::LoadU(d, in + i * g.ldb), d, out + i * kPanel);
      hn::Store(hn::LoadU(d, in + i * g.ldb + kWidth), d, out + i * kPanel + kWidth);
    }
    return;
  }
  for (int64_t i = 0; i < depth; ++i) {
    std::memset(out + i * kPanel, 0, kPanel * sizeof(float));
    std::memcpy(out + i * kPanel, in + i * g.ldb, static_cast<size_t>(columns) * sizeof(float));
  }
}

// The tiles of packed rows over one panel of B. `next`: the panel that will be read after it, where it is packed.
HWY_INLINE void PanelTiles(const GemmArguments<float>& g, int64_t first_row, int64_t rows, const float* a,
                           int64_t first_column, const float* b, int64_t b_depth, int64_t depth, const Update& update,
                           const float* next = nullptr) {
  const int64_t all_tiles = (rows + kRows - 1) / kRows;
  const int64_t step = next == nullptr ? 0 : (kPanel + all_tiles - 1) / all_tiles;
  const int64_t columns = std::min<int64_t>(kPanel, g.n - first_column);
  const RowLayout layout = LayoutOf(g);
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t tile_rows = std::min<int64_t>(kRows, rows - r);
    const float* tile = a + r / kRows * PackedTile(layout, depth);
    float* c = g.c + (first_row + r) * g.ldc + first_column;
    const PrefetchSpread ahead{next == nullptr ? b : next + r / kRows * step * depth, step};  // this tile's part of it
    if (layout == RowLayout::kByRow) {
      TileOf<kRows, RowLayout::kByRow>(tile_rows, depth, tile, b, b_depth, c, g.ldc, columns, update, ahead);
    } else {
      TileOf<kRows, RowLayout::kByDepth>(tile_rows, depth, tile, b, b_depth, c, g.ldc, columns, update, ahead);
    }
  }
}

Update UpdateOf(const GemmArguments<float>& g, int64_t k) { return {g.alpha, k == 0 ? g.beta : 1.0f}; }

// Few rows: B is read where it lies, or packed panel by panel, used at once, and never written to memory.
void FewRowsProduct(const GemmArguments<float>& g) {
  const Blocks depths(g.k, kDepth, 1);
  const int64_t panels = (g.n + kPanel - 1) / kPanel;
  const int64_t block = PackedBlock(g, g.m, depths.size);
  PackBuffer all_rows(block * depths.count + kSlack);
  for (int64_t i = 0; i < depths.count; ++i) {
    const int64_t k = i * depths.size;
    PackA(g, 0, g.m, k, std::min(depths.size, g.k - k), all_rows.data() + i * block);
  }
  constexpr double kLeastWork = 1 << 18;  // multiplications of a task
  const double work = static_cast<double>(g.m) * static_cast<double>(g.k) * kPanel;
  const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(kLeastWork / work));
  ParallelForRange(panels, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    const bool in_place = g.transpose_b == Transpose::kNo;
    const bool packs = !in_place || end * kPanel > g.n;
    PackBuffer panel(packs ? std::min(depths.size, g.k) * kPanel + kSlack : 0);
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < depths.count; ++i) {
        const int64_t k = i * depths.size, depth = std::min(depths.size, g.k - k);
        const float* a = all_rows.data() + i * block;
        if (in_place && (p + 1) * kPanel <= g.n) {
          PanelTiles(g, 0, g.m, a, p * kPanel, g.b + k * g.ldb + p * kPanel, g.ldb, depth, UpdateOf(g, k));
        } else {
          PackPanel(g, p * kPanel, k, depth, panel.data());
          PanelTiles(g, 0, g.m, a, p * kPanel, panel.data(), kPanel, depth, UpdateOf(g, k));
        }
      }
    }
  });
}

// How the work on one packed block of B is shared out: a grid of ranges of row tiles and of B's panels, as equal as can
// be, a multiple of the threads. None of it changes a bit.
struct Shares {
  Shares(int64_t m, int64_t all_panels) : tiles((m + kRows - 1) / kRows), panels(all_panels) {
    const int64_t threads = NumThreads(), wanted = kTasksPerThread * threads;
    rows = std::max((m + kBlockRows - 1) / kBlockRows, std::min(wanted, m / kLeastBlockRows));
    if (rows > 1) rows = std::min(tiles, (rows + threads - 1) / threads * threads);
    // Where there are few rows, columns are shared out as well: A is packed again for each.
    columns = 2 * rows >= wanted ? 1 : std::clamp<int64_t>(wanted / rows, 1, (panels + 3) / 4);
  }
  int64_t FirstRow(int64_t share) const { return tiles * share / rows * kRows; }
  int64_t FirstPanel(int64_t share) const { return panels * share / columns; }
  int64_t tiles, panels;
  int64_t rows, columns;  // shares of each
};

void BlockedProduct(const GemmArguments<float>& g) {
  const Blocks depths(g.k, kDepth, 1), column_blocks(g.n, kBlockColumns, kPanel);
  PackBuffer packed_b(std::min(depths.size, g.k) * ((column_blocks.size + kPanel - 1) / kPanel * kPanel) + kSlack);
  for (int64_t column = 0; column < g.n; column += column_blocks.size) {
    const int64_t panels = (std::min(column_blocks.size, g.n - column) + kPanel - 1) / kPanel;
    const Shares shares(g.m, panels);
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k);
      ParallelForRange(panels, 4, [&](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t p = begin; p < end; ++p) {
          PackPanel(g, column + p * kPanel, k, depth, packed_b.data() + p * kPanel * depth);
        }
      });
      ParallelFor(shares.rows * shares.columns, [&](int64_t task) HWY_ATTR {
        const int64_t row_share = task / shares.columns, column_share = task % shares.columns;
        const int64_t row = shares.FirstRow(row_share);
        const int64_t rows = std::min(g.m, shares.FirstRow(row_share + 1)) - row;
        PackBuffer packed_a(PackedBlock(g, rows, depth) + kSlack);
        PackA(g, row, rows, k, depth, packed_a.data());
        for (int64_t p = shares.FirstPanel(column_share); p < shares.FirstPanel(column_share + 1); ++p) {
          PanelTiles(g, row, rows, packed_a.data(), column + p * kPanel, packed_b.data() + p * kPanel * depth, kPanel,
                     depth, UpdateOf(g, k), packed_b.data() + (p + 1) * kPanel * depth);
        }
      });
    }
  }
}

void FloatProduct(const GemmArguments<float>& g) {
  if (g.m <= kFewRows) {
    FewRowsProduct(g);
  } else {
    BlockedProduct(g);
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(FloatProduct);

int64_t GemmPackedFloats(int64_t k, int64_t n) { return std::min(k, kDepth) * std::min(n, kBlockColumns); }

void ComputeProduct(const GemmArguments<float>& g) {
  if (g.k == 0 || g.alpha == 0.0f) return ScaleResult(g);
  HWY_DYNAMIC_DISPATCH(FloatProduct)(g);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
