#include <algorithm>

#include "crosstalk/kernels/gemm/gemm.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/interleaved.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/bfloat16-inl.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

// Batch-interleaved products: a tile is kLaneBlock lanes of kRowBlock rows of one product. Both operands are packed,
// since their strides are often powers of two that would fall into one set of the caches: kInnerBlock x kColumnBlock
// vectors of b (48 KiB of float) once for all rows of the tile, then kRowGroup x kInnerBlock of a (16 KiB) at a time.
CROSSTALK_BEGIN_TARGET

constexpr int64_t kLaneBlock = 64, kRowBlock = 64, kColumnBlock = 12, kInnerBlock = 16;
constexpr int64_t kRowGroup = 4, kColumnGroup = 3;  // 4 x 3 sums, 3 of b and 1 of a: the 16 registers of AVX2

// c[Columns, lanes] (+)= a[inner, kLaneBlock] · b[inner, columns of b, kLaneBlock], both packed, for one vector of
// lanes. Three sums by name, not an array: -O2 would keep an array in memory.
template <class D, int Columns, class V = hn::Vec<D>, class T = hn::TFromD<D>>
struct RowSums {
  V s0, s1, s2;
  HWY_INLINE void Clear(D d) { s0 = s1 = s2 = hn::Zero(d); }
  template <class Load>
  HWY_INLINE void Read(const T* c, int64_t c_column, Load load) {
    s0 = load(c);
    s1 = Columns > 1 ? load(c + c_column) : s0;
    s2 = Columns > 2 ? load(c + 2 * c_column) : s0;
  }
  HWY_INLINE void Add(V left, V b0, V b1, V b2) {
    s0 = hn::MulAdd(left, b0, s0);
    if (Columns > 1) s1 = hn::MulAdd(left, b1, s1);
    if (Columns > 2) s2 = hn::MulAdd(left, b2, s2);
  }
  template <class Store>
  HWY_INLINE void Write(T* c, int64_t c_column, Store store) const {
    store(s0, c);
    if (Columns > 1) store(s1, c + c_column);
    if (Columns > 2) store(s2, c + 2 * c_column);
  }
};

// The same for Rows rows (4 or 1) and all lanes.
template <int Rows, int Columns, typename T>
HWY_INLINE void Group(int64_t inner, int64_t lanes, const T* a, const T* b, int64_t b_inner, T* c, int64_t c_row,
                      int64_t c_column, bool first) {
  static_assert((Rows == 4 || Rows == 1) && Columns <= 3);
  using D = Tag<T>;
  using V = hn::Vec<D>;
  const D d;
  const auto run = [&](int64_t lane, auto load, auto store) HWY_ATTR {
    RowSums<D, Columns> r0, r1, r2, r3;
    T* const to = c + lane;
    r0.Clear(d), r1.Clear(d), r2.Clear(d), r3.Clear(d);
    if (!first) {
      r0.Read(to, c_column, load);
      if (Rows > 1) {
        r1.Read(to + c_row, c_column, load);
        r2.Read(to + 2 * c_row, c_column, load);
        r3.Read(to + 3 * c_row, c_column, load);
      }
    }
    const T* left = a + lane;
    const T* right = b + lane;
    constexpr int64_t kRow = kInnerBlock * kLaneBlock;
    for (int64_t k = 0; k < inner; ++k, left += kLaneBlock, right += b_inner) {
      const V b0 = hn::Load(d, right);
      const V b1 = Columns > 1 ? hn::Load(d, right + kLaneBlock) : b0;
      const V b2 = Columns > 2 ? hn::Load(d, right + 2 * kLaneBlock) : b0;
      r0.Add(hn::Load(d, left), b0, b1, b2);
      if (Rows > 1) {
        r1.Add(hn::Load(d, left + kRow), b0, b1, b2);
        r2.Add(hn::Load(d, left + 2 * kRow), b0, b1, b2);
        r3.Add(hn::Load(d, left + 3 * kRow), b0, b1, b2);
      }
    }
    r0.Write(to, c_column, store);
    if (Rows > 1) {
      r1.Write(to + c_row, c_column, store);
      r2.Write(to + 2 * c_row, c_column, store);
      r3.Write(to + 3 * c_row, c_column, store);
    }
  };
  ForVectors(
      d, lanes,
      [&](int64_t lane) HWY_ATTR {
        run(
            lane, [&](const T* p) HWY_ATTR { return hn::LoadU(d, p); },
            [&](V v, T* p) HWY_ATTR { hn::StoreU(v, d, p); });
      },
      [&](int64_t lane, size_t n) HWY_ATTR {
        run(
            lane, [&](const T* p) HWY_ATTR { return LoadFirst(d, p, n); },
            [&](V v, T* p) HWY_ATTR { StoreFirst(v, d, p, n); });
      });
}

// kLaneBlock elements, zeros after the first `lanes`.
template <typename T>
HWY_INLINE void PackLanes(const InterleavedGemmArguments<T>& g, const T* from, T* to) {
  std::copy_n(from, g.lanes, to);
  std::fill(to + g.lanes, to + kLaneBlock, T{0});
  if constexpr (sizeof(T) == 4) {
    if (g.precision == Precision::kFloat32) return;
    const Tag<T> d;
    for (int64_t i = 0; i < kLaneBlock; i += kLanesOf<T>) hn::Store(RoundedToBFloat16(hn::Load(d, to + i)), d, to + i);
  }
}

template <int Rows, typename T>
HWY_INLINE void AllColumns(const InterleavedGemmArguments<T>& g, int64_t inner, int64_t columns, const T* a, const T* b,
                           T* c, bool first) {
  const int64_t b_inner = columns * kLaneBlock;
  int64_t j = 0;
  for (; j + kColumnGroup <= columns; j += kColumnGroup) {
    Group<Rows, kColumnGroup>(inner, g.lanes, a, b + j * kLaneBlock, b_inner, c + j * g.c_column, g.c_row, g.c_column,
                              first);
  }
  for (; j < columns; ++j) {
    Group<Rows, 1>(inner, g.lanes, a, b + j * kLaneBlock, b_inner, c + j * g.c_column, g.c_row, g.c_column, first);
  }
}

// One tile: g.rows ≤ kRowBlock, g.lanes ≤ kLaneBlock.
template <typename T>
void InterleavedTile(const InterleavedGemmArguments<T>& g) {
  HWY_ALIGN T a[kRowGroup * kInnerBlock * kLaneBlock];
  HWY_ALIGN T b[kInnerBlock * kColumnBlock * kLaneBlock];
  for (int64_t k = 0; k < g.inner; k += kInnerBlock) {
    const int64_t inner = std::min(kInnerBlock, g.inner - k);
    for (int64_t column = 0; column < g.columns; column += kColumnBlock) {
      const int64_t columns = std::min(kColumnBlock, g.columns - column);
      for (int64_t i = 0; i < inner; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          PackLanes(g, g.b + (k + i) * g.b_inner + (column + j) * g.b_column, b + (i * columns + j) * kLaneBlock);
        }
      }
      for (int64_t row = 0; row < g.rows; row += kRowGroup) {
        const int64_t rows = std::min(kRowGroup, g.rows - row);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < inner; ++i) {
            PackLanes(g, g.a + (row + r) * g.a_row + (k + i) * g.a_inner, a + (r * kInnerBlock + i) * kLaneBlock);
          }
        }
        T* const c = g.c + row * g.c_row + column * g.c_column;
        if (rows == kRowGroup) {
          AllColumns<kRowGroup>(g, inner, columns, a, b, c, k == 0);
        } else {
          for (int64_t r = 0; r < rows; ++r) {
            AllColumns<1>(g, inner, columns, a + r * kInnerBlock * kLaneBlock, b, c + r * g.c_row, k == 0);
          }
        }
      }
    }
  }
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(InterleavedTile)

#if HWY_ONCE
namespace crosstalk::kernels {

using HWY_NAMESPACE::kLaneBlock, HWY_NAMESPACE::kRowBlock;

template <typename T>
void InterleavedGemmBatched(const InterleavedGemmArguments<T>& arguments, std::span<const int64_t> offsets_a,
                            std::span<const int64_t> offsets_b, std::span<const int64_t> offsets_c) {
  CROSSTALK_DCHECK(arguments.inner >= 1 && offsets_a.size() == offsets_c.size() &&
                   offsets_b.size() == offsets_c.size());
  const auto tile_product = InterleavedTileOnTarget<T>();
  const int64_t lane_blocks = CeilDivide(arguments.lanes, kLaneBlock);
  const int64_t row_blocks = CeilDivide(arguments.rows, kRowBlock);
  const int64_t tiles = static_cast<int64_t>(offsets_c.size()) * lane_blocks * row_blocks;
  const LoopWork work = LoopWork::OfSmallProducts(static_cast<double>(offsets_c.size()) *
                                                  static_cast<double>(arguments.lanes * arguments.rows) *
                                                  static_cast<double>(arguments.columns * arguments.inner));
  ParallelFor(tiles, [&](int64_t tile) {
    const size_t i = static_cast<size_t>(tile / (lane_blocks * row_blocks));
    const int64_t lane = tile / row_blocks % lane_blocks * kLaneBlock;
    const int64_t row = tile % row_blocks * kRowBlock;
    InterleavedGemmArguments<T> g = arguments;
    g.rows = std::min(kRowBlock, arguments.rows - row);
    g.lanes = std::min(kLaneBlock, arguments.lanes - lane);
    g.a += offsets_a[i] + row * g.a_row + lane;
    g.b += offsets_b[i] + lane;
    g.c += offsets_c[i] + row * g.c_row + lane;
    tile_product(g);
  });
}

CROSSTALK_INSTANTIATE(InterleavedGemmBatched)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
