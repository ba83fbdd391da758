// The mixing of heads in one tile of `rows` queries by kChunk memory positions: what a tile of queries reads, and each
// side's sum of mixings P + R_X + R_M + R(F_X) + R(F_M), of the logits before the softmax and of the weights after it,
// which forward and backward compute alike. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_MIXING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_MIXING_INL_H_
#undef CROSSTALK_ATTENTION_MIXING_INL_H_
#else
#define CROSSTALK_ATTENTION_MIXING_INL_H_
#endif

#include <algorithm>

#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/attention/factors-inl.h"
#include "crosstalk/kernels/attention/matrix_tiles-inl.h"
#include "crosstalk/kernels/attention/pack-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"

CROSSTALK_BEGIN_TARGET

// A mixing matrix packed for MixHeads; query q's lies at data + q · query_stride (0: all queries share it). Null: none.
struct PackedMixing {
  Lanes<HeadPair> data;
  int64_t query_stride = 0;
};

// A tile's queries, of one batch row and head group, and what its tiles read.
struct QueryTile {
  const AttentionPlan* plan = nullptr;
  const AttentionCall* call = nullptr;
  const PackedMemory* packed = nullptr;
  int64_t b = 0, group = 0;
  int64_t index = 0;        // the tile's in its block
  int64_t first_chunk = 0;  // before it no query of the block may attend to any
  int64_t first_query = 0, valid_rows = 0;
  Lanes<SizePair> Q;             // PackQueries of each head: [h_k][rows/8][d_k][8]; on tiles [h_k][rows][d_k / 2]
  PackedMixing mixing[2];        // P + R_X of each side
  float* L = nullptr;            // row 0 of the one head, rows m_padded() apart, where the call keeps L
  MatrixTiles* tiles = nullptr;  // where plan->on_tiles

  int64_t Query(int64_t row) const { return b * plan->shape.n + first_query + row; }
  // First element of row 0 and this group's head `k` in a [b, h, n] array.
  int64_t StatsOffset(int64_t k) const {
    return (b * plan->shape.h + group * plan->h + k) * plan->shape.n + first_query;
  }
};

inline QueryTile MakeQueryTile(const AttentionPlan& plan, const AttentionCall& call, const PackedMemory& packed,
                               const SoftmaxStats& stats, MatrixTiles* tiles, int64_t b, int64_t group, int64_t block,
                               int64_t index) {
  const int64_t first = block * plan.block + index * plan.rows;
  QueryTile tile{.plan = &plan,
                 .call = &call,
                 .packed = &packed,
                 .b = b,
                 .group = group,
                 .index = index,
                 .first_chunk = 0,
                 .first_query = first,
                 .valid_rows = std::min(plan.rows, plan.shape.n - first),
                 .tiles = tiles};
  const AttentionShape& s = plan.shape;
  if (s.window > 0) {
    tile.first_chunk = std::max<int64_t>(0, block * plan.block + s.m - s.n + 1 - s.window) / kChunk;
  }
  if (stats.L != nullptr) tile.L = stats.L + tile.StatsOffset(0) * plan.m_padded();
  return tile;
}

// The part of an operand of the next chunk that this tile's products should prefetch, `lanes` of the whole.
template <class Lane>
HWY_INLINE const Lane* NextShare(const QueryTile& queries, const Lane* next, int64_t lanes) {
  return next + queries.index * (lanes / queries.plan->tiles);
}

// Each query's P + R_X of a side, [in, out], or of one alone: to `matrix`, one after the other for `use(query)`. Rows
// after the last query take its matrix: their results are not used.
template <class Use>
HWY_INLINE void ForQueryMixings(const QueryTile& queries, MixingSide side, float* matrix, const Use& use) {
  const SideShape& mixes = queries.plan->mixings[side];
  const float* P = mixes.has[kStatic] ? MixingOf(*queries.call, side, kStatic).data() : nullptr;
  const float* R = mixes.has[kPerQuery] ? MixingOf(*queries.call, side, kPerQuery).data() : nullptr;
  if (R == nullptr) AddMatrices(mixes.size(), P, nullptr, matrix);
  for (int64_t q = 0; q < queries.plan->rows; ++q) {
    const int64_t query = queries.Query(std::min(q, queries.valid_rows - 1));
    if (R != nullptr) AddMatrices(mixes.size(), P, R + query * mixes.size(), matrix);
    use(q);
  }
}

// A mixing packed for MixHeads, of registers or tiles.
template <class Terms>
HWY_INLINE void PackMixingOf(const AttentionPlan& plan, int64_t h_in, int64_t h_out, const float* A,
                             const float* factors, int64_t factor_stride, LaneOf<Terms>* packed) {
  if constexpr (InPairs<Terms>) {
    if (plan.mixes_on_tiles) return PackMixingRows<Terms>(h_in, h_out, A, factors, factor_stride, packed);
  }
  PackMixing<Terms>(h_in, h_out, A, factors, factor_stride, packed);
}

// Packed for MixHeads; row `in` times factors[in · rows + query] where they are given.
template <class Terms>
HWY_INLINE void PackQueryMixings(const QueryTile& queries, MixingSide side, const float* factors, float* matrix,
                                 HeadLane<Terms>* packed) {
  const SideShape& mixes = queries.plan->mixings[side];
  const int64_t in = mixes.in, out = mixes.out, size = CeilDivide<int64_t>(in, Terms::kTerms) * out;
  ForQueryMixings(queries, side, matrix, [&](int64_t q) HWY_ATTR {
    PackMixingOf<Terms>(*queries.plan, in, out, matrix, factors == nullptr ? nullptr : factors + q, queries.plan->rows,
                        packed + q * size);
  });
}

// The same of the transposes.
template <class Terms>
HWY_INLINE void PackQueryMixingsTransposed(const QueryTile& queries, MixingSide side, float* matrix, float* transposed,
                                           HeadLane<Terms>* packed) {
  const SideShape& mixes = queries.plan->mixings[side];
  const int64_t in = mixes.in, out = mixes.out, size = CeilDivide<int64_t>(out, Terms::kTerms) * in;
  ForQueryMixings(queries, side, matrix, [&](int64_t q) HWY_ATTR {
    TransposeScaled(in, in, out, matrix, out, 1.0f, transposed, in);
    PackMixingOf<Terms>(*queries.plan, out, in, transposed, nullptr, 0, packed + q * size);
  });
}

// to[out][row] = or += Σ_in A[in, out] · from[in][row] for every row, with each query's matrix. Some rows at a time,
// whose operand stays in the first-level cache for all blocks of output heads.
template <class Terms, Result kResult, class Prefetch = PrefetchNothing>
HWY_INLINE void MixTile(const AttentionPlan& plan, MatrixTiles* tiles, int64_t h_in, int64_t h_out,
                        const PackedMixing& mixing, int64_t first_row, const HeadLane<Terms>* from,
                        ResultLane<Terms, kResult>* to, Prefetch prefetch = {}) {
  const int64_t to_pitch = kResult == Result::kPositionPairs ? plan.position_pitch : plan.pitch;
  if constexpr (InPairs<Terms>) {
    if (plan.mixes_on_tiles) {
      return MixHeadsOnTiles<Terms, kResult>(
          *tiles, plan.rows - first_row, h_in, h_out, In<Terms>(mixing.data) + first_row * mixing.query_stride,
          mixing.query_stride, from + first_row * kChunk, plan.pitch, to + first_row * kColumns<kResult>, to_pitch);
    }
  }
  constexpr int64_t kOperandFloats = 4096;
  const HeadBlocks blocks(h_out, kMixRows);
  const int64_t step = std::max<int64_t>(1, kOperandFloats / (h_in * kChunk));
  for (int64_t q = first_row; q < plan.rows; q += step) {
    MixHeads<Terms, kResult>(blocks, std::min(step, plan.rows - q), h_in,
                             In<Terms>(mixing.data) + q * mixing.query_stride, mixing.query_stride, from + q * kChunk,
                             plan.pitch, to + q * kColumns<kResult>, to_pitch, prefetch);
  }
}

HWY_INLINE void ClearTile(const AttentionPlan& plan, int64_t heads, int64_t first_row, float* tile) {
  for (int64_t k = 0; k < heads; ++k) {
    std::fill_n(tile + k * plan.pitch + first_row * kChunk, (plan.rows - first_row) * kChunk, 0.0f);
  }
}

// One 4-query × 3-head step of MixHeadsPerKey.
template <class Terms, int S>
HWY_INLINE void MixHeadsPerKeyColumns(int64_t h_in, const LaneOf<Terms>* R, int64_t in_stride, int64_t out_stride,
                                      const LaneOf<Terms>* from, float* to, int64_t pitch) {
  const Tag<float> d;
  constexpr int kQueries = 4;
  constexpr int kV = kStepVectors;
  hn::Vec<Tag<float>> sum[kQueries][S][kV];
  CROSSTALK_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    CROSSTALK_UNROLL
    for (int o = 0; o < S; ++o) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) sum[q][o][v] = hn::Load(d, to + o * pitch + q * kChunk + v * kLanes);
    }
  }
  for (int64_t k = 0; k < h_in; ++k) {
    decltype(LoadLanes(R)) r[S][kV];
    CROSSTALK_UNROLL
    for (int o = 0; o < S; ++o) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) r[o][v] = LoadLanes(R + o * out_stride + v * kLanes);
    }
    CROSSTALK_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) {
        const auto x = LoadLanes(from + q * kChunk + v * kLanes);
        CROSSTALK_UNROLL
        for (int o = 0; o < S; ++o) sum[q][o][v] = Terms::MulAdd(x, r[o][v], sum[q][o][v]);
      }
    }
    R += in_stride;
    from += pitch;
  }
  CROSSTALK_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    CROSSTALK_UNROLL
    for (int o = 0; o < S; ++o) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) hn::Store(sum[q][o][v], d, to + o * pitch + q * kChunk + v * kLanes);
    }
  }
}

// to[out][row] += Σ_in R[in, out, position] · from[in][row], lane by lane; element (in, out) of R lies at
// R + in · in_stride + out · out_stride.
template <class Terms>
HWY_NOINLINE inline void MixHeadsPerKey(const AttentionPlan& plan, int64_t h_in, int64_t h_out, const LaneOf<Terms>* R,
                                        int64_t in_stride, int64_t out_stride, int64_t first_row,
                                        const HeadLane<Terms>* from, float* to) {
  constexpr int kHeads = kLanes >= 16 ? 3 : 1;
  for (int64_t j = 0; j < kChunk; j += kStep) {
    int64_t o = 0;
    for (; o + kHeads <= h_out; o += kHeads) {
      for (int64_t q = first_row; q < plan.rows; q += 4) {
        MixHeadsPerKeyColumns<Terms, kHeads>(h_in, R + o * out_stride + j, in_stride, out_stride, from + q * kChunk + j,
                                             to + o * plan.pitch + q * kChunk + j, plan.pitch);
      }
    }
    for (; o < h_out; ++o) {
      for (int64_t q = first_row; q < plan.rows; q += 4) {
        MixHeadsPerKeyColumns<Terms, 1>(h_in, R + o * out_stride + j, in_stride, out_stride, from + q * kChunk + j,
                                        to + o * plan.pitch + q * kChunk + j, plan.pitch);
      }
    }
  }
}

// A chunk's matrices of a side's mixing by position.
template <class Terms>
HWY_INLINE const HeadLane<Terms>* PerPosition(const Lanes<HeadPair>& packed, int64_t chunk, int64_t lanes) {
  return In<Terms>(packed) + chunk * lanes * kChunk;
}

// A side's factors of the tile and a chunk.
HWY_INLINE TileFactors FactorsOf(const QueryTile& queries, MixingSide side, int64_t chunk) {
  const int64_t size = queries.plan->mixings[side].size(kFactors);
  TileFactors factors;
  factors.queries = MixingOf(*queries.call, side, kFactorsPerQuery).data() + queries.Query(0) * size;
  factors.positions = queries.packed->F_M[side] + chunk * size * kChunk;
  factors.last_row = queries.valid_rows - 1;
  factors.h = queries.plan->mixings[side].in;
  return factors;
}

// y[out] = or += x[in] · (P + R_X + R_M + R(F_X) + R(F_M)), a side's sum of mixings.
template <class Terms, Result kResult>
HWY_INLINE void MixSide(const QueryTile& queries, MixingSide side, int64_t chunk, int64_t first_row,
                        const HeadLane<Terms>* x, float* y) {
  const AttentionPlan& plan = *queries.plan;
  const int64_t in = CeilDivide<int64_t>(plan.mixings[side].in, Terms::kTerms), out = plan.mixings[side].out;
  const bool by_position = plan.mixings[side].has[kPerPosition];
  bool accumulate = kResult == Result::kAdd;
  if (queries.mixing[side].data != nullptr) {
    MixTile<Terms, kResult>(plan, queries.tiles, in, out, queries.mixing[side], first_row, x, y);
    accumulate = true;
  } else if (!accumulate && by_position) {
    ClearTile(plan, out, first_row, y);
    accumulate = true;
  }
  if (plan.mixings[side].has_factors()) {
    MixFactors<Terms>(plan, FactorsOf(queries, side, chunk), first_row, accumulate, x, y);
  }
  if (by_position) {
    const auto* R = PerPosition<Terms>(queries.packed->R_M[side], chunk, in * out);
    MixHeadsPerKey<Terms>(plan, in, out, R, out * kChunk, kChunk, first_row, x, y);
  }
}

CROSSTALK_END_TARGET

#endif
