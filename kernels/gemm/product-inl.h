// A product whose sums are in registers, by its shape: blocked, or of very few rows. Compiled once per target.
#if defined(CROSSTALK_GEMM_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_PRODUCT_INL_H_
#undef CROSSTALK_GEMM_PRODUCT_INL_H_
#else
#define CROSSTALK_GEMM_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"

CROSSTALK_BEGIN_TARGET

// A thread's part of k. If it were shorter, a tile would take no longer than its way to the next thread; if it were
// longer, a panel of B and A's rows would leave the second-level cache.
constexpr int64_t kLeastPart = 128, kMostPart = 2048;

// The state of one part of k. Its own cache line, as are the counts of each panel: threads write one and look at
// another.
struct alignas(64) PartOfChain {
  std::atomic<int64_t> next{0};  // the panel that begins next
};
struct alignas(64) TilesDone {
  std::atomic<int64_t> count{0};

  // Returns once there are more than `tile`. The thread that computes them is under way.
  int64_t AwaitMore(int64_t tile) const {
    constexpr int kSpins = 1000;
    for (int i = 0;; ++i) {
      const int64_t done = count.load(std::memory_order_acquire);
      if (done > tile) return done;
      if (i >= kSpins) std::this_thread::yield();
    }
  }
};

// Products of a small C and a long k, as gradients of weights are: Xᵀ·dY over all positions of a batch. Each thread
// takes a part of k: the rows of both operands that it wrote in the loops before, and so has in its cache. A sum stays
// one chain from k = 0 on: a thread adds its part's terms to what the thread before it left in `chain`, tile by tile, a
// few tiles later:
//
//   part 0:  tile 0   tile 1   tile 2   …
//   part 1:           tile 0   tile 1   tile 2   …
//
// The bits are those of the blocked product.

// Sizes of a chained product.
template <class Operands>
struct Chained {
  static constexpr int64_t kTile = int64_t{Operands::kMR} * Operands::kNR;

  Chained(const Product<Operands>& g, int64_t threads)
      : depths(DepthsOf<Operands>(g)),
        parts(g.k, CeilDivide(g.k, threads), 16),
        tiles(CeilDivide<int64_t>(g.m, Operands::kMR)),
        panels(CeilDivide<int64_t>(g.n, Operands::kNR)),
        own_rows(RoundUp(PackedBlock<Operands>(g, g.m, parts.size), int64_t{kAlignment})),
        own_panel(RoundUp(Operands::kNR * PackedDepth<Operands>(parts.size) + kSlack<Operands>, int64_t{kAlignment})) {}

  Blocks depths, parts;         // they cut k
  int64_t tiles, panels;        // they cut C's rows and columns
  int64_t own_rows, own_panel;  // room, in packed elements, for a thread's part of A and of a panel of B
  int64_t chain() const { return tiles * panels * kTile; }
};

template <class Operands>
bool IsChained(const Product<Operands>& g, int64_t threads) {
  if constexpr (!Operands::kHasStart) return false;
  return threads > 1 && g.transpose_a == Transpose::kYes && g.m * g.n <= kSmallResult && g.k >= kLeastPart * threads &&
         g.k <= kMostPart * threads;
}

// A tile of C, for k = begin … end: `a` and `b` begin there.
template <class Operands, typename T = typename Operands::Sum, typename Packed = typename Operands::Packed>
HWY_INLINE void ChainedTile(typename Operands::Arithmetic& arithmetic, const Product<Operands>& g, const Blocks& depths,
                            int64_t begin, int64_t end, int64_t row, int64_t column, const RowTiles<Packed>& a,
                            const Packed* b, T* chain) {
  constexpr int64_t kRows = Operands::kMR, kColumns = Operands::kNR;
  const int64_t rows = std::min(kRows, g.m - row), columns = std::min(kColumns, g.n - column);
  const int64_t whole = columns > kLanesOf<T> ? kColumns : kLanesOf<T>;  // in the vectors that the tile has
  for (int64_t k = begin; k < end;) {
    const int64_t block = k / depths.size * depths.size, block_end = std::min(g.k, block + depths.size);
    const int64_t stop = std::min(end, block_end), done = PackedDepth<Operands>(k - begin);
    RowTiles<Packed> of_a = a;
    of_a.data += done * DepthStride(a, rows);
    const Packed* const of_b = b + done * kColumns;
    const auto multiply = [&](T* c, int64_t ldc, int64_t of_c, const Update<T>& update) HWY_ATTR {
      Operands::TileOf(arithmetic, of_a, rows, PackedDepth<Operands>(stop - k), of_b, kColumns, c, ldc, of_c, update,
                       PrefetchSpread<Packed>{of_b, 0});
    };
    const T* const start = k == block ? nullptr : chain;
    if (stop < block_end) {
      multiply(chain, kColumns, whole, {T(1), T(0), nullptr, start});
    } else {
      const T* const bias = g.bias == nullptr || stop < g.k ? nullptr : g.bias + column;
      multiply(g.c + row * g.ldc + column, g.ldc, columns, {g.alpha, block == 0 ? g.beta : T(1), bias, start});
    }
    k = stop;
  }
}

template <class Operands>
GemmWorkspace ChainedWorkspace(const Product<Operands>& g, int64_t threads) {
  const Chained<Operands> sizes(g, threads);
  return {.shared = sizes.chain(), .task = sizes.own_rows + sizes.own_panel, .packing_tasks = threads};
}

template <class Operands>
void ChainedProduct(const Product<Operands>& g) {
  using T = typename Operands::Sum;
  using Packed = typename Operands::Packed;
  static_assert(sizeof(T) == sizeof(Packed));
  const int threads = ThreadsOfLoop();
  const Chained<Operands> sizes(g, threads);
  const GemmWorkspace workspace = ChainedWorkspace<Operands>(g, threads);
  PackBuffer<T> chain(workspace.shared);
  PackBuffer<Packed> own(workspace.OfTasks(threads));
  std::vector<PartOfChain> parts(static_cast<size_t>(sizes.parts.count));
  std::vector<TilesDone> done(static_cast<size_t>(sizes.parts.count * sizes.panels));
  const auto done_of = [&](int64_t part, int64_t panel) -> TilesDone& {
    return done[static_cast<size_t>(part * sizes.panels + panel)];
  };
  const auto next_of = [&](int64_t part) -> std::atomic<int64_t>& { return parts[static_cast<size_t>(part)].next; };
  // The next panel of a part, or -1. A panel begins after it began in the part before, so that its thread waits only
  // for tiles that are under way.
  const auto take = [&](int64_t part) {
    int64_t panel = next_of(part).load(std::memory_order_relaxed);
    while (panel < sizes.panels && (part == 0 || next_of(part - 1).load(std::memory_order_relaxed) > panel)) {
      if (next_of(part).compare_exchange_weak(panel, panel + 1, std::memory_order_relaxed)) return panel;
    }
    return int64_t{-1};
  };
  const auto work = [&](int64_t worker) HWY_ATTR {
    typename Operands::Arithmetic arithmetic;
    Packed* const rows = own.data() + worker * workspace.task;
    Packed* const columns = rows + sizes.own_rows;
    RowTiles<Packed> a = {};
    int64_t part_of_rows = -1;
    const auto multiply = [&](int64_t part, int64_t panel) HWY_ATTR {
      const int64_t begin = part * sizes.parts.size, end = std::min(g.k, begin + sizes.parts.size);
      if (part_of_rows != part) a = TakeRows<Operands>(g, 0, g.m, begin, end - begin, rows);
      part_of_rows = part;
      Operands::PackPanel(g, panel * Operands::kNR, begin, end - begin, columns);
      int64_t ready = part == 0 ? sizes.tiles : 0;
      T* sums = chain.data() + panel * sizes.tiles * sizes.kTile;
      RowTiles<Packed> of_tile = a;
      for (int64_t tile = 0; tile < sizes.tiles; ++tile) {
        if (ready <= tile) ready = done_of(part - 1, panel).AwaitMore(tile);
        if (part > 0 && ready > tile + 1) {
          constexpr int64_t kLine = kAlignment / sizeof(T);
          for (int64_t i = 0; i < sizes.kTile; i += kLine) __builtin_prefetch(sums + sizes.kTile + i, 1, 2);
        }
        ChainedTile<Operands>(arithmetic, g, sizes.depths, begin, end, tile * Operands::kMR, panel * Operands::kNR,
                              of_tile, columns, sums);
        done_of(part, panel).count.store(tile + 1, std::memory_order_release);
        of_tile.data += of_tile.tile;
        sums += sizes.kTile;
      }
    };
    // The thread's own part first, then what others have left. Worker 0, which the caller begins unless another thread
    // has, takes the parts in order: one for which no thread has come is begun all the same.
    for (int64_t i = 0; i < sizes.parts.count;) {
      const int64_t part = (worker + i) % sizes.parts.count, panel = take(part);
      if (panel >= 0) {
        multiply(part, panel);
      } else if (next_of(part).load(std::memory_order_relaxed) >= sizes.panels) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  };
  ParallelFor(threads, work, TileOrder::kLocal);
}

template <ThinOperands Operands>
void RegisterProduct(const Product<Operands>& g) {
  if (IsThin<Operands>(g)) return ThinProduct<Operands>(g);
  if (IsDots<Operands>(g)) return DotsProduct<Operands>(g);
  if (IsChained<Operands>(g, ThreadsOfLoop())) return ChainedProduct<Operands>(g);
  BlockedProduct<Operands>(g);
}

template <ThinOperands Operands>
GemmWorkspace RegisterWorkspace(const Product<Operands>& g, int threads) {
  if (IsThin<Operands>(g) || IsDots<Operands>(g)) return GemmWorkspace();
  return IsChained<Operands>(g, threads) ? ChainedWorkspace<Operands>(g, threads) : WorkspaceOf<Operands>(g, threads);
}

template <ThinOperands Operands>
inline constexpr GemmProduct<typename Operands::Sum> kProductOf = {RegisterProduct<Operands>,
                                                                   RegisterWorkspace<Operands>};

CROSSTALK_END_TARGET

#endif
