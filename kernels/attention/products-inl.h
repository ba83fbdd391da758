// The micro-kernels: small matrix products whose accumulators stay in registers. Two register tiles make all products
// of the attention: BlockProduct, a broadcast scalar times a vector, and InterleavedProduct, lane by lane. From the
// first come, named by BLAS's transposes (N as stored, T transposed; keys and values are stored by position, as rows):
//
//   TileNT   C = A·Bᵀ   J = Q·Kᵀ, dU = dO·Vᵀ       B packed by position: [size][kChunk]
//   TileNN   C += A·B   O += U·V, dQ += dJ·K       B packed by size: [kChunk][size]
//   TileTN   C += Aᵀ·B  dKᵀ += Qᵀ·dJ, dVᵀ += dOᵀ·U   summed over queries
//   MixHeads            L = J·P_l and its like, for each query and memory position
//
// from the second HeadMixingGradient, dP_l = Σ J·dL.
//
// Each takes its operands as Terms says: FloatTerms, or PairTerms in bfloat16, where a float's place holds two
// consecutive terms of the sum, so that depths and counts are half as large. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_PRODUCTS_INL_H_
#undef CROSSTALK_ATTENTION_PRODUCTS_INL_H_
#else
#define CROSSTALK_ATTENTION_PRODUCTS_INL_H_
#endif

#include <cstdint>
#include <optional>
#include <type_traits>

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/bfloat16-inl.h"
#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/simd.h"
#include "hwy/cache_control.h"

CROSSTALK_BEGIN_TARGET

inline constexpr int kLanes = kLanesOf<float>;
inline constexpr int kSumVectors = kSumRegisters<float>;  // they hold kPartialSums
static_assert(kPartialSums == kSumLanes<float>);

// Registers: 32 with AVX-512 and SVE-like targets, else 16. Accumulators are kRowsMax × 2 vectors; without vectors
// there are just enough to hide latency, as each number of rows is a function to compile.
inline constexpr int kMixRows = kLanes >= 16 ? 12 : kLanes > 1 ? 6 : 3;  // rows of a head mixing
inline constexpr int kTileRows = kLanes >= 16 ? 8 : 4;  // rows of the other products; divides kQueryGroup
inline constexpr int kLaneRows = kLanes >= 16 ? 6 : kLanes > 1 ? 3 : 2;  // InterleavedProduct: × kLaneCols accumulators
inline constexpr int kLaneCols = 4;

inline constexpr int kHalf = kChunk / 2;  // pairs of positions in a row of a tile: position j beside j + kHalf

// The content of a 32-bit lane of an operand: one term of a sum, in float.
struct FloatTerms {
  static constexpr int kTerms = 1;
  using Lane = float;
  static constexpr bool kEmulated = false;  // a multiply-add is one instruction, on targets that have it
  struct Arithmetic {                       // what lives while a task computes
    explicit Arithmetic(const AttentionPlan& /*plan*/) {}
    static MatrixTiles* tiles() { return nullptr; }
  };
  static HWY_INLINE FloatVector MulAdd(FloatVector a, FloatVector b, FloatVector sum) { return hn::MulAdd(a, b, sum); }
  static HWY_INLINE FloatVector Rounded(FloatVector x) { return x; }
};
// Two in bfloat16, as Pairs has them.
template <BFloat16Unit kUnit>
struct PairTerms {
  static constexpr int kTerms = 2;
  using Lane = Pair;
  static constexpr bool kEmulated = kUnit == BFloat16Unit::kWidened;
  class Arithmetic {
   public:
    explicit Arithmetic(const AttentionPlan& plan) {
      if (plan.on_tiles) tiles_.emplace(BFloat16UnitIsHardware());
    }
    MatrixTiles* tiles() { return tiles_ ? &*tiles_ : nullptr; }

   private:
    FlushSubnormals flush_;
    std::optional<MatrixTiles> tiles_;
  };
  static HWY_INLINE FloatVector MulAdd(PairVector a, PairVector b, FloatVector sum) {
    return Pairs<kUnit>::MulAdd(a, b, sum);
  }
  static HWY_INLINE PairVector Round(FloatVector first, FloatVector second) {
    return Pairs<kUnit>::Round(first, second);
  }
  static HWY_INLINE hn::Vec<HalfTag> RoundHalves(FloatVector x) { return Pairs<kUnit>::RoundHalves(x); }
  // The values themselves, rounded: as the second of pairs whose first are 0.
  static HWY_INLINE FloatVector Rounded(FloatVector x) {
    if constexpr (kUnit == BFloat16Unit::kWidened) return RoundedToBFloat16(x);
    return hn::BitCast(Tag<float>(), Round(hn::Zero(Tag<float>()), x));
  }
};

template <class Terms>
using LaneOf = typename Terms::Lane;

// Vectors of lanes.
HWY_INLINE FloatVector LoadLanes(const float* p) { return hn::Load(Tag<float>(), p); }
HWY_INLINE PairVector LoadLanes(const Pair* p) { return hn::Load(Tag<uint32_t>(), &p->bits); }
HWY_INLINE FloatVector SameLanes(float x) { return hn::Set(Tag<float>(), x); }
HWY_INLINE PairVector SameLanes(Pair x) { return hn::Set(Tag<uint32_t>(), x.bits); }
HWY_INLINE void StoreLanes(FloatVector v, float* p) { hn::Store(v, Tag<float>(), p); }
HWY_INLINE void StoreLanes(PairVector v, Pair* p) { hn::Store(v, Tag<uint32_t>(), &p->bits); }
HWY_INLINE void StoreLanesU(FloatVector v, float* p) { hn::StoreU(v, Tag<float>(), p); }
HWY_INLINE void StoreLanesU(PairVector v, Pair* p) { hn::StoreU(v, Tag<uint32_t>(), &p->bits); }

// out[j] = the pair of first[j] and second[j], j < kCount.
template <class Terms, int kCount>
HWY_INLINE void PairRow(const float* first, const float* second, Pair* out) {
  const Tag<float> d;
  CROSSTALK_UNROLL
  for (int j = 0; j < kCount; j += kLanes)
    StoreLanes(Terms::Round(hn::Load(d, first + j), hn::Load(d, second + j)), out + j);
}

// A product's prefetches of the next chunk while it runs: nothing, one operand (PrefetchSpread) or three.
struct PrefetchNothing {
  HWY_INLINE void Next() {}
  HWY_INLINE void Skip(int64_t) {}
};
inline constexpr int kLine = 16;  // floats of a cache line
// Three operands of equal size, in lanes: addresses alone.
struct PrefetchThree {
  const float* from[3];
  int64_t step;
  HWY_INLINE void Next() {
    CROSSTALK_UNROLL
    for (int i = 0; i < 3; ++i) {
      __builtin_prefetch(from[i], 0, 2);
      from[i] += step;
    }
  }
  HWY_INLINE void Skip(int64_t steps) {
    for (int i = 0; i < 3; ++i) from[i] += steps * step;
  }
};

// The destination of a register block's sums: they take C's place, are added to it, or take it in pairs of positions,
// which are half as many columns.
enum class Result { kSet, kAdd, kPositionPairs };
template <class Terms, Result kResult>
using ResultLane = std::conditional_t<kResult == Result::kPositionPairs, PositionLane<Terms>, float>;
// How far apart in B the two vectors of columns are that a register block computes.
template <Result kResult>
inline constexpr int kApart = kResult == Result::kPositionPairs ? kHalf : kLanes;

// sum[R, NV vectors] += A[R] · B[NV vectors, kApart apart]: element r of A at a[r · a_row].
template <class Terms, int kApart, int R, int NV>
HWY_INLINE void BlockStep(const LaneOf<Terms>* HWY_RESTRICT a, int64_t a_row, const LaneOf<Terms>* HWY_RESTRICT b,
                          FloatVector (&sum)[R][NV]) {
  decltype(LoadLanes(b)) y[NV];
  CROSSTALK_UNROLL
  for (int v = 0; v < NV; ++v) y[v] = LoadLanes(b + v * kApart);
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    const auto x = SameLanes(a[r * a_row]);
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) sum[r][v] = Terms::MulAdd(x, y[v], sum[r][v]);
  }
}

// C[R, NV vectors] = or += Σ_k A[k, R] · B[k, NV vectors]: element (r, k) of A at a[r · a_row + k · a_depth], vector v
// of row k of B at b[k · b_depth + v · kApart], row r of C at c[r · c_row]. The sum goes on over `segments` pieces of
// `depth`: A is contiguous over all of them, B's are b_segment apart. kDepth is `depth` where the loop over it is to be
// unrolled, for one segment; else 0.
template <class Terms, int R, int NV, Result kResult, int kDepth = 0, class Prefetch = PrefetchNothing>
HWY_INLINE void BlockProduct(int64_t depth, const LaneOf<Terms>* HWY_RESTRICT a, int64_t a_row, int64_t a_depth,
                             const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_depth,
                             ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_row, Prefetch prefetch = {},
                             int64_t segments = 1, int64_t b_segment = 0) {
  const Tag<float> d;
  hn::Vec<Tag<float>> sum[R][NV];
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < NV; ++v) {
      sum[r][v] = hn::Zero(d);
      if constexpr (kResult == Result::kAdd) sum[r][v] = hn::Load(d, c + r * c_row + v * kLanes);
    }
  }
  if constexpr (kDepth > 0) {
    CROSSTALK_UNROLL
    for (int k = 0; k < kDepth; ++k) {
      BlockStep<Terms, kApart<kResult>>(a, a_row, b, sum);
      a += a_depth;
      b += b_depth;
      prefetch.Next();
    }
  } else {
    for (int64_t segment = 0; segment < segments; ++segment) {
      const LaneOf<Terms>* HWY_RESTRICT b_row = b + segment * b_segment;
      for (int64_t k = 0; k < depth; ++k) {
        BlockStep<Terms, kApart<kResult>>(a, a_row, b_row, sum);
        a += a_depth;
        b_row += b_depth;
        prefetch.Next();
      }
    }
  }
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    if constexpr (kResult == Result::kPositionPairs) {
      static_assert(NV == 2);
      StoreLanes(Terms::Round(sum[r][0], sum[r][1]), c + r * c_row);
    } else {
      CROSSTALK_UNROLL
      for (int v = 0; v < NV; ++v) hn::Store(sum[r][v], d, c + r * c_row + v * kLanes);
    }
  }
}

// The vectors of a chunk of kChunk memory positions, two at a time where the target has two.
inline constexpr int kChunkVectors = kChunk / kLanes;
inline constexpr int kStepVectors = kChunkVectors >= 2 ? 2 : 1;
inline constexpr int kStep = kStepVectors * kLanes;
// Columns of C that a register block of a chunk yields, of the kColumns in a row.
template <Result kResult>
inline constexpr int kStepColumns = kResult == Result::kPositionPairs ? kLanes : kStep;
template <Result kResult>
inline constexpr int kColumns = kResult == Result::kPositionPairs ? kHalf : kChunk;

// C[rows, kChunk] = or += Σ_k A[k, rows] · B[k, kChunk] for a run-time number of rows ≤ kMaxRows.
template <class Terms, int kMaxRows, Result kResult>
HWY_INLINE void ChunkProduct(int rows, int64_t depth, const LaneOf<Terms>* HWY_RESTRICT a, int64_t a_depth,
                             const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_depth,
                             ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_row) {
  if (rows == kMaxRows) {
    for (int j = 0; j < kChunk; j += kStep) {
      BlockProduct<Terms, kMaxRows, kStepVectors, kResult>(depth, a, 1, a_depth, b + j, b_depth, c + j, c_row);
    }
  } else if constexpr (kMaxRows > 1) {
    ChunkProduct<Terms, kMaxRows - 1, kResult>(rows, depth, a, a_depth, b, b_depth, c, c_row);
  }
}

// Whether the loop over a sum of kDepth terms is unrolled in a block of R output heads. With so few terms the loop
// costs a tenth; the blocks are those that such numbers of heads usually have. Where a multiply-add is several
// instructions the loop does not show.
template <class Terms, int R, int kDepth>
inline constexpr bool kUnrollsMixing = !Terms::kEmulated && (R == kDepth || R == kMixRows);

// One block of R output heads of MixHeads. kDepth: h_in, or 0 for a run-time one.
template <class Terms, int R, Result kResult, int kDepth, class Prefetch>
HWY_INLINE void MixBlock(int64_t queries, int64_t h_in, const LaneOf<Terms>* HWY_RESTRICT packed, int64_t query_stride,
                         const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_pitch,
                         ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_pitch, Prefetch& prefetch) {
  for (int64_t q = 0; q < queries; ++q) {
    for (int j = 0; j < kColumns<kResult>; j += kStepColumns<kResult>) {
      BlockProduct<Terms, R, kStepVectors, kResult, kDepth>(h_in, packed + q * query_stride, 1, R, b + q * kChunk + j,
                                                            b_pitch, c + q * kColumns<kResult> + j, c_pitch, prefetch);
      prefetch.Skip(h_in);
    }
  }
}

// MixBlock for a run-time number of rows ≤ R.
template <class Terms, int R, Result kResult, class Prefetch>
HWY_INLINE void MixBlockOf(int rows, int64_t queries, int64_t h_in, const LaneOf<Terms>* HWY_RESTRICT packed,
                           int64_t query_stride, const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_pitch,
                           ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_pitch, Prefetch& prefetch) {
  if (rows < R) {
    if constexpr (R > 1) {
      MixBlockOf<Terms, R - 1, kResult>(rows, queries, h_in, packed, query_stride, b, b_pitch, c, c_pitch, prefetch);
    }
    return;
  }
  const auto mix = [&](auto depth) HWY_ATTR {
    MixBlock<Terms, R, kResult, depth.value>(queries, h_in, packed, query_stride, b, b_pitch, c, c_pitch, prefetch);
  };
  if constexpr (kUnrollsMixing<Terms, R, 4>) {
    if (h_in == 4) return mix(std::integral_constant<int, 4>());
  }
  if constexpr (kUnrollsMixing<Terms, R, 6>) {
    if (h_in == 6) return mix(std::integral_constant<int, 6>());
  }
  if constexpr (kUnrollsMixing<Terms, R, 8>) {
    if (h_in == 8) return mix(std::integral_constant<int, 8>());
  }
  if constexpr (kUnrollsMixing<Terms, R, 12>) {
    if (h_in == 12) return mix(std::integral_constant<int, 12>());
  }
  mix(std::integral_constant<int, 0>());
}

// C[h_out, q, kChunk] = or += Σ_in A[in, out] · B[in, q, kChunk] for each of `queries` rows. A is packed (PackMixing)
// in blocks of rows, query q's at packed + q · query_stride; heads of B are b_pitch lanes apart, those of C c_pitch.
template <class Terms, Result kResult, class Prefetch>
HWY_NOINLINE void MixHeads(const HeadBlocks& blocks, int64_t queries, int64_t h_in,
                           const LaneOf<Terms>* HWY_RESTRICT packed, int64_t query_stride,
                           const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_pitch,
                           ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_pitch, Prefetch& prefetch) {
  int64_t first = 0;
  for (int64_t i = 0; i < blocks.count; ++i) {
    const int rows = static_cast<int>(blocks.Rows(i));
    MixBlockOf<Terms, kMixRows, kResult>(rows, queries, h_in, packed + first * h_in, query_stride, b, b_pitch,
                                         c + first * c_pitch, c_pitch, prefetch);
    first += rows;
  }
}

// All passes share those of floats without a prefetch, which passes_in_float.cc compiles.
#define CROSSTALK_MIX_HEADS(result) \
  template void MixHeads<FloatTerms, result>(const HeadBlocks&, int64_t, int64_t, const float* HWY_RESTRICT, int64_t, \
                                             const float* HWY_RESTRICT, int64_t, float* HWY_RESTRICT, int64_t, \
                                             PrefetchNothing&)
#ifndef CROSSTALK_ATTENTION_COMPILES_MIX_HEADS
extern CROSSTALK_MIX_HEADS(Result::kSet);
extern CROSSTALK_MIX_HEADS(Result::kAdd);
#endif

// C[rows, kChunk] = or += Σ_k A[k, row] · B[k, kChunk] for groups of kQueryGroup rows; A[group][k][kQueryGroup].
// `next`: `share` floats that will be asked for soon.
template <class Terms, Result kResult>
HWY_NOINLINE inline void TileNT(int64_t rows, int64_t depth, const LaneOf<Terms>* HWY_RESTRICT a,
                                const LaneOf<Terms>* HWY_RESTRICT b, ResultLane<Terms, kResult>* HWY_RESTRICT c,
                                const LaneOf<Terms>* next, int64_t share) {
  const int64_t steps = rows / kTileRows * (kChunk / kStep) * depth;
  PrefetchSpread<LaneOf<Terms>> prefetch{next, CeilDivide(share, steps)};
  for (int64_t q = 0; q < rows; q += kTileRows) {
    const LaneOf<Terms>* a_rows = a + q / kQueryGroup * kQueryGroup * depth + q % kQueryGroup;
    for (int j = 0; j < kColumns<kResult>; j += kStepColumns<kResult>) {
      BlockProduct<Terms, kTileRows, kStepVectors, kResult>(depth, a_rows, 1, kQueryGroup, b + j, kChunk,
                                                            c + q * kColumns<kResult> + j, kColumns<kResult>, prefetch);
      prefetch.Skip(depth);
    }
  }
}

// C[rows, width] += Σ_j A[row, j] · B[j, width] over one chunk; width is a multiple of the vector.
template <class Terms>
HWY_NOINLINE inline void TileNN(int64_t rows, int64_t width, const LaneOf<Terms>* HWY_RESTRICT a,
                                const LaneOf<Terms>* HWY_RESTRICT b, float* HWY_RESTRICT c, const LaneOf<Terms>* next,
                                int64_t share) {
  constexpr int kDepth = kChunk / Terms::kTerms;
  const int64_t steps = rows / kTileRows * CeilDivide<int64_t>(width, 2 * kLanes) * kDepth;
  PrefetchSpread<LaneOf<Terms>> prefetch{next, CeilDivide(share, steps)};
  int64_t v = 0;
  for (; v + 2 * kLanes <= width; v += 2 * kLanes) {
    for (int64_t q = 0; q < rows; q += kTileRows) {
      BlockProduct<Terms, kTileRows, 2, Result::kAdd>(kDepth, a + q * kDepth, kDepth, 1, b + v, width,
                                                      c + q * width + v, width, prefetch);
      prefetch.Skip(kDepth);
    }
  }
  if (v < width) {
    for (int64_t q = 0; q < rows; q += kTileRows) {
      BlockProduct<Terms, kTileRows, 1, Result::kAdd>(kDepth, a + q * kDepth, kDepth, 1, b + v, width,
                                                      c + q * width + v, width, prefetch);
      prefetch.Skip(kDepth);
    }
  }
}

// C[size, kChunk] = or += Σ_q A[q, size] · B[q, kChunk] over `tiles` tiles of `rows` queries; B's are tile_floats
// apart.
template <class Terms, Result kResult>
HWY_NOINLINE inline void TileTN(int64_t rows, int64_t tiles, int64_t tile_floats, int64_t size,
                                const LaneOf<Terms>* HWY_RESTRICT a, const LaneOf<Terms>* HWY_RESTRICT b,
                                ResultLane<Terms, kResult>* HWY_RESTRICT c, const float* next) {
  constexpr int kBlockFloats = kTileRows * kStep;
  PrefetchSpread<float> prefetch{next, CeilDivide<int64_t>(kBlockFloats, rows * tiles)};
  int64_t e = 0;
  for (; e + kTileRows <= size; e += kTileRows) {
    for (int j = 0; j < kChunk; j += kStep) {
      BlockProduct<Terms, kTileRows, kStepVectors, kResult>(rows, a + e, 1, size, b + j, kChunk, c + e * kChunk + j,
                                                            kChunk, prefetch, tiles, tile_floats);
      prefetch.from += kBlockFloats;
    }
  }
  if (e == size) return;
  const int rest = static_cast<int>(size - e);
  ChunkProduct<Terms, kTileRows - 1, kResult>(rest, rows, a + e, size, b, kChunk, c + e * kChunk, kChunk);
  for (int64_t t = 1; t < tiles; ++t) {
    ChunkProduct<Terms, kTileRows - 1, Result::kAdd>(rest, rows, a + t * rows * size + e, size, b + t * tile_floats,
                                                     kChunk, c + e * kChunk, kChunk);
  }
}

// C[r, s, lane] += Σ_k A[k, r, lane] · B[k, s, lane], R × S accumulators.
template <class Terms, int R, int S>
HWY_INLINE void InterleavedProduct(int64_t count, const LaneOf<Terms>* HWY_RESTRICT a,
                                   const LaneOf<Terms>* HWY_RESTRICT b, int64_t pitch, int64_t step,
                                   float* HWY_RESTRICT c, int64_t c_row, int64_t c_col) {
  const Tag<float> d;
  hn::Vec<Tag<float>> sum[R][S];
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int s = 0; s < S; ++s) sum[r][s] = hn::Load(d, c + r * c_row + s * c_col);
  }
  for (int64_t k = 0; k < count; ++k) {
    decltype(LoadLanes(b)) y[S];
    CROSSTALK_UNROLL
    for (int s = 0; s < S; ++s) y[s] = LoadLanes(b + s * pitch);
    CROSSTALK_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = LoadLanes(a + r * pitch);
      CROSSTALK_UNROLL
      for (int s = 0; s < S; ++s) sum[r][s] = Terms::MulAdd(x, y[s], sum[r][s]);
    }
    a += step;
    b += step;
  }
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int s = 0; s < S; ++s) hn::Store(sum[r][s], d, c + r * c_row + s * c_col);
  }
}

// InterleavedProduct for run-time counts rows ≤ R, cols ≤ S.
template <class Terms, int R, int S>
HWY_INLINE void InterleavedProductOf(int rows, int cols, int64_t count, const LaneOf<Terms>* HWY_RESTRICT a,
                                     const LaneOf<Terms>* HWY_RESTRICT b, int64_t pitch, int64_t step,
                                     float* HWY_RESTRICT c, int64_t c_row, int64_t c_col) {
  if (rows == R && cols == S) {
    InterleavedProduct<Terms, R, S>(count, a, b, pitch, step, c, c_row, c_col);
  } else if (cols < S) {
    if constexpr (S > 1) InterleavedProductOf<Terms, R, S - 1>(rows, cols, count, a, b, pitch, step, c, c_row, c_col);
  } else {
    if constexpr (R > 1) InterleavedProductOf<Terms, R - 1, S>(rows, cols, count, a, b, pitch, step, c, c_row, c_col);
  }
}

// C[a_head, b_head, i] += Σ_k A[a_head, k, i] · B[b_head, k, i] for i < kPartialSums: the gradient of a head mixing
// before its partial sums are added. Heads of A and B are `pitch` floats apart, steps of k `step`; C's c_row and c_col.
// k is cut into pieces of `piece`, whose A and B stay in the first-level cache for all pairs of heads.
template <class Terms>
HWY_NOINLINE inline void HeadMixingGradient(int64_t a_heads, int64_t b_heads, int64_t count, int64_t piece,
                                            const LaneOf<Terms>* HWY_RESTRICT a, const LaneOf<Terms>* HWY_RESTRICT b,
                                            int64_t pitch, int64_t step, float* HWY_RESTRICT c, int64_t c_row,
                                            int64_t c_col) {
  const HeadBlocks rows(a_heads, kLaneRows), cols(b_heads, kLaneCols);
  for (int64_t k = 0; k < count; k += piece) {
    const int64_t steps = piece < count - k ? piece : count - k;
    int64_t r = 0;
    for (int64_t i = 0; i < rows.count; ++i) {
      int64_t s = 0;
      for (int64_t j = 0; j < cols.count; ++j) {
        for (int lane = 0; lane < kPartialSums; lane += kLanes) {
          InterleavedProductOf<Terms, kLaneRows, kLaneCols>(
              static_cast<int>(rows.Rows(i)), static_cast<int>(cols.Rows(j)), steps, a + r * pitch + k * step + lane,
              b + s * pitch + k * step + lane, pitch, step, c + r * c_row + s * c_col + lane, c_row, c_col);
        }
        s += cols.Rows(j);
      }
      r += rows.Rows(i);
    }
  }
}

CROSSTALK_END_TARGET

#endif
