// Backward, one block of queries at a time, by recomputation from the row stats:
//
//   dU = dO·Vᵀ   dW = dU·P_wᵀ   D = Σ_m W·dW   dL = W·(dW - D)   dJ = dL·P_lᵀ   dQ += dJ·K   dK += dJᵀ·Q   dV += Uᵀ·dO
//
// D needs the whole row. Without weights mixing it is Σ O·dO; else a first pass finds it, and what that pass computed
// is kept in cache for the second (or computed again). Compiled once per target.
#if defined(CROSSTALK_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_BACKWARD_INL_H_
#undef CROSSTALK_ATTENTION_BACKWARD_INL_H_
#else
#define CROSSTALK_ATTENTION_BACKWARD_INL_H_
#endif

#include "crosstalk/kernels/attention/backward_buffers.h"
#include "crosstalk/kernels/attention/backward_tile-inl.h"
#include "crosstalk/kernels/attention/pairs-inl.h"
#include "crosstalk/kernels/attention/tiles-inl.h"
#include "crosstalk/runtime/ordered_reduction.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// dU = dO·Vᵀ, heads `pitch` lanes apart.
template <class Terms, Result kResult>
HWY_INLINE void ValueGradients(const BackwardTile& tile, const ChunkTile& at, int64_t pitch, float* dU) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, depth = plan.Lanes(plan.shape.d_v), V_size = depth * kChunk;
  const float* V = tile.packed->V_by_position + MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_v * V_size;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    TileNT<Terms, kResult>(plan.rows - first_row, depth, tile.dO + (k * plan.rows + first_row) * depth, V + k * V_size,
                           dU + k * pitch + first_row * kColumns<kResult>,
                           NextShare(tile, V + (plan.h_v + k) * V_size, V_size), V_size / plan.tiles);
  }
}

// Dropout's factors, and dU times them.
HWY_INLINE void DropGradients(const BackwardTile& tile, const ChunkTile& at, float* dU) {
  const AttentionPlan& plan = *tile.plan;
  DropoutFactorsTile(tile, at.chunk, at.extent.first_row, tile.scratch->dropout);
  MultiplyTile(plan.h_v, plan.rows, at.extent.first_row, plan.pitch, tile.scratch->dropout, dU);
}

// RecomputeTile in bfloat16.
template <class Terms>
HWY_INLINE void RecomputeTileOfPairs(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  const BackwardScratch& scratch = *tile.scratch;
  float* L = s.MixesWeights() ? scratch.L_tile : at.W;
  if (tile.L != nullptr) {
    TakeLogits(tile, at.chunk, first_row, L);
  } else {
    LogitsTile<Terms>(tile, at.chunk, at.extent, scratch.J_tile, L);
  }
  if (s.MixesLogits()) PairPositions<Terms>(plan, plan.h_k, first_row, scratch.J_tile, at.J);
  if (!s.MixesWeights()) {
    RoundedExponentials<Terms>(plan.h, plan.rows, first_row, plan.pitch, L, tile.row_max);
    ScaleRows(plan.h, plan.rows, first_row, plan.pitch, tile.inv_row_sum, at.W);
    ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, at.dU);
    if (tile.in->dropout_rate > 0) DropGradients(tile, at, at.dU);
    return;
  }
  PairExponentials<Terms>(plan, plan.h, first_row, L, tile.row_max, at.W);
  if (tile.in->dropout_rate > 0) {
    ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, scratch.U_tile);
    DropGradients(tile, at, scratch.U_tile);
    PairPositions<Terms>(plan, plan.h_v, first_row, scratch.U_tile, at.dU);
  } else {
    ValueGradients<Terms, Result::kPositionPairs>(tile, at, plan.half_pitch, at.dU);
  }
  HeadsOfPositions(plan, s.h_v, first_row, at.dU, scratch.head_pairs);
  const int64_t h_in = plan.Lanes(s.h_v);
  if (tile.weights_back.data != nullptr) {
    MixTile<Terms, Result::kSet>(plan, h_in, s.h, tile.weights_back, first_row, scratch.head_pairs, scratch.dW_tile);
  } else {
    ClearTile(plan, s.h, first_row, scratch.dW_tile);
  }
  if (s.R_Mw) {
    const float* R = tile.packed->R_Mw_back + (tile.b * plan.chunks + at.chunk) * h_in * s.h * kChunk;
    MixHeadsPerKey<Terms>(plan, h_in, s.h, R, s.h * kChunk, kChunk, first_row, scratch.head_pairs, scratch.dW_tile);
  }
  PairGradients<Terms>(plan, s.h, first_row, at.W, scratch.dW_tile, at.dW, D_sums);
}

// J, W, dU, dW, and D_sums += W·dW unless that is null, as it is without weights mixing. In bfloat16, where weights are
// mixed, W is not normalised.
template <class Terms>
HWY_INLINE void RecomputeTile(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  if constexpr (Terms::kTerms > 1) return RecomputeTileOfPairs<Terms>(tile, at, D_sums);
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  if (tile.L != nullptr) {
    TakeLogits(tile, at.chunk, first_row, at.W);
  } else {
    LogitsTile<Terms>(tile, at.chunk, at.extent, at.J, at.W);
  }
  ExponentialsGiven(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.row_max, tile.inv_row_sum);
  ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, at.dU);
  if (tile.in->dropout_rate > 0) DropGradients(tile, at, at.dU);
  if (!s.MixesWeights()) return;
  if (tile.weights_back.data != nullptr) {
    MixTile<Terms, Result::kSet>(plan, s.h_v, s.h, tile.weights_back, first_row, at.dU, at.dW);
  } else {
    ClearTile(plan, s.h, first_row, at.dW);
  }
  if (s.R_Mw) {
    const float* R = tile.packed->R_Mw + (tile.b * plan.chunks + at.chunk) * s.h * s.h_v * kChunk;
    MixHeadsPerKey<Terms>(plan, s.h_v, s.h, R, kChunk, s.h_v * kChunk, first_row, at.dU, at.dW);
  }
  if (D_sums != nullptr) AddRowProducts(plan.h, plan.rows, first_row, plan.pitch, at.W, at.dW, D_sums);
}

// The piece of HeadMixingGradient, in steps of kPartialSums: as many rows of both operands as stay in the first-level
// cache, but no fewer than make visiting the sums cheap, each of whose vectors is a visit of its own.
HWY_INLINE int64_t MixingGradientPiece(int64_t a_heads, int64_t b_heads, int64_t rows) {
  constexpr int64_t kOperandFloats = 6144, kLeastRows = int64_t{kQueryGroup} * kSumVectors;
  if (a_heads * b_heads > 32 * 32) return rows * kChunkSteps;
  return std::clamp(kOperandFloats / ((a_heads + b_heads) * kChunk), std::min(kLeastRows, rows), rows) * kChunkSteps;
}

// The gradients of a mixing y[h_out] = x[h_in]·(P + R_X + R_M) from a tile's x and dy, those that are not null:
// P += Σ x·dy in partial sums; R_M of the chunk's positions, summed over queries; R_X of the tile's queries, in partial
// sums. In bfloat16 AddMixingGradientsOfPairs takes its place.
HWY_INLINE void AddMixingGradients(const BackwardTile& tile, const ChunkTile& at, int64_t h_in, int64_t h_out,
                                   const float* x, const float* dy, float* P, float* R_M, float* R_X) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row, first = first_row * kChunk;
  if (P != nullptr) {
    HeadMixingGradient<FloatTerms>(h_in, h_out, rows * kChunkSteps, MixingGradientPiece(h_in, h_out, rows), x + first,
                                   dy + first, plan.pitch, kPartialSums, P, h_out * kPartialSums, kPartialSums);
  }
  if (R_M != nullptr) {
    float* R = R_M + at.chunk * h_in * h_out * kChunk;
    for (int j = 0; j < kChunk; j += kPartialSums) {
      HeadMixingGradient<FloatTerms>(h_in, h_out, rows, rows, x + first + j, dy + first + j, plan.pitch, kChunk, R + j,
                                     h_out * kChunk, kChunk);
    }
  }
  if (R_X != nullptr) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      HeadMixingGradient<FloatTerms>(h_in, h_out, kChunkSteps, kChunkSteps, x + q * kChunk, dy + q * kChunk, plan.pitch,
                                     kPartialSums, R_X + q * h_in * h_out * kPartialSums, h_out * kPartialSums,
                                     kPartialSums);
    }
  }
}

// The same of P and R_X from pairs of positions: each lane of a row's pairs is a partial sum's two terms.
template <class Terms>
HWY_INLINE void AddMixingGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, int64_t h_in, int64_t h_out,
                                          const float* x, const float* dy, float* P, float* R_X) {
  static_assert(kChunk == 2 * kPartialSums);
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row, first = first_row * kPartialSums;
  if (P != nullptr) {
    const int64_t piece = std::min(rows, MixingGradientPiece(h_in, h_out, rows));
    HeadMixingGradient<Terms>(h_in, h_out, rows, piece, x + first, dy + first, plan.half_pitch, kPartialSums, P,
                              h_out * kPartialSums, kPartialSums);
  }
  if (R_X != nullptr) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      HeadMixingGradient<Terms>(h_in, h_out, 1, 1, x + q * kPartialSums, dy + q * kPartialSums, plan.half_pitch,
                                kPartialSums, R_X + q * h_in * h_out * kPartialSums, h_out * kPartialSums,
                                kPartialSums);
    }
  }
}

// And of R_M from pairs of queries.
template <class Terms>
HWY_INLINE void AddPositionGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, int64_t h_in, int64_t h_out,
                                            const float* x, const float* dy, float* R_M) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, pairs = (plan.rows - first_row) / 2, first = first_row / 2 * kChunk;
  float* R = R_M + at.chunk * h_in * h_out * kChunk;
  for (int j = 0; j < kChunk; j += kPartialSums) {
    HeadMixingGradient<Terms>(h_in, h_out, pairs, pairs, x + first + j, dy + first + j, plan.half_pitch, kChunk, R + j,
                              h_out * kChunk, kChunk);
  }
}

// U in pairs of queries, and the gradients of the weights mixing, in bfloat16.
template <class Terms>
HWY_INLINE void RecomputeValuesTileOfPairs(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row, h_in = plan.Lanes(s.h);
  const bool drops = tile.in->dropout_rate > 0;
  float* U = scratch.U_tile;
  if (s.MixesWeights() && !s.R_Mw && !drops) {
    MixTile<Terms, Result::kPositionPairs>(plan, h_in, s.h_v, tile.weights, first_row, at.W, at.U);
    QueriesOfPositions(plan, s.h_v, first_row, at.U, at.U);
  } else {
    if (s.MixesWeights()) {
      const float* W = at.W;
      if (s.R_Mw) {
        ScaleHeadPairs<Terms>(plan, s.h, first_row, tile.inv_row_sum, at.W, scratch.head_pairs);
        W = scratch.head_pairs;
      }
      if (tile.weights.data != nullptr) {
        MixTile<Terms, Result::kSet>(plan, h_in, s.h_v, tile.weights, first_row, W, U);
      } else {
        ClearTile(plan, s.h_v, first_row, U);
      }
      if (s.R_Mw) {
        const float* R = tile.packed->R_Mw + (tile.b * plan.chunks + at.chunk) * h_in * s.h_v * kChunk;
        MixHeadsPerKey<Terms>(plan, h_in, s.h_v, R, s.h_v * kChunk, kChunk, first_row, W, U);
      }
    } else if (drops) {
      std::copy_n(at.W, plan.TileFloats(plan.h_v), U);
    } else {
      U = at.W;
    }
    if (drops) MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, scratch.dropout, U);
    PairQueries<Terms>(plan, plan.h_v, first_row, U, at.U);
  }
  const bool by_positions = scratch.P_w != nullptr || tile.R_Xw != nullptr, by_queries = sums.R_Mw != nullptr;
  if (!by_positions && !by_queries) return;
  ScalePositionsOfHeads<Terms>(plan, s.h, first_row, tile.inv_row_sum, at.W, scratch.first_pairs);
  if (by_positions) {
    AddMixingGradientsOfPairs<Terms>(tile, at, s.h, s.h_v, scratch.first_pairs, at.dU, scratch.P_w, tile.R_Xw);
  }
  if (by_queries) {
    QueriesOfPositions(plan, s.h, first_row, scratch.first_pairs, scratch.first_pairs);
    QueriesOfPositions(plan, s.h_v, first_row, at.dU, at.dU);
    AddPositionGradientsOfPairs<Terms>(tile, at, s.h, s.h_v, scratch.first_pairs, at.dU, sums.R_Mw);
  }
}

// U, and the gradients of the weights mixing.
template <class Terms>
HWY_INLINE void RecomputeValuesTile(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  if constexpr (Terms::kTerms > 1) return RecomputeValuesTileOfPairs<Terms>(tile, at, sums);
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  if (s.MixesWeights()) {
    if (tile.weights.data != nullptr) {
      MixTile<FloatTerms, Result::kSet>(plan, s.h, s.h_v, tile.weights, first_row, at.W, at.U);
    } else {
      ClearTile(plan, s.h_v, first_row, at.U);
    }
    if (s.R_Mw) {
      const float* R = tile.packed->R_Mw + (tile.b * plan.chunks + at.chunk) * s.h * s.h_v * kChunk;
      MixHeadsPerKey<FloatTerms>(plan, s.h, s.h_v, R, s.h_v * kChunk, kChunk, first_row, at.W, at.U);
    }
  } else if (tile.in->dropout_rate > 0) {
    std::copy_n(at.W, plan.TileFloats(plan.h_v), at.U);
  }
  if (tile.in->dropout_rate > 0) {
    MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, tile.scratch->dropout, at.U);
  }
  AddMixingGradients(tile, at, s.h, s.h_v, at.W, at.dU, tile.scratch->P_w, sums.R_Mw, tile.R_Xw);
}

// dbias += dL for a tile.
HWY_NOINLINE inline void BiasGradients(const BackwardTile& tile, const ChunkTile& at, const float* all_dL) {
  const Tag<float> d;
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = at.chunk * kChunk;
  for (int64_t k = 0; k < plan.h; ++k) {
    const int64_t head = tile.group * plan.h + k;
    for (int64_t q = at.extent.first_row; q < tile.valid_rows; ++q) {
      const int64_t i = tile.first_query + q;
      const float* dL = all_dL + k * plan.pitch + q * kChunk;
      if (tile.dbias != nullptr) {
        float* to = tile.dbias + (head * s.n + i) * s.m + first;
        const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
        for (int64_t j = 0; j < valid; ++j) to[j] += dL[j];
      } else {
        const int64_t block_row = tile.index * plan.rows + q;
        float* to = tile.distances + k * plan.BlockDistances() + (first - block_row + plan.block - 1);
        for (int j = 0; j < kChunk; j += kLanes) {
          hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::Load(d, dL + j)), d, to + j);
        }
      }
    }
  }
}

// What the first pass kept of the tile's next chunk, in a cache farther away: for the mixing of dL to ask for while it
// computes.
template <class Terms>
HWY_INLINE PrefetchThree NextKept(const BackwardTile& tile, const ChunkTile& at) {
  const AttentionPlan& plan = *tile.plan;
  const ChunkSizes sizes = ChunkSizes::Of<Terms>(plan);
  const int64_t steps = HeadBlocks(plan.h_k, kMixRows).count * plan.rows * (kChunk / kStep) * plan.Lanes(plan.h);
  const int64_t tiles = plan.keep_rows ? plan.tiles : 0;
  return {{at.W + tiles * sizes.W, at.dW + tiles * sizes.W, at.J + tiles * sizes.J},
          std::min<int64_t>(kLine, CeilDivide(sizes.W, steps))};
}

// dQ += dJ·K of a tile, dJ as TileNN reads it: heads `pitch` apart, rows of `row` lanes.
template <class Terms>
HWY_INLINE void AddToQueries(const BackwardTile& tile, const ChunkTile& at, const float* dJ, int64_t pitch) {
  const AttentionPlan& plan = *tile.plan;
  constexpr int kRow = kChunk / Terms::kTerms;
  const int64_t first_row = at.extent.first_row, K_size = kRow * plan.d_k_padded;
  const float* K = tile.packed->K_by_size + MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_k * K_size;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    TileNN<Terms>(plan.rows - first_row, plan.d_k_padded, dJ + k * pitch + first_row * kRow, K + k * K_size,
                  tile.dQ + (k * plan.rows + first_row) * plan.d_k_padded,
                  NextShare(tile, K + (plan.h_k + k) * K_size, K_size), K_size / plan.tiles);
  }
}

// dJ = dL·P_lᵀ of dL in pairs of heads, in pairs of positions.
template <class Terms>
HWY_INLINE void MixGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, const float* dL, float* dJ) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row, h_in = plan.Lanes(s.h);
  if (!s.R_Ml) {
    return MixTile<Terms, Result::kPositionPairs>(plan, h_in, s.h_k, tile.logits_back, first_row, dL, dJ,
                                                  NextKept<Terms>(tile, at));
  }
  float* sum = tile.scratch->J_tile;
  if (tile.logits_back.data != nullptr) {
    MixTile<Terms, Result::kSet>(plan, h_in, s.h_k, tile.logits_back, first_row, dL, sum, NextKept<Terms>(tile, at));
  } else {
    ClearTile(plan, s.h_k, first_row, sum);
  }
  const float* R = tile.packed->R_Ml_back + (tile.b * plan.chunks + at.chunk) * h_in * s.h_k * kChunk;
  MixHeadsPerKey<Terms>(plan, h_in, s.h_k, R, s.h_k * kChunk, kChunk, first_row, dL, sum);
  PairPositions<Terms>(plan, s.h_k, first_row, sum, dJ);
}

// LogitGradients in bfloat16.
template <class Terms>
HWY_INLINE void LogitGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  const bool wants_bias = tile.dbias != nullptr || tile.distances != nullptr;
  float *dL = scratch.second_pairs, *dL_heads = s.MixesLogits() ? scratch.head_pairs : nullptr;
  if (s.MixesWeights()) {
    float* dL_tile = wants_bias ? scratch.dW_tile : nullptr;
    SoftmaxGradientOfPairs<Terms>(plan, first_row, at.W, tile.inv_row_sum, at.dW, tile.D, dL, dL_heads, dL_tile);
    if (wants_bias) BiasGradients(tile, at, dL_tile);
  } else {
    SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.D, at.dW);
    if (wants_bias) BiasGradients(tile, at, at.dW);
    PairPositions<Terms>(plan, plan.h, first_row, at.dW, dL);
    if (dL_heads != nullptr) HeadsOfPositions(plan, s.h, first_row, dL, dL_heads);
  }
  if (scratch.P_l != nullptr || tile.R_Xl != nullptr) {
    AddMixingGradientsOfPairs<Terms>(tile, at, s.h_k, s.h, at.J, dL, scratch.P_l, tile.R_Xl);
  }
  if (sums.R_Ml != nullptr) {
    QueriesOfPositions(plan, s.h_k, first_row, at.J, at.J);
    QueriesOfPositions(plan, s.h, first_row, dL, dL);
    AddPositionGradientsOfPairs<Terms>(tile, at, s.h_k, s.h, at.J, dL, sums.R_Ml);
  }
  float* dJ = dL;
  if (s.MixesLogits()) {
    dJ = scratch.first_pairs;
    MixGradientsOfPairs<Terms>(tile, at, dL_heads, dJ);
  }
  QueriesOfPositions(plan, plan.h_k, first_row, dJ, at.dJ);
  AddToQueries<Terms>(tile, at, dJ, plan.half_pitch);
}

// dL = W·(dW - D), dJ = dL·P_lᵀ, dQ += dJ·K, and the gradients of the logits mixing and the bias.
template <class Terms>
HWY_INLINE void LogitGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  if constexpr (Terms::kTerms > 1) return LogitGradientsOfPairs<Terms>(tile, at, sums);
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.D, at.dW);
  if (tile.dbias != nullptr || tile.distances != nullptr) BiasGradients(tile, at, at.dW);
  if (s.MixesLogits()) {
    if (tile.logits_back.data != nullptr) {
      MixTile<FloatTerms, Result::kSet>(plan, s.h, s.h_k, tile.logits_back, first_row, at.dW, at.dJ,
                                        NextKept<FloatTerms>(tile, at));
    } else {
      ClearTile(plan, s.h_k, first_row, at.dJ);
    }
    if (s.R_Ml) {
      const float* R = tile.packed->R_Ml + (tile.b * plan.chunks + at.chunk) * s.h_k * s.h * kChunk;
      MixHeadsPerKey<FloatTerms>(plan, s.h, s.h_k, R, kChunk, s.h * kChunk, first_row, at.dW, at.dJ);
    }
  }
  AddMixingGradients(tile, at, s.h_k, s.h, at.J, at.dW, tile.scratch->P_l, sums.R_Ml, tile.R_Xl);
  AddToQueries<FloatTerms>(tile, at, at.dJ, plan.pitch);
}

// sums[head][size][kChunk] += Σ_q A[head, q, size] · T[head, q, kChunk] over the block's queries, A[head][block][size]
// and one tile T for each of `tiles`; in bfloat16 both in pairs of queries. Tiles that are whole go together, so that
// the sums are visited once. `first`: the sums hold nothing yet.
template <class Terms>
HWY_INLINE void AddToMemory(const AttentionPlan& plan, int64_t heads, int64_t size, const TileExtent* extents,
                            int64_t tiles, const float* A, const float* T, int64_t tile_floats, bool first,
                            float* sums) {
  const int64_t pitch = Terms::kTerms == 1 ? plan.pitch : plan.half_pitch;
  int64_t end;
  for (int64_t t = 0; t < tiles; t = end) {
    end = t + 1;
    if (extents[t].skip) continue;
    const int64_t first_row = extents[t].first_row;
    while (first_row == 0 && end < tiles && !extents[end].skip && extents[end].first_row == 0) ++end;
    for (int64_t k = 0; k < heads; ++k) {
      float* sum = sums + k * size * kChunk;
      const int64_t rows = (plan.rows - first_row) / Terms::kTerms;
      const float* a = A + (k * plan.block + t * plan.rows + first_row) / Terms::kTerms * size;
      const float* b = T + t * tile_floats + k * pitch + first_row / Terms::kTerms * kChunk;
      const float* next = sum + heads * size * kChunk;
      if (first) {
        TileTN<Terms, Result::kSet>(rows, end - t, tile_floats, size, a, b, sum, next);
      } else {
        TileTN<Terms, Result::kAdd>(rows, end - t, tile_floats, size, a, b, sum, next);
      }
    }
    first = false;
  }
  if (first) std::fill_n(sums, heads * size * kChunk, 0.0f);
}

HWY_INLINE void FinishQueries(const BackwardTile& tile) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t xl = s.h_k * s.h, xw = s.h * s.h_v;
  for (int64_t q = 0; q < tile.valid_rows; ++q) {
    float* row = tile.out->dQ.data + tile.Query(q) * tile.out->dQ.stride + tile.group * plan.h_k * s.d_k;
    for (int64_t k = 0; k < plan.h_k; ++k) {
      CopyScaled(s.d_k, tile.in->scale, tile.dQ + (k * plan.rows + q) * plan.d_k_padded, row + k * s.d_k);
    }
    if (tile.R_Xl != nullptr) SumLanes(xl, tile.R_Xl + q * xl * kPartialSums, tile.out->dR_Xl + tile.Query(q) * xl);
    if (tile.R_Xw != nullptr) SumLanes(xw, tile.R_Xw + q * xw * kPartialSums, tile.out->dR_Xw + tile.Query(q) * xw);
  }
}

// The tiles of one block, chunk by chunk.
template <class Terms>
HWY_NOINLINE void BackwardBlock(BackwardTile* tile, int64_t tiles, const MemorySums& sums, const ConstRows& O,
                                const ConstRows& dO, const SoftmaxStats& stats) {
  const AttentionPlan& plan = *tile[0].plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile[0].scratch;
  constexpr bool kPairs = Terms::kTerms > 1;
  const ChunkSizes sizes = ChunkSizes::Of<Terms>(plan);
  TileExtent extents[kMostTiles];
  // A dynamic mixing's sums are added to tile by tile: this task's turn, and zeros for the first one.
  const auto start_mixing_sums = [&](const OrderedReduction& order, float* R, int64_t size, int64_t c) {
    if (R == nullptr) return;
    order.WaitFor(sums.first_chunk + c, sums.turn);
    if (sums.turn == 0) std::fill_n(R + c * size * kChunk, size * kChunk, 0.0f);
  };
  // The first pass: everything up to D. Where rows are not kept it yields D alone.
  const auto recompute = [&](int64_t c, bool with_values, bool with_D) HWY_ATTR {
    if (with_values) start_mixing_sums(*sums.V_order, sums.R_Mw, s.h * s.h_v, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk<Terms>(tile[t], c);
      extents[t] = at.extent;
      if (at.extent.skip) continue;
      RecomputeTile<Terms>(tile[t], at, with_D ? tile[t].D_sums : nullptr);
      if (with_values) RecomputeValuesTile<Terms>(tile[t], at, sums);
    }
    if (!with_values) return;
    const float* U = AtChunk<Terms>(tile[0], c).U;
    sums.V_order->WaitFor(sums.first_chunk + c, sums.turn);
    AddToMemory<Terms>(plan, plan.h_v, s.d_v, extents, tiles, scratch.dO_rows, U, sizes.U, sums.turn == 0,
                       sums.V + c * plan.h_v * s.d_v * kChunk);
    sums.V_order->Done(sums.first_chunk + c);
  };
  for (int64_t t = 0; t < tiles; ++t) StartTile<Terms>(tile[t], O, dO, stats);
  if (s.MixesWeights()) {
    for (int64_t c = 0; c < plan.chunks; ++c) recompute(c, plan.keep_rows, true);
    for (int64_t t = 0; t < tiles; ++t) {
      SumLanes(plan.h * plan.rows, tile[t].D_sums, tile[t].D);
      // of W before it was normalised
      for (int64_t i = 0; kPairs && i < plan.h * plan.rows; ++i) tile[t].D[i] *= tile[t].inv_row_sum[i];
    }
  }
  for (int64_t c = 0; c < plan.chunks; ++c) {
    if (!plan.keep_rows) recompute(c, true, false);
    start_mixing_sums(*sums.K_order, sums.R_Ml, s.h_k * s.h, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk<Terms>(tile[t], c);
      extents[t] = at.extent;
      if (!at.extent.skip) LogitGradients<Terms>(tile[t], at, sums);
    }
    sums.K_order->WaitFor(sums.first_chunk + c, sums.turn);
    AddToMemory<Terms>(plan, plan.h_k, s.d_k, extents, tiles, scratch.Q_rows, AtChunk<Terms>(tile[0], c).dJ, sizes.J,
                       sums.turn == 0, sums.K + c * plan.h_k * s.d_k * kChunk);
    sums.K_order->Done(sums.first_chunk + c);
  }
  for (int64_t t = 0; t < tiles; ++t) FinishQueries(tile[t]);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
