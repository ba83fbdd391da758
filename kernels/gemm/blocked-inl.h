// The blocked product, one template for all operands. In BLIS's terms: C is made of register tiles of MR × NR;
// A (MC × KC) and B (KC × NC) are packed so that a tile reads both in order; B's packed block, which all threads share,
// is visited once per MC rows of A.
//
// Every element of C is  Σ over blocks of k, in order, of  Σ over k within the block, in order,  whatever the sizes,
// the threads and the width of the vectors; by fused multiply-adds on every target that has them (AVX2 and wider, not
// SSE). A row's bits do not depend on how many rows there are. Compiled once per target.
#if defined(CROSSTALK_GEMM_BLOCKED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_BLOCKED_INL_H_
#undef CROSSTALK_GEMM_BLOCKED_INL_H_
#else
#define CROSSTALK_GEMM_BLOCKED_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/kernels/gemm/pack_buffer.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_GEMM_BLOCKED_SHARED_
#define CROSSTALK_KERNELS_GEMM_BLOCKED_SHARED_
namespace crosstalk::kernels {

constexpr int64_t kLeastMC = 48;           // below, reading B's panels costs too much
constexpr int64_t kFewRows = 48;           // up to here B is not worth packing for all
constexpr int64_t kLeastPacked = 1 << 13;  // elements of packed B that a thread packs at a time

}  // namespace crosstalk::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <class Operands>
using Product = GemmArguments<typename Operands::Sum>;

// Lengths of packed operands are in Packed: of `depth` terms so many.
template <class Operands>
constexpr int64_t PackedDepth(int64_t depth) {
  return RoundUp(CeilDivide<int64_t>(depth, Operands::kTerms), Operands::kStep);
}
template <class Operands>
constexpr int64_t kSlack = Operands::kNR;  // packing writes whole vectors

// From one tile's packed rows to the next one's.
template <class Operands>
int64_t PackedTile(RowLayout layout, int64_t depth) {
  return Operands::kMR * (layout == RowLayout::kByRow ? Operands::kRowStride : PackedDepth<Operands>(depth));
}

template <class Operands>
int64_t PackedBlock(const Product<Operands>& g, int64_t rows, int64_t depth) {
  return CeilDivide<int64_t>(rows, Operands::kMR) * PackedTile<Operands>(Operands::LayoutOf(g), depth);
}

template <class Operands>
Blocks DepthsOf(const Product<Operands>& g) {
  return Blocks(g.k, kKC, Operands::kTerms);
}

// The tiles of packed rows over one panel of B, for k … k + depth. `next`: the panel that will be read after it, where
// it is packed.
template <class Operands, typename Packed = typename Operands::Packed>
HWY_INLINE void PanelTiles(typename Operands::Arithmetic& arithmetic, const Product<Operands>& g, int64_t first_row,
                           int64_t rows, const Packed* a, int64_t first_column, const Packed* b, int64_t b_depth,
                           int64_t k, int64_t depth, const Packed* next = nullptr) {
  using T = typename Operands::Sum;
  constexpr int64_t kRows = Operands::kMR, kPanel = Operands::kNR;
  const int64_t all_tiles = CeilDivide(rows, kRows), packed_depth = PackedDepth<Operands>(depth);
  const int64_t step = next == nullptr ? 0 : CeilDivide(kPanel, all_tiles);
  const int64_t columns = std::min(kPanel, g.n - first_column);
  const RowLayout layout = Operands::LayoutOf(g);
  const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                            g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + first_column};
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t tile = r / kRows;
    // This tile's part of the next panel.
    const PrefetchSpread<Packed> ahead{next == nullptr ? b : next + tile * step * packed_depth, step};
    Operands::TileOf(arithmetic, layout, std::min(kRows, rows - r), packed_depth,
                     a + tile * PackedTile<Operands>(layout, depth), b, b_depth,
                     g.c + (first_row + r) * g.ldc + first_column, g.ldc, columns, update, ahead);
  }
}

// B's panels of one task of a product of few rows.
template <class Operands>
int64_t PanelsPerTask(const Product<Operands>& g) {
  constexpr double kLeastWork = 1 << 18;  // multiplications
  const double work = static_cast<double>(g.m) * static_cast<double>(g.k) * Operands::kNR;
  return std::max<int64_t>(1, static_cast<int64_t>(kLeastWork / work));
}

template <class Operands>
bool ReadsInPlace(const Product<Operands>& g) {
  return Operands::kInPlace && g.transpose_b == Transpose::kNo;
}

// How the work on one packed block of B is shared out: a grid of ranges of row tiles and of B's panels, as equal as can
// be, a multiple of the threads. None of it changes a bit.
template <class Operands>
struct Shares {
  Shares(int64_t m, int64_t most_rows, int64_t all_panels)
      : tiles(CeilDivide<int64_t>(m, Operands::kMR)), panels(all_panels) {
    const int64_t threads = NumThreads(), wanted = kTasksPerThread * threads;
    rows = std::max(CeilDivide(m, most_rows), std::min(wanted, m / kLeastMC));
    if (rows > 1) rows = std::min(tiles, RoundUp(rows, threads));
    // Where there are few rows, columns are shared out as well: A is packed again for each.
    columns = 2 * rows >= wanted ? 1 : std::clamp<int64_t>(wanted / rows, 1, CeilDivide<int64_t>(panels, 4));
  }
  int64_t FirstRow(int64_t share) const { return tiles * share / rows * Operands::kMR; }
  int64_t FirstPanel(int64_t share) const { return panels * share / columns; }
  int64_t tiles, panels;
  int64_t rows, columns;  // shares of each
};

template <class Operands>
GemmWorkspace WorkspaceOf(const Product<Operands>& g) {
  using T = typename Operands::Sum;
  constexpr int64_t kPanel = Operands::kNR;
  const Blocks depths = DepthsOf<Operands>(g);
  const int64_t depth = std::min(depths.size, g.k), packed_depth = PackedDepth<Operands>(depth);
  if (g.m <= kFewRows) {
    const int64_t packing = ReadsInPlace<Operands>(g) ? int64_t{g.n % kPanel != 0}
                                                      : CeilDivide(CeilDivide(g.n, kPanel), PanelsPerTask<Operands>(g));
    return {.shared = PackedBlock<Operands>(g, g.m, depths.size) * depths.count + kSlack<Operands>,
            .task = packed_depth * kPanel + kSlack<Operands>,
            .packing_tasks = packing};
  }
  const Blocks columns(g.n, kNC<T>, kPanel);
  const Shares<Operands> shares(g.m, kMC<T>, CeilDivide(std::min(columns.size, g.n), kPanel));
  const int64_t rows = std::min<int64_t>(g.m, CeilDivide(shares.tiles, shares.rows) * Operands::kMR);
  return {.shared = packed_depth * RoundUp(columns.size, kPanel) + kSlack<Operands>,
          .task = PackedBlock<Operands>(g, rows, depth) + kSlack<Operands>,
          .packing_tasks = shares.rows * shares.columns};
}

// Few rows: B is read where it lies, or packed panel by panel, used at once, and never written to memory.
template <class Operands>
void FewRowsProduct(const Product<Operands>& g) {
  using Packed = typename Operands::Packed;
  constexpr int64_t kPanel = Operands::kNR;
  const Blocks depths = DepthsOf<Operands>(g);
  const int64_t panels = CeilDivide(g.n, kPanel);
  const int64_t block = PackedBlock<Operands>(g, g.m, depths.size);
  const GemmWorkspace workspace = WorkspaceOf<Operands>(g);
  PackBuffer<Packed> all_rows(workspace.shared);
  for (int64_t i = 0; i < depths.count; ++i) {
    const int64_t k = i * depths.size;
    Operands::PackA(g, 0, g.m, k, std::min(depths.size, g.k - k), all_rows.data() + i * block);
  }
  ParallelForRange(panels, PanelsPerTask<Operands>(g), [&](int64_t begin, int64_t end) HWY_ATTR {
    typename Operands::Arithmetic arithmetic;
    const bool in_place = ReadsInPlace<Operands>(g);
    const bool packs = !in_place || end * kPanel > g.n;
    PackBuffer<Packed> panel(packs ? workspace.task : 0);
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < depths.count; ++i) {
        const int64_t k = i * depths.size, depth = std::min(depths.size, g.k - k);
        const Packed* a = all_rows.data() + i * block;
        if constexpr (Operands::kInPlace) {
          if (in_place && (p + 1) * kPanel <= g.n) {
            PanelTiles<Operands>(arithmetic, g, 0, g.m, a, p * kPanel, g.b.data() + k * g.b.stride + p * kPanel,
                                 g.b.stride, k, depth);
            continue;
          }
        }
        Operands::PackPanel(g, p * kPanel, k, depth, panel.data());
        PanelTiles<Operands>(arithmetic, g, 0, g.m, a, p * kPanel, panel.data(), kPanel, k, depth);
      }
    }
  });
}

template <class Operands>
void ManyRowsProduct(const Product<Operands>& g) {
  using T = typename Operands::Sum;
  using Packed = typename Operands::Packed;
  constexpr int64_t kPanel = Operands::kNR;
  const Blocks depths = DepthsOf<Operands>(g), column_blocks(g.n, kNC<T>, kPanel);
  const GemmWorkspace workspace = WorkspaceOf<Operands>(g);
  PackBuffer<Packed> packed_b(workspace.shared);
  for (int64_t column = 0; column < g.n; column += column_blocks.size) {
    const int64_t panels = CeilDivide(std::min(column_blocks.size, g.n - column), kPanel);
    const Shares<Operands> shares(g.m, kMC<T>, panels);
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k), panel = kPanel * PackedDepth<Operands>(depth);
      ParallelForRange(panels, CeilDivide(kLeastPacked, panel), [&](int64_t begin, int64_t end) HWY_ATTR {
        for (int64_t p = begin; p < end; ++p) {
          Operands::PackPanel(g, column + p * kPanel, k, depth, packed_b.data() + p * panel);
        }
      });
      const auto multiply = [&](int64_t task) HWY_ATTR {
        typename Operands::Arithmetic arithmetic;
        const int64_t row_share = task / shares.columns, column_share = task % shares.columns;
        const int64_t row = shares.FirstRow(row_share);
        const int64_t rows = std::min(g.m, shares.FirstRow(row_share + 1)) - row;
        PackBuffer<Packed> packed_a(workspace.task);
        Operands::PackA(g, row, rows, k, depth, packed_a.data());
        for (int64_t p = shares.FirstPanel(column_share); p < shares.FirstPanel(column_share + 1); ++p) {
          PanelTiles<Operands>(arithmetic, g, row, rows, packed_a.data(), column + p * kPanel,
                               packed_b.data() + p * panel, kPanel, k, depth, packed_b.data() + (p + 1) * panel);
        }
      };
      ParallelFor(shares.rows * shares.columns, multiply, TileOrder::kLocal);
    }
  }
}

template <BlockedOperands Operands>
void BlockedProduct(const Product<Operands>& g) {
  if (g.m <= kFewRows) {
    FewRowsProduct<Operands>(g);
  } else {
    ManyRowsProduct<Operands>(g);
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
