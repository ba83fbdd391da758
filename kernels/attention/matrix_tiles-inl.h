// The products of products-inl.h on matrix tiles (kernels/gemm/amx.h), in bfloat16 where the plan says so: 32 columns
// at a time, which are a chunk's positions, or 32 of d_k or d_v. B lies as registers read it; A's rows one after the
// other, each in pairs of neighbours of the sum:
//
//   TileNT   A[rows][depth]                      queries, of PackQueries
//   TileNN   A[rows][kChunk / 2]                 pairs of positions
//   TileTN   A[group][size][kTileSize]           groups of 32 queries, of PackQueriesOfColumns
//   MixHeads A[out][in / 2], of each query or all   B pairs of heads of one query, by their stride
//   HeadMixingGradient A[in][kChunk / 2]         pairs of positions of one query; B the other side's, turned round
//
// Compiled once per target.
#if defined(CROSSTALK_ATTENTION_MATRIX_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_MATRIX_TILES_INL_H_
#undef CROSSTALK_ATTENTION_MATRIX_TILES_INL_H_
#else
#define CROSSTALK_ATTENTION_MATRIX_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"
#include "crosstalk/kernels/gemm/amx.h"
#include "crosstalk/kernels/transpose-inl.h"

CROSSTALK_BEGIN_TARGET

static_assert(kChunk == kTileBlock && kHalf == kTileSize);

// A block's sums to C, rows c_row apart: as they are, or in pairs of positions.
template <class Terms, Result kResult, class Tiles>
HWY_INLINE void StoreBlock(const Tiles& block, ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_row) {
  if constexpr (kResult == Result::kPositionPairs) {
    HWY_ALIGN float sums[kTileBlock * kTileBlock];
    block.Store(sums);
    for (int64_t r = 0; r < block.shape().rows; ++r) {
      PairRow<Terms, kHalf>(sums + r * kTileBlock, sums + r * kTileBlock + kHalf, c + r * c_row);
    }
  } else {
    block.Store(c, c_row);
  }
}

template <class Terms, Result kResult>
HWY_NOINLINE void TileNTOnTiles(MatrixTiles& tiles, int64_t rows, int64_t depth, const Pair* HWY_RESTRICT a,
                                const Pair* HWY_RESTRICT b, ResultLane<Terms, kResult>* HWY_RESTRICT c) {
  const TileShape shape{std::min(rows, kTileBlock), PartOfPairs(depth)};
  tiles.With(shape, [&](auto& block) HWY_ATTR {
    for (int64_t q = 0; q < rows; q += kTileBlock) {
      if constexpr (kResult == Result::kAdd) {
        block.Load(c + q * kChunk, kChunk);
      } else {
        block.Clear();
      }
      for (int64_t p = 0; p < depth; p += shape.depth) {
        block.AddStep(&a[q * depth + p].bits, depth, &b[p * kChunk].bits, kChunk);
      }
      StoreBlock<Terms, kResult>(block, c + q * kColumns<kResult>, kColumns<kResult>);
    }
  });
}

inline void TileNNOnTiles(MatrixTiles& tiles, int64_t rows, int64_t width, const Pair* a, const Pair* b, float* c) {
  tiles.With({.rows = std::min(rows, kTileBlock)}, [&](auto& block) {
    for (int64_t v = 0; v < width; v += kTileBlock) {
      for (int64_t q = 0; q < rows; q += kTileBlock) {
        block.Load(c + q * width + v, width);
        block.AddStep(&a[q * kHalf].bits, kHalf, &b[v].bits, width);
        block.Store(c + q * width + v, width);
      }
    }
  });
}

// `rows` lanes of queries, of each of `tiles` tiles of B.
inline void TileTNOnTiles(MatrixTiles& matrix_tiles, bool add, int64_t rows, int64_t tiles, int64_t tile_floats,
                          int64_t size, const Pair* a, const Pair* b, float* c) {
  const TileShape shape{.rows = PartOfRows(size)};
  matrix_tiles.With(shape, [&](auto& block) {
    for (int64_t e = 0; e < size; e += shape.rows) {
      if (add) {
        block.Load(c + e * kChunk, kChunk);
      } else {
        block.Clear();
      }
      const Pair* a_group = a + e * kTileSize;
      for (int64_t t = 0; t < tiles; ++t) {
        for (int64_t q = 0; q < rows; q += kTileSize, a_group += size * kTileSize) {
          block.AddStep(&a_group->bits, kTileSize, &b[t * tile_floats + q * kChunk].bits, kChunk);
        }
      }
      block.Store(c + e * kChunk, kChunk);
    }
  });
}

// C[h_out, q, kChunk] = Σ_in A[out, in] · B[in, q, kChunk] for each of `queries` rows, where plan.mixes_on_tiles; h_in
// in pairs. Query q's matrix is at packed + q · query_stride.
template <class Terms, Result kResult>
HWY_NOINLINE void MixHeadsOnTiles(MatrixTiles& tiles, int64_t queries, int64_t h_in, int64_t h_out,
                                  const Pair* HWY_RESTRICT packed, int64_t query_stride, const Pair* HWY_RESTRICT b,
                                  int64_t b_pitch, ResultLane<Terms, kResult>* HWY_RESTRICT c, int64_t c_pitch) {
  static_assert(kResult != Result::kAdd);
  const TileShape shape{PartOfRows(h_out), PartOfPairs(h_in)};
  tiles.With(shape, [&](auto& block) HWY_ATTR {
    for (int64_t out = 0; out < h_out; out += shape.rows) {
      for (int64_t q = 0; q < queries; ++q) {
        const Pair* a = packed + q * query_stride + out * h_in;
        block.Clear();
        for (int64_t p = 0; p < h_in; p += shape.depth) {
          block.AddStep(&a[p].bits, h_in, &b[p * b_pitch + q * kChunk].bits, b_pitch);
        }
        StoreBlock<Terms, kResult>(block, c + out * c_pitch + q * kColumns<kResult>, c_pitch);
      }
    }
  });
}

// sums[a_heads][b_heads] += Σ_q Σ_j A[a_head, q, j] · B[b_head, q, j] of tiles in pairs of positions, heads `pitch`
// apart.
HWY_NOINLINE inline void HeadMixingGradientOnTiles(MatrixTiles& tiles, int64_t a_heads, int64_t b_heads,
                                                   int64_t queries, const Pair* HWY_RESTRICT a,
                                                   const Pair* HWY_RESTRICT b, int64_t pitch,
                                                   float* HWY_RESTRICT sums) {
  constexpr int64_t kPiece = 8;  // queries, whose B is turned round at a time
  const TileShape shape{.rows = PartOfRows(a_heads)};
  HWY_ALIGN Pair turned[kPiece][kTileSize * kTileBlock] = {};
  HWY_ALIGN float block_sums[kTileBlock * kTileBlock] = {};
  tiles.With(shape, [&](auto& block) HWY_ATTR {
    for (int64_t first = 0; first < b_heads; first += kTileBlock) {
      const int64_t columns = std::min(kTileBlock, b_heads - first);
      for (int64_t q = 0; q < queries; q += kPiece) {
        const int64_t piece = std::min(kPiece, queries - q);
        for (int64_t i = 0; i < piece; ++i) {
          TransposeBits<uint32_t>(columns, columns, kTileSize, &b[first * pitch + (q + i) * kHalf].bits, pitch,
                                  &turned[i]->bits, kTileBlock);
        }
        for (int64_t row = 0; row < a_heads; row += shape.rows) {
          float* to = sums + row * b_heads + first;
          for (int64_t r = 0; r < shape.rows; ++r) std::copy_n(to + r * b_heads, columns, block_sums + r * kTileBlock);
          block.Load(block_sums, kTileBlock);
          for (int64_t i = 0; i < piece; ++i) {
            block.AddStep(&a[row * pitch + (q + i) * kHalf].bits, pitch, &turned[i]->bits, kTileBlock);
          }
          block.Store(block_sums);
          for (int64_t r = 0; r < shape.rows; ++r) std::copy_n(block_sums + r * kTileBlock, columns, to + r * b_heads);
        }
      }
    }
  });
}

// ---- On tiles, if any ----

template <class Terms, Result kResult>
HWY_INLINE void TileNT(MatrixTiles* tiles, int64_t rows, int64_t depth, const LaneOf<Terms>* a, const LaneOf<Terms>* b,
                       ResultLane<Terms, kResult>* c, const LaneOf<Terms>* next, int64_t share) {
  if constexpr (InPairs<Terms>) {
    if (tiles != nullptr) return TileNTOnTiles<Terms, kResult>(*tiles, rows, depth, a, b, c);
  }
  TileNT<Terms, kResult>(rows, depth, a, b, c, next, share);
}

template <class Terms>
HWY_INLINE void TileNN(MatrixTiles* tiles, int64_t rows, int64_t width, const LaneOf<Terms>* a, const LaneOf<Terms>* b,
                       float* c, const LaneOf<Terms>* next, int64_t share) {
  if constexpr (InPairs<Terms>) {
    if (tiles != nullptr) return TileNNOnTiles(*tiles, rows, width, a, b, c);
  }
  TileNN<Terms>(rows, width, a, b, c, next, share);
}

template <class Terms, Result kResult>
HWY_INLINE void TileTN(MatrixTiles* matrix_tiles, int64_t rows, int64_t tiles, int64_t tile_floats, int64_t size,
                       const LaneOf<Terms>* a, const LaneOf<Terms>* b, float* c, const float* next) {
  if constexpr (InPairs<Terms>) {
    if (matrix_tiles != nullptr) {
      return TileTNOnTiles(*matrix_tiles, kResult == Result::kAdd, rows, tiles, tile_floats, size, a, b, c);
    }
  }
  TileTN<Terms, kResult>(rows, tiles, tile_floats, size, a, b, c, next);
}

CROSSTALK_END_TARGET

#endif
