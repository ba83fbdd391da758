// Products of operands as they are, in float and in double: how the blocked product packs A and B, so that a tile reads
// both in order, and how products of few rows read them.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "crosstalk/kernels/gemm/blocked.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/elements.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"
#include "crosstalk/kernels/transpose-inl.h"
#include "crosstalk/runtime/math.h"

CROSSTALK_BEGIN_TARGET

// Below, transposing rows of A that are used so little would show.
constexpr int64_t kFewColumns = 512;

// Operands as they are.
template <typename T>
struct Elements : RegisterTiles<Elements<T>, T, T> {
  using Sum = T;
  using Packed = T;
  static constexpr int kTerms = 1;
  static constexpr int64_t kStep = 1;
  // Fixed, so that all rows are reached from one address; a line more than KC keeps rows out of the same cache sets.
  static constexpr int64_t kRowStride = kKC + 16;
  // B may be read where it lies.
  static constexpr bool kInPlace = true;

  struct Arithmetic {};
  using Part = hn::Vec<Tag<T>>;
  static constexpr int kPasses = 1;
  static HWY_INLINE Part PartOf(int /*pass*/, Part v) { return v; }
  static HWY_INLINE Part MulAdd(Part a, Part b, Part sum) { return hn::MulAdd(a, b, sum); }

  static RowLayout LayoutOf(const GemmArguments<T>& g) {
    return g.transpose_a == Transpose::kNo && g.n < kFewColumns ? RowLayout::kByRow : RowLayout::kByDepth;
  }
  static void PackA(const GemmArguments<T>& g, int64_t first, int64_t rows, int64_t k, int64_t depth, T* out);
  static void PackPanel(const GemmArguments<T>& g, int64_t first, int64_t k, int64_t depth, T* out);

  // Products of few rows read both operands where they lie.
  static bool CanBeThin(const GemmArguments<T>& /*g*/) { return true; }
  static bool CanBeDots(const GemmArguments<T>& /*g*/) { return true; }
  struct ThinRows {
    void Set(const GemmArguments<T>& g, int64_t k, int64_t /*depth*/) {
      const bool transposed = g.transpose_a == Transpose::kYes;
      for (int64_t r = 0; r < g.m; ++r) {
        rows[r] = transposed ? ThinRow<T>{g.a.data() + k * g.a.stride + r, g.a.stride}
                             : ThinRow<T>{g.a.data() + r * g.a.stride + k, 1};
      }
    }
    ThinRow<T> rows[kThinRows];
  };
  static constexpr bool kAsksAhead = false;
  static constexpr int kStepOperands = kStreams, kChains = 1;
  template <class Use>
  static void VisitB(const GemmArguments<T>& g, const Use& use) {
    use(g.b.data());
  }
  struct Terms {
    static HWY_INLINE Part Same(T x) { return hn::Set(Tag<T>(), x); }
    template <int kRows>
    static HWY_INLINE Part OfRows(const T* row, int64_t /*ldb*/, int64_t count) {
      return LoadOfRow(row, count);
    }
    static HWY_INLINE Part MulAdd(Part a, Part b, Part sum) { return hn::MulAdd(a, b, sum); }
    static HWY_INLINE Part Start(Part sum) { return sum; }
    static HWY_INLINE Part Total(Part /*before*/, Part sum) { return sum; }
  };
  using DotSource = T;
  static const T* DotRows(const GemmArguments<T>& g) { return g.b.data(); }
};

// op(A)[first … first + rows, k … k + depth] in tiles of MR rows.
template <typename T>
HWY_INLINE void Elements<T>::PackA(const GemmArguments<T>& g, int64_t first, int64_t rows, int64_t k, int64_t depth,
                                   T* out) {
  if (LayoutOf(g) == RowLayout::kByRow) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(out + r * kRowStride, g.a.data() + (first + r) * g.a.stride + k,
                  static_cast<size_t>(depth) * sizeof(T));
    }
    return;
  }
  if (g.transpose_a == Transpose::kNo) {
    for (int64_t t = 0; t < rows; t += Elements::kMR) {
      const int64_t tile_rows = std::min<int64_t>(Elements::kMR, rows - t);
      TransposeScaled(tile_rows, tile_rows, depth, g.a.data() + (first + t) * g.a.stride + k, g.a.stride, T(1),
                      out + t * depth, tile_rows);
    }
    return;
  }
  constexpr int kLanes = kLanesOf<T>;
  const Tag<T> d;
  for (int64_t t = 0; t < rows; t += Elements::kMR) {
    const int64_t tile_rows = std::min<int64_t>(Elements::kMR, rows - t);
    // Whole vectors are read as long as they stay within a row of A. They are always written whole: the surplus lands
    // where the next store goes, or in the slack after the last one.
    const bool whole = first + t + RoundUp<int64_t>(tile_rows, kLanes) <= g.m;
    for (int64_t i = 0; i < depth; ++i) {
      const T* in = g.a.data() + (k + i) * g.a.stride + first + t;
      for (int64_t r = 0; r < tile_rows; r += kLanes) {
        const int64_t rest = tile_rows - r;
        hn::StoreU(whole || rest >= kLanes ? hn::LoadU(d, in + r) : LoadFirst(d, in + r, static_cast<size_t>(rest)), d,
                   out + t * depth + i * tile_rows + r);
      }
    }
  }
}

// out[k][NR] = op(B)[k, first + column], zeros after the last column.
template <typename T>
HWY_NOINLINE void Elements<T>::PackPanel(const GemmArguments<T>& g, int64_t first, int64_t k, int64_t depth, T* out) {
  constexpr int64_t kPanel = Elements::kNR;
  const Tag<T> d;
  const int64_t columns = std::min<int64_t>(kPanel, g.n - first);
  if (g.transpose_b == Transpose::kYes) {
    // A piece at a time, and some of the next panel's rows asked for meanwhile, one after the other: as many streams as
    // a panel has columns are more than the processor follows by itself.
    constexpr int64_t kPiece = 16, kLine = 64 / int64_t{sizeof(T)};
    const int64_t next = std::min<int64_t>(kPanel, g.n - first - columns);
    const int64_t pieces = CeilDivide(depth, kPiece);
    const T* const ahead = g.b.data() + (first + columns) * g.b.stride + k;
    for (int64_t piece = 0, row = 0, column = 0; piece < pieces; ++piece) {
      const int64_t i = piece * kPiece;
      TransposeScaled(columns, kPanel, std::min(kPiece, depth - i), g.b.data() + first * g.b.stride + k + i, g.b.stride,
                      T(1), out + i * kPanel, kPanel);
      for (int64_t line = 0; line < kPanel * kPiece / kLine && row < next; ++line) {
        __builtin_prefetch(ahead + row * g.b.stride + column, 0, 2);
        column += kLine;
        if (column >= depth) ++row, column = 0;
      }
    }
    return;
  }
  const T* in = g.b.data() + k * g.b.stride + first;
  if (columns == kPanel) {
    // The next panel's lines are asked for meanwhile: the processor foresees few that lie a row apart.
    for (int64_t i = 0; i < depth; ++i) {
      const T* row = in + i * g.b.stride;
      __builtin_prefetch(row + kPanel, 0, 2);
      __builtin_prefetch(row + kPanel + kLanesOf<T>, 0, 2);
      hn::Store(hn::LoadU(d, row), d, out + i * kPanel);
      hn::Store(hn::LoadU(d, row + kLanesOf<T>), d, out + i * kPanel + kLanesOf<T>);
    }
    return;
  }
  for (int64_t i = 0; i < depth; ++i) {
    std::memset(out + i * kPanel, 0, kPanel * sizeof(T));
    std::memcpy(out + i * kPanel, in + i * g.b.stride, static_cast<size_t>(columns) * sizeof(T));
  }
}

CROSSTALK_END_TARGET

CROSSTALK_TARGETS(ProductOfFloats, kProductOf<Elements<float>>)
CROSSTALK_TARGETS(ProductOfDoubles, kProductOf<Elements<double>>)
