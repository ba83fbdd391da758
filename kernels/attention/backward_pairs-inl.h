// The stages of a backward tile in bfloat16, as backward-inl.h has them in float: what a product reads is in pairs of
// heads, positions or queries (plan.h). Compiled once per target.
#if defined(CROSSTALK_ATTENTION_BACKWARD_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_BACKWARD_PAIRS_INL_H_
#undef CROSSTALK_ATTENTION_BACKWARD_PAIRS_INL_H_
#else
#define CROSSTALK_ATTENTION_BACKWARD_PAIRS_INL_H_
#endif

#include <algorithm>

#include "crosstalk/kernels/attention/backward_steps-inl.h"
#include "crosstalk/kernels/attention/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// RecomputeTile in bfloat16.
template <class Terms>
HWY_INLINE void RecomputeTileOfPairs(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  const BackwardScratch& scratch = *tile.scratch;
  float* L = s.MixesWeights() ? scratch.L_tile : at.W;
  LogitsAgain<Terms>(tile, at, scratch.J_tile, L);
  if (s.MixesLogits()) PairPositions<Terms>(plan, plan.h_k, first_row, scratch.J_tile, at.J);
  if (!s.MixesWeights()) {
    RoundedExponentials<Terms>(plan.h, plan.rows, first_row, plan.pitch, L, tile.row_max);
    ScaleRows(plan.h, plan.rows, first_row, plan.pitch, tile.inv_row_sum, at.W);
    ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, at.dU);
    if (tile.call->dropout_rate > 0) DropGradients(tile, at, at.dU);
    return;
  }
  PairExponentials<Terms>(plan, plan.h, first_row, L, tile.row_max, at.W);
  if (tile.call->dropout_rate > 0) {
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

// AddMixingGradients of P and R_X from pairs of positions: each lane of a row's pairs is a partial sum's two terms.
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

// The same of R_M from pairs of queries.
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
  const bool drops = tile.call->dropout_rate > 0;
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
    QueriesOfPositions(plan, s.h_v, first_row, at.dU, at.dU);  // the last use of dU, as of J below
    AddPositionGradientsOfPairs<Terms>(tile, at, s.h, s.h_v, scratch.first_pairs, at.dU, sums.R_Mw);
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

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
