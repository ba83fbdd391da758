// Products of operands that are rounded to bfloat16, in pairs of terms (kernels/bfloat16-inl.h): widened to float, by
// the instruction for their dot products, and in matrix tiles (amx.h). How the blocked product packs the operands, and
// how products of few rows read them; what is in bfloat16 already is packed as it is.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "crosstalk/kernels/gemm/blocked.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/pairs.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/bfloat16-inl.h"
#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/kernels/transpose-inl.h"
#include "crosstalk/runtime/math.h"

CROSSTALK_BEGIN_TARGET

HWY_INLINE FloatVector LoadRounded(const float* row, int64_t count) { return RoundedToBFloat16(LoadOfRow(row, count)); }
HWY_INLINE FloatVector LoadRounded(const uint16_t* row, int64_t count) { return LoadHalvesWidened(row, count); }

// Lane l: the pair of first[l] and second[l], or of first[l] and 0 without a second row.
template <BFloat16Unit kUnit>
HWY_INLINE PairVector PairRows(const float* first, const float* second, int64_t count) {
  return Pairs<kUnit>::Round(LoadOfRow(first, count),
                             second == nullptr ? hn::Zero(Tag<float>()) : LoadOfRow(second, count));
}
template <BFloat16Unit kUnit>
HWY_INLINE PairVector PairRows(const uint16_t* first, const uint16_t* second, int64_t count) {
  const auto lower = LoadHalves(first, count);
  return second == nullptr ? lower : hn::Or(lower, hn::ShiftLeft<16>(LoadHalves(second, count)));
}

// The pairs of neighbours in a row of `count` elements; the last one's is 0 where count is odd. Writes nothing else.
template <BFloat16Unit kUnit>
HWY_INLINE void PairNeighbours(const float* row, int64_t count, uint32_t* out) {
  uint16_t* const halves = reinterpret_cast<uint16_t*>(out);
  RoundRow<kUnit>(count, row, halves);
  if (count % 2 != 0) std::memset(halves + count, 0, sizeof(uint16_t));
}
template <BFloat16Unit kUnit>
HWY_INLINE void PairNeighbours(const uint16_t* row, int64_t count, uint32_t* out) {
  std::memcpy(out, row, static_cast<size_t>(count) * sizeof(uint16_t));
  if (count % 2 != 0) std::memset(reinterpret_cast<char*>(out) + count * 2, 0, sizeof(uint16_t));
}

// out[pair][kPanel] = op(B)[k, first + column], zeros after the last column.
template <BFloat16Unit kUnit, int64_t kPanel, typename Source>
HWY_NOINLINE void PackColumns(const GemmArguments<float>& g, const Source* b, int64_t first, int64_t k, int64_t depth,
                              uint32_t* out) {
  const int64_t columns = std::min<int64_t>(kPanel, g.n - first), pairs = CeilDivide<int64_t>(depth, 2);
  if (g.transpose_b == Transpose::kYes) {
    constexpr int64_t kPiece = 16;  // pairs
    HWY_ALIGN uint32_t piece[kPanel * kPiece];
    for (int64_t p = 0; p < pairs; p += kPiece) {
      const int64_t terms = std::min(2 * kPiece, depth - 2 * p);
      for (int64_t column = 0; column < columns; ++column) {
        PairNeighbours<kUnit>(b + (first + column) * g.b.stride + k + 2 * p, terms, piece + column * kPiece);
      }
      TransposeBits(columns, kPanel, CeilDivide<int64_t>(terms, 2), piece, kPiece, out + p * kPanel, kPanel);
    }
    return;
  }
  const Tag<uint32_t> d;
  for (int64_t p = 0; p < pairs; ++p) {
    const Source* in = b + (k + 2 * p) * g.b.stride + first;
    const Source* second = 2 * p + 1 < depth ? in + g.b.stride : nullptr;
    for (int64_t column = 0; column < kPanel; column += kLanesOf<float>) {
      const auto pair = column >= columns ? hn::Zero(d)
                                          : PairRows<kUnit>(in + column, second == nullptr ? second : second + column,
                                                            columns - column);
      hn::StoreU(pair, d, out + p * kPanel + column);
    }
  }
}

// Rows of a tile: half as many where a multiply-add is several instructions, which hide its latency.
template <BFloat16Unit kUnit>
constexpr int kPairRows = kUnit == BFloat16Unit::kWidened ? std::min(kMR<float>, 6) : kMR<float>;

// Pairs of terms as a unit multiplies them: A's, the same in all lanes, and B's, of two rows as they lie in memory or
// of one and zeros.
template <BFloat16Unit kUnit>
struct ThinPairs {
  static HWY_INLINE ThinPairs Same(uint32_t pair) { return {hn::Set(Tag<uint32_t>(), pair)}; }
  template <int kRows, typename Source>
  static HWY_INLINE ThinPairs OfRows(const Source* rows, int64_t ldb, int64_t count) {
    return {PairRows<kUnit>(rows, kRows == 2 ? rows + ldb : nullptr, count)};
  }
  static HWY_INLINE FloatVector MulAdd(const ThinPairs& a, const ThinPairs& b, FloatVector sum) {
    return Pairs<kUnit>::MulAdd(a.pairs, b.pairs, sum);
  }
  static HWY_INLINE FloatVector Start(FloatVector sum) { return sum; }
  static HWY_INLINE FloatVector Total(FloatVector /*before*/, FloatVector sum) { return sum; }
  PairVector pairs;
};
// Never joined, as they would only be separated again.
template <>
struct ThinPairs<BFloat16Unit::kWidened> {
  static HWY_INLINE ThinPairs Same(uint32_t pair) {
    const auto pairs = hn::Set(Tag<uint32_t>(), pair);
    return {FirstOfPairs(pairs), SecondOfPairs(pairs)};
  }
  template <int kRows, typename Source>
  static HWY_INLINE ThinPairs OfRows(const Source* rows, int64_t ldb, int64_t count) {
    const FloatVector first = LoadRounded(rows, count);
    if constexpr (kRows == 1) return {first, hn::Zero(Tag<float>())};
    return {first, LoadRounded(rows + ldb, count)};
  }
  static HWY_INLINE FloatVector MulAdd(const ThinPairs& a, const ThinPairs& b, FloatVector sum) {
    return hn::MulAdd(a.first, b.first, hn::MulAdd(a.second, b.second, sum));
  }
  static HWY_INLINE FloatVector Start(FloatVector sum) { return sum; }
  static HWY_INLINE FloatVector Total(FloatVector /*before*/, FloatVector sum) { return sum; }
  FloatVector first, second;
};

// Pairs of a row of A in one block of k.
constexpr int64_t kPairsOfBlock = kKC / 2 + 1;

// Operands rounded to bfloat16.
template <BFloat16Unit kUnit>
struct RoundedPairs : RegisterTiles<RoundedPairs<kUnit>, float, uint32_t, kPairRows<kUnit>> {
  using Base = RegisterTiles<RoundedPairs<kUnit>, float, uint32_t, kPairRows<kUnit>>;
  using Sum = float;
  using Packed = uint32_t;
  static constexpr int kTerms = 2;
  static constexpr int64_t kStep = 1;
  static constexpr int64_t kRowStride = kKC / 2 + 16;
  static constexpr bool kInPlace = false;

  using Arithmetic = FlushSubnormals;
  using Part = typename Pairs<kUnit>::Part;
  static constexpr int kPasses = Pairs<kUnit>::kPasses;
  static HWY_INLINE Part PartOf(int pass, PairVector p) { return Pairs<kUnit>::PartOf(pass, p); }
  static HWY_INLINE FloatVector MulAdd(Part a, Part b, FloatVector sum) { return Pairs<kUnit>::MulAddParts(a, b, sum); }

  // Rows of A hold their pairs side by side, columns one below the other.
  static RowLayout LayoutOf(const GemmArguments<float>& g) {
    return g.transpose_a == Transpose::kNo ? RowLayout::kByRow : RowLayout::kByDepth;
  }
  static void PackA(const GemmArguments<float>& g, int64_t first, int64_t rows, int64_t k, int64_t depth,
                    uint32_t* out) {
    g.a.Visit([&](const auto* a) HWY_ATTR { PackRows(g, a, first, rows, k, depth, out); });
  }
  static void PackPanel(const GemmArguments<float>& g, int64_t first, int64_t k, int64_t depth, uint32_t* out) {
    g.b.Visit([&](const auto* b) HWY_ATTR { PackColumns<kUnit, Base::kNR>(g, b, first, k, depth, out); });
  }

  // Products of few rows pair A's neighbours, and read B where it lies: in dot products two neighbours are a pair, if
  // they are bfloat16 already.
  static bool CanBeThin(const GemmArguments<float>& g) { return g.transpose_a == Transpose::kNo; }
  static bool CanBeDots(const GemmArguments<float>& g) { return CanBeThin(g) && g.b.is_bfloat16(); }
  struct ThinRows {
    void Set(const GemmArguments<float>& g, int64_t k, int64_t depth) {
      for (int64_t r = 0; r < g.m; ++r) {
        uint32_t* const row = pairs + r * kPairsOfBlock;
        g.a.Visit([&](const auto* a) HWY_ATTR { PairNeighbours<kUnit>(a + r * g.a.stride + k, depth, row); });
        rows[r] = {row, 1};
      }
    }
    ThinRow<uint32_t> rows[kThinRows];
    uint32_t pairs[kThinRows * kPairsOfBlock];
  };
  // A row's run of halves ends before the processor has learnt to read ahead in it.
  static constexpr bool kAsksAhead = true;
  static constexpr int kStepOperands = kStreams / kTerms, kChains = 1;
  template <class Use>
  static void VisitB(const GemmArguments<float>& g, const Use& use) {
    g.b.Visit(use);
  }
  using Terms = ThinPairs<kUnit>;
  using DotSource = uint16_t;
  static const uint16_t* DotRows(const GemmArguments<float>& g) { return g.b.bfloat16(); }

 private:
  // op(A)[first … first + rows, k … k + depth] in tiles of MR rows.
  template <typename Source>
  static HWY_INLINE void PackRows(const GemmArguments<float>& g, const Source* a, int64_t first, int64_t rows,
                                  int64_t k, int64_t depth, uint32_t* out) {
    if (LayoutOf(g) == RowLayout::kByRow) {
      for (int64_t r = 0; r < rows; ++r) {
        PairNeighbours<kUnit>(a + (first + r) * g.a.stride + k, depth, out + r * kRowStride);
      }
      return;
    }
    const Tag<uint32_t> d;
    const int64_t pairs = CeilDivide<int64_t>(depth, 2);
    for (int64_t t = 0; t < rows; t += Base::kMR) {
      const int64_t tile_rows = std::min<int64_t>(Base::kMR, rows - t);
      for (int64_t p = 0; p < pairs; ++p) {
        const Source* in = a + (k + 2 * p) * g.a.stride + first + t;
        const Source* second = 2 * p + 1 < depth ? in + g.a.stride : nullptr;
        // Written whole: the surplus lands where the next store goes, or in the slack after the last one.
        for (int64_t r = 0; r < tile_rows; r += kLanesOf<float>) {
          hn::StoreU(PairRows<kUnit>(in + r, second == nullptr ? second : second + r, g.m - first - t - r), d,
                     out + t * pairs + p * tile_rows + r);
        }
      }
    }
  }
};

// ---- Matrix tiles: a policy whose tile is two by two of the processor's, and one of products of few rows ----

// Tiles: AmxTiles or ModelTiles; kUnit: what rounds, to the same bits. Rows and columns after the last are computed and
// left out; terms after the last are zeros in both operands, up to a whole step.
template <class Tiles, BFloat16Unit kUnit>
struct AmxPairs {
  using Sum = float;
  using Packed = uint32_t;
  static constexpr int64_t kMR = kTileBlock, kNR = kTileBlock;
  static constexpr int kTerms = 2;
  static constexpr int64_t kStep = kTileSize;
  static constexpr int64_t kRowStride = kKC / 2 + 16;
  static constexpr bool kInPlace = false, kHasStart = false;
  static_assert(kKC / 2 % kStep == 0);
  // The registers are taken and given back once a task.
  struct Arithmetic {
    FlushSubnormals flush;
    Tiles tiles;
  };

  static RowLayout LayoutOf(const GemmArguments<float>& /*g*/) { return RowLayout::kByRow; }
  static void PackA(const GemmArguments<float>& g, int64_t first, int64_t rows, int64_t k, int64_t depth,
                    uint32_t* out) {
    g.a.Visit([&](const auto* a) { PackRows(g, a, first, rows, k, depth, out); });
  }
  static void PackPanel(const GemmArguments<float>& g, int64_t first, int64_t k, int64_t depth, uint32_t* out) {
    g.b.Visit([&](const auto* b) { PackColumns<kUnit, kNR>(g, b, first, k, depth, out); });
    const int64_t pairs = CeilDivide<int64_t>(depth, 2);
    std::fill(out + pairs * kNR, out + RoundUp(pairs, kStep) * kNR, 0u);
  }

  static HWY_INLINE void TileOf(Arithmetic& arithmetic, const RowTiles<uint32_t>& a, int64_t rows, int64_t depth,
                                const uint32_t* b, int64_t b_depth, float* c, int64_t ldc, int64_t columns,
                                const Update<float>& update, const PrefetchSpread<uint32_t>& /*ahead*/) {
    arithmetic.tiles.Clear();
    for (int64_t p = 0; p < depth; p += kStep) arithmetic.tiles.AddStep(a.data + p, a.stride, b + p * b_depth, b_depth);
    HWY_ALIGN float sums[kTileBlock * kTileBlock];
    arithmetic.tiles.Store(sums);
    const Tag<float> d;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t column = 0; column < columns; column += kLanesOf<float>) {
        StoreUpdated(update, column, hn::Load(d, sums + r * kTileBlock + column), columns - column,
                     c + r * ldc + column);
      }
    }
  }

 private:
  // Rows of kRowStride pairs, as far as they are read.
  template <typename Source>
  static void PackRows(const GemmArguments<float>& g, const Source* a, int64_t first, int64_t rows, int64_t k,
                       int64_t depth, uint32_t* out) {
    const int64_t pairs = CeilDivide<int64_t>(depth, 2), whole = RoundUp(pairs, kStep);
    for (int64_t r = 0; r < RoundUp<int64_t>(rows, kMR); ++r) {
      std::fill(out + r * kRowStride + (r < rows ? pairs : 0), out + r * kRowStride + whole, 0u);
    }
    if (g.transpose_a == Transpose::kNo) {
      for (int64_t r = 0; r < rows; ++r) {
        PairNeighbours<kUnit>(a + (first + r) * g.a.stride + k, depth, out + r * kRowStride);
      }
      return;
    }
    const Tag<uint32_t> d;
    HWY_ALIGN uint32_t piece[kTileSize * kTileBlock];
    for (int64_t r = 0; r < rows; r += kTileBlock) {
      const int64_t here = std::min<int64_t>(kTileBlock, rows - r);
      for (int64_t p = 0; p < pairs; p += kTileSize) {
        const int64_t count = std::min<int64_t>(kTileSize, pairs - p);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t term = 2 * (p + i);
          const Source* in = a + (k + term) * g.a.stride + first + r;
          for (int64_t lane = 0; lane < here; lane += kLanesOf<float>) {
            const Source* second = term + 1 < depth ? in + g.a.stride + lane : nullptr;
            hn::Store(PairRows<kUnit>(in + lane, second, here - lane), d, piece + i * kTileBlock + lane);
          }
        }
        TransposeBits(count, count, here, piece, kTileBlock, out + r * kRowStride + p, kRowStride);
      }
    }
  }
};

// Products of few rows, which B's bytes bound, to the bits of tiles by the target's multiply-adds: of a step's pairs
// the first terms and the second ones are summed apart.
struct StepTerms : ThinPairs<BFloat16Unit::kWidened> {
  using Operand = ThinPairs<BFloat16Unit::kWidened>;
  struct Sums {
    FloatVector first, second;
  };
  static HWY_INLINE Sums MulAdd(const Operand& a, const Operand& b, const Sums& sums) {
    return {hn::MulAdd(a.first, b.first, sums.first), hn::MulAdd(a.second, b.second, sums.second)};
  }
  static HWY_INLINE Sums Start(FloatVector /*before*/) { return {hn::Zero(Tag<float>()), hn::Zero(Tag<float>())}; }
  static HWY_INLINE FloatVector Total(FloatVector before, const Sums& sums) {
    return hn::Add(before, hn::Add(sums.first, sums.second));
  }
};
struct ThinTiles : RoundedPairs<BFloat16Unit::kWidened> {
  using Terms = StepTerms;
  static constexpr int kStepOperands = kTileSize, kChains = 2;
};

using TilesModel = AmxPairs<ModelTiles, BFloat16Unit::kWidened>;

void TilesProduct(const GemmArguments<float>& g) {
  if (IsThin<ThinTiles>(g)) return ThinProduct<ThinTiles>(g);
  if (IsDots<ThinTiles>(g)) return DotsProduct<ThinTiles>(g);
  if constexpr (kHasDotProduct) {
    if (HasTiles()) return BlockedProduct<AmxPairs<AmxTiles, kDotProductHere>>(g);
  }
  BlockedProduct<TilesModel>(g);
}

GemmWorkspace TilesWorkspace(const GemmArguments<float>& g, int threads) {
  if (IsThin<ThinTiles>(g) || IsDots<ThinTiles>(g)) return GemmWorkspace();
  return WorkspaceOf<TilesModel>(g, threads);
}

CROSSTALK_END_TARGET

CROSSTALK_TARGETS(ProductOfWidened, kProductOf<RoundedPairs<BFloat16Unit::kWidened>>)
CROSSTALK_TARGETS(ProductOfDotProducts, kProductOf<RoundedPairs<kDotProductHere>>)
CROSSTALK_TARGETS(ProductOfTiles, GemmProduct<float>{TilesProduct, TilesWorkspace})
