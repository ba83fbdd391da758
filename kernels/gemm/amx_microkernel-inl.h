// Products of rounded operands in matrix tiles (amx.h): a policy of the blocked product whose tile is two by two
// tiles of the processor's, and one of products of few rows that has its bits. Compiled once per target.
#if defined(CROSSTALK_GEMM_AMX_MICROKERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_AMX_MICROKERNEL_INL_H_
#undef CROSSTALK_GEMM_AMX_MICROKERNEL_INL_H_
#else
#define CROSSTALK_GEMM_AMX_MICROKERNEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/kernels/gemm/microkernel-inl.h"
#include "crosstalk/kernels/gemm/pairs-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"
#include "crosstalk/runtime/math.h"

CROSSTALK_BEGIN_TARGET

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

CROSSTALK_END_TARGET

#endif
