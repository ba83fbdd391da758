// The blocked product, the same template for float and double. In BLIS's terms: C is made of register tiles of MR × NR;
// A (MC × KC) and B (KC × NC) are packed so that a tile reads both in order; B's packed block, which all threads share,
// is visited once per MC rows of A.
//
// Every element of C is  Σ over blocks of k, in order, of  Σ over k within the block, in order,  whatever the sizes,
// the threads and the width of the vectors; by fused multiply-adds on every target that has them (AVX2 and wider, not
// SSE). A row's bits do not depend on how many rows there are.
#include "crosstalk/kernels/gemm/blocked.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "crosstalk/kernels/gemm/pack_buffer.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/blocked.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/dispatch-inl.h"
#include "crosstalk/kernels/gemm/dots-inl.h"
#include "crosstalk/kernels/gemm/pack-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"
#include "crosstalk/kernels/gemm/tile-inl.h"

#ifndef CROSSTALK_KERNELS_GEMM_BLOCKED_SHARED_
#define CROSSTALK_KERNELS_GEMM_BLOCKED_SHARED_
namespace crosstalk::kernels {

constexpr int64_t kLeastMC = 48;  // below, reading B's panels costs too much
constexpr int64_t kFewRows = 48;  // up to here B is not worth packing for all

}  // namespace crosstalk::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// The tiles of packed rows over one panel of B, for k … k + depth. `next`: the panel that will be read after it, where
// it is packed.
template <typename T>
HWY_INLINE void PanelTiles(const GemmArguments<T>& g, int64_t first_row, int64_t rows, const T* a, int64_t first_column,
                           const T* b, int64_t b_depth, int64_t k, int64_t depth, const T* next = nullptr) {
  const int64_t all_tiles = CeilDivide<int64_t>(rows, kMR);
  const int64_t step = next == nullptr ? 0 : CeilDivide<int64_t>(kNR<T>, all_tiles);
  const int64_t columns = std::min<int64_t>(kNR<T>, g.n - first_column);
  const RowLayout layout = LayoutOf(g);
  const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                            g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + first_column};
  for (int64_t r = 0; r < rows; r += kMR) {
    const int64_t tile_rows = std::min<int64_t>(kMR, rows - r);
    const T* tile = a + r / kMR * PackedTile(layout, depth);
    T* c = g.c + (first_row + r) * g.ldc + first_column;
    const PrefetchSpread<T> ahead{next == nullptr ? b : next + r / kMR * step * depth, step};  // this tile's part of it
    if (layout == RowLayout::kByRow) {
      TileOf<kMR, RowLayout::kByRow>(tile_rows, depth, tile, b, b_depth, c, g.ldc, columns, update, ahead);
    } else {
      TileOf<kMR, RowLayout::kByDepth>(tile_rows, depth, tile, b, b_depth, c, g.ldc, columns, update, ahead);
    }
  }
}

// B's panels of one task of a product of few rows.
template <typename T>
int64_t PanelsPerTask(const GemmArguments<T>& g) {
  constexpr double kLeastWork = 1 << 18;  // multiplications
  const double work = static_cast<double>(g.m) * static_cast<double>(g.k) * kNR<T>;
  return std::max<int64_t>(1, static_cast<int64_t>(kLeastWork / work));
}

// Few rows: B is read where it lies, or packed panel by panel, used at once, and never written to memory.
template <typename T>
void FewRowsProduct(const GemmArguments<T>& g) {
  constexpr int64_t kPanel = kNR<T>;
  const Blocks depths(g.k, kKC, 1);
  const int64_t panels = CeilDivide(g.n, kPanel);
  const int64_t block = PackedBlock(g, g.m, depths.size);
  PackBuffer<T> all_rows(block * depths.count + kSlack<T>);
  for (int64_t i = 0; i < depths.count; ++i) {
    const int64_t k = i * depths.size;
    PackA(g, 0, g.m, k, std::min(depths.size, g.k - k), all_rows.data() + i * block);
  }
  ParallelForRange(panels, PanelsPerTask(g), [&](int64_t begin, int64_t end) HWY_ATTR {
    const bool in_place = g.transpose_b == Transpose::kNo;
    const bool packs = !in_place || end * kPanel > g.n;
    PackBuffer<T> panel(packs ? std::min(depths.size, g.k) * kPanel + kSlack<T> : 0);
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < depths.count; ++i) {
        const int64_t k = i * depths.size, depth = std::min(depths.size, g.k - k);
        const T* a = all_rows.data() + i * block;
        if (in_place && (p + 1) * kPanel <= g.n) {
          PanelTiles<T>(g, 0, g.m, a, p * kPanel, g.b + k * g.ldb + p * kPanel, g.ldb, k, depth);
        } else {
          PackPanel(g, p * kPanel, k, depth, panel.data());
          PanelTiles<T>(g, 0, g.m, a, p * kPanel, panel.data(), kPanel, k, depth);
        }
      }
    }
  });
}

// How the work on one packed block of B is shared out: a grid of ranges of row tiles and of B's panels, as equal as can
// be, a multiple of the threads. None of it changes a bit.
struct Shares {
  Shares(int64_t m, int64_t most_rows, int64_t all_panels) : tiles(CeilDivide<int64_t>(m, kMR)), panels(all_panels) {
    const int64_t threads = NumThreads(), wanted = kTasksPerThread * threads;
    rows = std::max(CeilDivide(m, most_rows), std::min(wanted, m / kLeastMC));
    if (rows > 1) rows = std::min(tiles, RoundUp(rows, threads));
    // Where there are few rows, columns are shared out as well: A is packed again for each.
    columns = 2 * rows >= wanted ? 1 : std::clamp<int64_t>(wanted / rows, 1, CeilDivide<int64_t>(panels, 4));
  }
  int64_t FirstRow(int64_t share) const { return tiles * share / rows * kMR; }
  int64_t FirstPanel(int64_t share) const { return panels * share / columns; }
  int64_t tiles, panels;
  int64_t rows, columns;  // shares of each
};

template <typename T>
void ManyRowsProduct(const GemmArguments<T>& g) {
  constexpr int64_t kPanel = kNR<T>;
  const Blocks depths(g.k, kKC, 1), column_blocks(g.n, kNC<T>, kPanel);
  PackBuffer<T> packed_b(std::min(depths.size, g.k) * RoundUp(column_blocks.size, kPanel) + kSlack<T>);
  for (int64_t column = 0; column < g.n; column += column_blocks.size) {
    const int64_t panels = CeilDivide(std::min(column_blocks.size, g.n - column), kPanel);
    const Shares shares(g.m, kMC<T>, panels);
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
        PackBuffer<T> packed_a(PackedBlock(g, rows, depth) + kSlack<T>);
        PackA(g, row, rows, k, depth, packed_a.data());
        for (int64_t p = shares.FirstPanel(column_share); p < shares.FirstPanel(column_share + 1); ++p) {
          PanelTiles<T>(g, row, rows, packed_a.data(), column + p * kPanel, packed_b.data() + p * kPanel * depth,
                        kPanel, k, depth, packed_b.data() + (p + 1) * kPanel * depth);
        }
      });
    }
  }
}

// The elements of each PackBuffer that is there at once in a product of that many threads, all of them busy.
template <typename T>
std::vector<int64_t> BufferSizes(const GemmArguments<T>& g, int64_t threads) {
  constexpr int64_t kPanel = kNR<T>;
  const Blocks depths(g.k, kKC, 1);
  const int64_t depth = std::min(depths.size, g.k);
  if (IsThin(g) || IsDots(g)) return {};
  if (g.m <= kFewRows) {
    const int64_t all_rows = PackedBlock(g, g.m, depths.size) * depths.count + kSlack<T>;
    const bool in_place = g.transpose_b == Transpose::kNo;
    const int64_t packing =
        in_place ? int64_t{g.n % kPanel != 0} : CeilDivide(CeilDivide(g.n, kPanel), PanelsPerTask(g));
    std::vector<int64_t> sizes(static_cast<size_t>(1 + std::min(threads, packing)), depth * kPanel + kSlack<T>);
    sizes[0] = all_rows;
    return sizes;
  }
  const Blocks columns(g.n, kNC<T>, kPanel);
  const Shares shares(g.m, kMC<T>, CeilDivide(std::min(columns.size, g.n), kPanel));
  const int64_t rows = std::min(g.m, CeilDivide(shares.tiles, shares.rows) * kMR);
  std::vector<int64_t> sizes(static_cast<size_t>(1 + std::min(threads, shares.rows * shares.columns)),
                             PackedBlock(g, rows, depth) + kSlack<T>);
  sizes[0] = depth * RoundUp(columns.size, kPanel) + kSlack<T>;
  return sizes;
}

template <typename T>
void Product(const GemmArguments<T>& g) {
  if (IsThin(g)) {
    ThinProduct(g);
  } else if (IsDots(g)) {
    DotsProduct(g);
  } else if (g.m <= kFewRows) {
    FewRowsProduct(g);
  } else {
    ManyRowsProduct(g);
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

CROSSTALK_DISPATCH(Product)
CROSSTALK_DISPATCH(BufferSizes)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

// C ← beta · C + bias, where beta = 0 overwrites: a product of nothing.
template <typename T>
void ScaleResult(const GemmArguments<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    T* row = g.c + i * g.ldc;
    for (int64_t j = 0; j < g.n; ++j) {
      row[j] = g.beta == T(0) ? T(0) : g.beta * row[j];
      if (g.bias != nullptr) row[j] += g.bias[j];
    }
  }
}

}  // namespace

template <typename T>
void BlockedGemm(const GemmArguments<T>& g) {
  if (g.k == 0 || g.alpha == T(0)) {
    ScaleResult(g);
  } else {
    ProductOnTarget<T>()(g);
  }
}

template <typename T>
void AllocateAsBlockedGemm(const GemmArguments<T>& g, int64_t threads, int64_t products) {
  if (g.k == 0 || g.alpha == T(0)) return;
  std::vector<std::shared_ptr<Storage>> buffers;
  const std::vector<int64_t> sizes = BufferSizesOnTarget<T>()(g, threads);
  for (int64_t i = 0; i < products; ++i) {
    for (const int64_t elements : sizes) buffers.push_back(PackBuffer<T>::FromPool(elements));
  }
}

template void BlockedGemm<float>(const GemmArguments<float>&);
template void BlockedGemm<double>(const GemmArguments<double>&);
template void AllocateAsBlockedGemm<float>(const GemmArguments<float>&, int64_t, int64_t);
template void AllocateAsBlockedGemm<double>(const GemmArguments<double>&, int64_t, int64_t);

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
