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
#include <numeric>
#include <vector>

#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

constexpr int64_t kLeastMC = 48;           // below, reading B's panels costs too much
constexpr int64_t kFewRows = 48;           // up to here B is not worth packing for all
constexpr int64_t kLeastPacked = 1 << 13;  // elements of packed B that a thread packs at a time
constexpr int64_t kLeastPanels = 4;        // a thread's: fewer are not worth packing A for
constexpr int64_t kSmallResult = 3 << 16;  // elements of C: up to here
constexpr int64_t kMostOwn = 1 << 17;      // packed elements that each thread has for itself: half a mebibyte of floats

template <class Operands>
using Product = GemmArguments<typename Operands::Sum>;

// Lengths of packed operands are in Packed: of `depth` terms so many.
template <class Operands>
constexpr int64_t PackedDepth(int64_t depth) {
  return RoundUp(CeilDivide<int64_t>(depth, Operands::kTerms), Operands::kStep);
}
template <class Operands>
constexpr int64_t kSlack = Operands::kNR;  // packing writes whole vectors

// Whether the microkernel reads A where it lies. By row, where at most four rows of a tile are in the same sets of a
// first-level cache, in which lines 4 KiB apart meet, or six if few panels of B read them, so that a copy takes longer
// than it saves; by k, where few panels of B read it again.
template <class Operands>
bool ReadsRowsInPlace(const Product<Operands>& g) {
  if (!Operands::kInPlace) return false;
  if (g.transpose_a == Transpose::kYes) return g.m * g.n <= kSmallResult;
  if (Operands::LayoutOf(g) != RowLayout::kByRow) return false;
  constexpr int64_t kSets = 4096, kFewPanels = 8;
  const int64_t places = kSets / std::gcd(g.a.stride * int64_t{sizeof(typename Operands::Packed)}, kSets);
  return CeilDivide<int64_t>(Operands::kMR, places) <= (g.n <= kFewPanels * Operands::kNR ? 6 : 4);
}

// From one tile's packed rows to the next one's.
template <class Operands>
int64_t PackedTile(RowLayout layout, int64_t depth) {
  return Operands::kMR * (layout == RowLayout::kByRow ? Operands::kRowStride : PackedDepth<Operands>(depth));
}

// Room for the rows of A that are packed.
template <class Operands>
int64_t PackedBlock(const Product<Operands>& g, int64_t rows, int64_t depth) {
  if (ReadsRowsInPlace<Operands>(g)) return 0;
  return CeilDivide<int64_t>(rows, Operands::kMR) * PackedTile<Operands>(Operands::LayoutOf(g), depth) +
         kSlack<Operands>;
}

// op(A)[first … first + rows, k … k + depth], packed into `room` unless they are read in place.
template <class Operands, typename Packed = typename Operands::Packed>
HWY_INLINE RowTiles<Packed> TakeRows(const Product<Operands>& g, int64_t first, int64_t rows, int64_t k, int64_t depth,
                                     Packed* room) {
  const RowLayout layout = Operands::LayoutOf(g);
  if constexpr (Operands::kInPlace) {
    if (ReadsRowsInPlace<Operands>(g)) {
      const int64_t stride = g.a.stride;
      if (g.transpose_a == Transpose::kYes) return {g.a.data() + k * stride + first, layout, stride, Operands::kMR};
      return {g.a.data() + first * stride + k, layout, stride, Operands::kMR * stride};
    }
  }
  Operands::PackA(g, first, rows, k, depth, room);
  return {room, layout, layout == RowLayout::kByRow ? Operands::kRowStride : 0, PackedTile<Operands>(layout, depth)};
}

template <class Operands>
Blocks DepthsOf(const Product<Operands>& g) {
  return Blocks(g.k, kKC, Operands::kTerms);
}

// The tiles of rows over one panel of B, for k … k + depth. `next`: the panel that will be read after it, where it is
// packed. `first`: no panel has read these rows of A yet.
template <class Operands, typename Packed = typename Operands::Packed>
HWY_INLINE void PanelTiles(typename Operands::Arithmetic& arithmetic, const Product<Operands>& g, int64_t first_row,
                           int64_t rows, const RowTiles<Packed>& a, int64_t first_column, const Packed* b,
                           int64_t b_depth, int64_t k, int64_t depth, const Packed* next = nullptr,
                           bool first = false) {
  using T = typename Operands::Sum;
  constexpr int64_t kRows = Operands::kMR, kPanel = Operands::kNR;
  const int64_t all_tiles = CeilDivide(rows, kRows), packed_depth = PackedDepth<Operands>(depth);
  const int64_t step = next == nullptr ? 0 : CeilDivide(kPanel, all_tiles);
  const int64_t columns = std::min(kPanel, g.n - first_column);
  const Update<T> update = {g.alpha, k == 0 ? g.beta : T(1),
                            g.bias == nullptr || k + depth < g.k ? nullptr : g.bias + first_column};
  RowTiles<Packed> tile = a;
  // Whole rows of A in place come from memory: the next tile's are asked for, kRows elements at each k.
  const bool asks_rows = first && a.stride == depth && a.tile == kRows * depth;
  for (int64_t r = 0; r < rows; r += kRows) {
    // Else this tile's part of the next panel.
    const PrefetchSpread<Packed> ahead =
        asks_rows ? PrefetchSpread<Packed>{tile.data + tile.tile, kRows}
                  : PrefetchSpread<Packed>{next == nullptr ? b : next + r / kRows * step * packed_depth, step};
    Operands::TileOf(arithmetic, tile, std::min(kRows, rows - r), packed_depth, b, b_depth,
                     g.c + (first_row + r) * g.ldc + first_column, g.ldc, columns, update, ahead);
    tile.data += tile.tile;
  }
}

// B's panels for one task of a product with few rows.
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

// How the work on one block of k and of B's columns is shared out, as equally as can be. None of it changes a bit.
template <class Operands>
struct Shares {
  enum class Of {
    kRows,     // a task has rows; each thread packs all panels of B for itself, once
    kColumns,  // a task has panels of B, each of which it packs and uses at once; each thread packs all of A, once
    kGrid,     // a task has rows and panels; the threads pack B together, for all of them
  };

  // By the product's largest block; it has more than kFewRows rows.
  Shares(const Product<Operands>& g, int64_t threads) : tiles(CeilDivide<int64_t>(g.m, Operands::kMR)) {
    using T = typename Operands::Sum;
    constexpr int64_t kPanel = Operands::kNR, kUnit = kAlignment / sizeof(typename Operands::Packed);
    const int64_t panels = CeilDivide(std::min(Blocks(g.n, kNC<T>, kPanel).size, g.n), kPanel);
    const int64_t depth = std::min(DepthsOf<Operands>(g).size, g.k), panel = kPanel * PackedDepth<Operands>(depth);
    const int64_t wanted = kTasksPerThread * threads;
    const int64_t least_rows = CeilDivide<int64_t>(g.m, kMC<T>);
    const bool by_rows = panels * panel <= kMostOwn && g.m >= kLeastMC * threads;
    const bool by_columns = PackedBlock<Operands>(g, g.m, depth) <= kMostOwn && panels >= kLeastPanels * threads;
    if (by_rows && (g.m >= g.n || !by_columns)) {
      of = Of::kRows;
      rows = std::max(least_rows, std::min(2 * wanted, 2 * g.m / kLeastMC));
      own_panels = RoundUp(panels * panel + kSlack<Operands>, kUnit);
    } else if (by_columns) {
      of = Of::kColumns;
      columns = std::min(panels, RoundUp(std::min(2 * wanted, 2 * panels / kLeastPanels), threads));
      own_panels = RoundUp(panel + kSlack<Operands>, kUnit);
    } else {
      of = Of::kGrid;
      rows = std::max(least_rows, std::min(wanted, g.m / kLeastMC));
      shared_panels = panels * panel + kSlack<Operands>;
    }
    if (rows > 1) rows = std::min(tiles, RoundUp(rows, threads));
    // With few rows columns are shared out as well: A is packed again for each.
    if (of == Of::kGrid && 2 * rows < wanted) {
      columns = std::clamp<int64_t>(wanted / rows, 1, CeilDivide<int64_t>(panels, kLeastPanels));
    }
    const int64_t most_rows = std::min<int64_t>(g.m, CeilDivide(tiles, rows) * Operands::kMR);
    own_rows = RoundUp(PackedBlock<Operands>(g, most_rows, depth), kUnit);
  }
  int64_t tasks() const { return rows * columns; }
  int64_t FirstRow(int64_t share) const { return tiles * share / rows * Operands::kMR; }
  int64_t FirstPanel(int64_t share, int64_t panels) const { return panels * share / columns; }

  Of of = Of::kGrid;
  int64_t tiles;                  // along the rows
  int64_t rows = 1, columns = 1;  // shares of each
  int64_t shared_panels = 0;      // room, in packed elements, for what all threads share
  int64_t own_panels = 0;         // and for a thread's own
  int64_t own_rows = 0;
};

template <class Operands>
GemmWorkspace WorkspaceOf(const Product<Operands>& g, int64_t threads) {
  constexpr int64_t kPanel = Operands::kNR;
  const Blocks depths = DepthsOf<Operands>(g);
  const int64_t depth = std::min(depths.size, g.k), packed_depth = PackedDepth<Operands>(depth);
  if (g.m <= kFewRows) {
    const int64_t packing = ReadsInPlace<Operands>(g) ? int64_t{g.n % kPanel != 0}
                                                      : CeilDivide(CeilDivide(g.n, kPanel), PanelsPerTask<Operands>(g));
    return {.shared = PackedBlock<Operands>(g, g.m, depths.size) * depths.count,
            .task = packed_depth * kPanel + kSlack<Operands>,  // whole vectors, as a panel's rows are
            .packing_tasks = packing};
  }
  const Shares<Operands> shares(g, threads);
  return {.shared = shares.shared_panels, .task = shares.own_panels + shares.own_rows, .packing_tasks = shares.tasks()};
}

// Few rows: B is read where it lies, or packed panel by panel, used at once, and never written to memory.
template <class Operands>
void FewRowsProduct(const Product<Operands>& g) {
  using Packed = typename Operands::Packed;
  constexpr int64_t kPanel = Operands::kNR;
  const Blocks depths = DepthsOf<Operands>(g);
  const int64_t panels = CeilDivide(g.n, kPanel), grain = PanelsPerTask<Operands>(g);
  const int threads = ThreadsOfLoop();
  const GemmWorkspace workspace = WorkspaceOf<Operands>(g, threads);
  PackBuffer<Packed> all_rows(workspace.shared), packed_panels(workspace.OfTasks(threads));
  std::vector<RowTiles<Packed>> rows;
  for (int64_t i = 0; i < depths.count; ++i) {
    const int64_t k = i * depths.size, block = workspace.shared / depths.count;
    rows.push_back(TakeRows<Operands>(g, 0, g.m, k, std::min(depths.size, g.k - k), all_rows.data() + i * block));
  }
  const auto multiply = [&](int64_t task, int slot) HWY_ATTR {
    typename Operands::Arithmetic arithmetic;
    const bool in_place = ReadsInPlace<Operands>(g);
    // Where B is read in place only its last panel, which is not whole, is packed.
    Packed* const packed = packed_panels.data() + (in_place ? 0 : slot * workspace.task);
    for (int64_t p = task * grain; p < std::min(panels, (task + 1) * grain); ++p) {
      for (int64_t i = 0; i < depths.count; ++i) {
        const int64_t k = i * depths.size, depth = std::min(depths.size, g.k - k);
        const RowTiles<Packed>& a = rows[static_cast<size_t>(i)];
        if constexpr (Operands::kInPlace) {
          if (in_place && (p + 1) * kPanel <= g.n) {
            PanelTiles<Operands>(arithmetic, g, 0, g.m, a, p * kPanel, g.b.data() + k * g.b.stride + p * kPanel,
                                 g.b.stride, k, depth);
            continue;
          }
        }
        Operands::PackPanel(g, p * kPanel, k, depth, packed);
        PanelTiles<Operands>(arithmetic, g, 0, g.m, a, p * kPanel, packed, kPanel, k, depth);
      }
    }
  };
  const int64_t tasks = CeilDivide(panels, grain);
  ParallelForWithScratch(tasks, static_cast<int>(std::min<int64_t>(threads, tasks)), TileOrder::kLocal, multiply);
}

// A thread's state between its tasks on one block.
template <typename Packed>
struct ThreadsOwn {
  RowTiles<Packed> a = {};
  int64_t row_share = -1;  // whose rows a has
  bool has_panels = false;
};

template <class Operands>
void ManyRowsProduct(const Product<Operands>& g) {
  using T = typename Operands::Sum;
  using Packed = typename Operands::Packed;
  using Of = typename Shares<Operands>::Of;
  constexpr int64_t kPanel = Operands::kNR;
  const Shares<Operands> shares(g, ThreadsOfLoop());
  const int slots = static_cast<int>(std::min<int64_t>(ThreadsOfLoop(), shares.tasks()));
  const Blocks depths = DepthsOf<Operands>(g), column_blocks(g.n, kNC<T>, kPanel);
  const int64_t own_room = shares.own_panels + shares.own_rows;
  PackBuffer<Packed> shared(shares.shared_panels), own(slots * own_room);
  for (int64_t column = 0; column < g.n; column += column_blocks.size) {
    const int64_t panels = CeilDivide(std::min(column_blocks.size, g.n - column), kPanel);
    for (int64_t k = 0; k < g.k; k += depths.size) {
      const int64_t depth = std::min(depths.size, g.k - k), panel = kPanel * PackedDepth<Operands>(depth);
      const auto pack = [&](int64_t begin, int64_t end, Packed* out) HWY_ATTR {
        for (int64_t p = begin; p < end; ++p) Operands::PackPanel(g, column + p * kPanel, k, depth, out + p * panel);
      };
      if (shares.of == Of::kGrid) {
        ParallelForRange(panels, CeilDivide(kLeastPacked, panel),
                         [&](int64_t begin, int64_t end) HWY_ATTR { pack(begin, end, shared.data()); });
      }
      std::vector<ThreadsOwn<Packed>> of_slot(static_cast<size_t>(slots));
      const auto multiply = [&](int64_t task, int slot) HWY_ATTR {
        typename Operands::Arithmetic arithmetic;
        ThreadsOwn<Packed>& has = of_slot[static_cast<size_t>(slot)];
        const int64_t row_share = task / shares.columns, column_share = task % shares.columns;
        const int64_t row = shares.FirstRow(row_share);
        const int64_t rows = std::min(g.m, shares.FirstRow(row_share + 1)) - row;
        Packed* const own_panels = own.data() + slot * own_room;
        if (has.row_share != row_share) {
          has.a = TakeRows<Operands>(g, row, rows, k, depth, own_panels + shares.own_panels);
          has.row_share = row_share;
        }
        if (shares.of == Of::kRows && !has.has_panels) {
          pack(0, panels, own_panels);
          has.has_panels = true;
        }
        const Packed* const kept = shares.of == Of::kRows ? own_panels : shared.data();
        const int64_t end = shares.FirstPanel(column_share + 1, panels);
        for (int64_t p = shares.FirstPanel(column_share, panels); p < end; ++p) {
          if (shares.of == Of::kColumns) {
            Operands::PackPanel(g, column + p * kPanel, k, depth, own_panels);
            PanelTiles<Operands>(arithmetic, g, row, rows, has.a, column + p * kPanel, own_panels, kPanel, k, depth);
          } else {
            PanelTiles<Operands>(arithmetic, g, row, rows, has.a, column + p * kPanel, kept + p * panel, kPanel, k,
                                 depth, kept + (p + 1) * panel, p == shares.FirstPanel(column_share, panels));
          }
        }
      };
      ParallelForWithScratch(shares.tasks(), slots, TileOrder::kLocal, multiply);
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

CROSSTALK_END_TARGET

#endif
