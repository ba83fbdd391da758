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

// J, W, dU, dW and D_sums as in float; where weights are mixed, W is not normalised.
template <InPairs Terms>
HWY_INLINE void RecomputeTile(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  const BackwardScratch& scratch = *tile.scratch;
  float* L = s.MixesWeights() ? scratch.L_tile : at.W.Of<float>();
  LogitsAgain<Terms>(tile, at, scratch.J_tile, L);
  if (s.MixesLogits()) PairPositions<Terms>(plan, plan.h_k, first_row, scratch.J_tile, at.J.Of<Pair>());
  if (!s.MixesWeights()) {
    float* dU = at.dU.Of<float>();
    RoundedExponentials<Terms>(plan.h, plan.rows, first_row, plan.pitch, L, tile.row_max);
    ScaleRows(plan.h, plan.rows, first_row, plan.pitch, tile.inv_row_sum, L);
    ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, dU);
    if (tile.call->dropout_rate > 0) DropGradients(tile, at, dU);
    return;
  }
  Pair* dU = at.dU.Of<Pair>();
  PairExponentials<Terms>(plan, plan.h, first_row, L, tile.row_max, at.W.Of<Pair>());
  if (tile.call->dropout_rate > 0) {
    ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, scratch.U_tile);
    DropGradients(tile, at, scratch.U_tile);
    PairPositions<Terms>(plan, plan.h_v, first_row, scratch.U_tile, dU);
  } else {
    ValueGradients<Terms, Result::kPositionPairs>(tile, at, plan.half_pitch, dU);
  }
  HeadsOfPositions(plan, s.h_v, first_row, dU, scratch.head_pairs);
  MixSideBack<Terms>(tile, at, kWeights, scratch.head_pairs, scratch.dW_tile);
  PairGradients<Terms>(plan, s.h, first_row, at.W.Of<Pair>(), scratch.dW_tile, at.dW.Of<Pair>(), D_sums);
}

// AddMixingGradients of x and dy in pairs of positions: each lane of a row's pairs is a partial sum's two terms. R_M's
// are of pairs of queries, in place of those of positions, whose last use this is.
template <class Terms>
HWY_INLINE void AddMixingGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums,
                                          MixingSide side, Pair* x, Pair* dy) {
  static_assert(kChunk == 2 * kPartialSums);
  const AttentionPlan& plan = *tile.plan;
  const int64_t in = plan.mixings[side].in, out = plan.mixings[side].out;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row;
  if (tile.scratch->P[side] != nullptr) {
    const int64_t first = first_row * kPartialSums;
    if (plan.mixes_on_tiles) {
      HeadMixingGradientOnTiles(*tile.tiles, in, out, rows, x + first, dy + first, plan.half_pitch,
                                tile.scratch->P[side]);
    } else {
      const int64_t piece = std::min(rows, MixingGradientPiece(in, out, rows));
      HeadMixingGradient<Terms>(in, out, rows, piece, x + first, dy + first, plan.half_pitch, kPartialSums,
                                tile.scratch->P[side], out * kPartialSums, kPartialSums);
    }
  }
  if (plan.mixings[side].has_factors()) AddFactorGradientsOf<Terms>(tile, at, sums, side, x, dy);
  if (tile.R_X[side][kMatrix] != nullptr) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      HeadMixingGradient<Terms>(in, out, 1, 1, x + q * kPartialSums, dy + q * kPartialSums, plan.half_pitch,
                                kPartialSums, tile.R_X[side][kMatrix] + q * in * out * kPartialSums, out * kPartialSums,
                                kPartialSums);
    }
  }
  if (sums.R_M[side][kMatrix] != nullptr) {
    QueriesOfPositions(plan, in, first_row, x, x);
    QueriesOfPositions(plan, out, first_row, dy, dy);
    const int64_t first = first_row / 2 * kChunk;
    float* R = sums.R_M[side][kMatrix] + at.chunk * in * out * kChunk;
    for (int j = 0; j < kChunk; j += kPartialSums) {
      HeadMixingGradient<Terms>(in, out, rows / 2, rows / 2, x + first + j, dy + first + j, plan.half_pitch, kChunk,
                                R + j, out * kChunk, kChunk);
    }
  }
}

// U in pairs of queries, and the gradients of the weights mixing, in bfloat16.
template <InPairs Terms>
HWY_INLINE void RecomputeValuesTile(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  const bool drops = tile.call->dropout_rate > 0;
  float* U = scratch.U_tile;
  Pair *U_pairs = at.U.Of<Pair>(), *W_pairs = at.W.Of<Pair>();  // W of mixed weights
  const bool by_position = plan.mixings[kWeights].MixesByPosition();
  if (s.MixesWeights() && !by_position && !drops) {
    MixTile<Terms, Result::kPositionPairs>(plan, tile.tiles, plan.Lanes(s.h), s.h_v, tile.mixing[kWeights], first_row,
                                           W_pairs, U_pairs);
    QueriesOfPositions(plan, s.h_v, first_row, U_pairs, U_pairs);
  } else {
    if (s.MixesWeights()) {
      const Pair* W = W_pairs;
      if (by_position) {
        ScaleHeadPairs<Terms>(plan, s.h, first_row, tile.inv_row_sum, W_pairs, scratch.head_pairs);
        W = scratch.head_pairs;
      }
      MixSide<Terms, Result::kSet>(tile, kWeights, at.chunk, first_row, W, U);
    } else if (drops) {
      std::copy_n(at.W.Of<float>(), plan.TileFloats(plan.h_v), U);
    } else {
      U = at.W.Of<float>();
    }
    if (drops) MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, scratch.dropout, U);
    PairQueries<Terms>(plan, plan.h_v, first_row, U, U_pairs);
  }
  if (!WantsMixingGradients(tile, sums, kWeights)) return;
  ScalePositionsOfHeads<Terms>(plan, s.h, first_row, tile.inv_row_sum, W_pairs, scratch.first_pairs);
  AddMixingGradientsOfPairs<Terms>(tile, at, sums, kWeights, scratch.first_pairs, at.dU.Of<Pair>());
}

// dJ = dL·P_lᵀ of dL in pairs of heads, in pairs of positions.
template <class Terms>
HWY_INLINE void MixGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, const Pair* dL, Pair* dJ) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  if (!plan.mixings[kLogits].MixesByPosition()) {
    return MixTile<Terms, Result::kPositionPairs>(plan, tile.tiles, plan.Lanes(s.h), s.h_k, tile.mixing_back[kLogits],
                                                  first_row, dL, dJ, NextKept<Terms>(tile, at));
  }
  float* sum = tile.scratch->J_tile;
  MixSideBack<Terms>(tile, at, kLogits, dL, sum, NextKept<Terms>(tile, at));
  PairPositions<Terms>(plan, s.h_k, first_row, sum, dJ);
}

// LogitGradients in bfloat16.
template <InPairs Terms>
HWY_INLINE void LogitGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  const bool wants_bias = tile.dbias != nullptr || tile.distances != nullptr;
  Pair *dL = scratch.second_pairs, *dL_heads = s.MixesLogits() ? scratch.head_pairs : nullptr;
  if (s.MixesWeights()) {
    float* dL_tile = wants_bias ? scratch.dW_tile : nullptr;
    SoftmaxGradientOfPairs<Terms>(plan, first_row, at.W.Of<Pair>(), tile.inv_row_sum, at.dW.Of<Pair>(), tile.D, dL,
                                  dL_heads, dL_tile);
    if (wants_bias) BiasGradients(tile, at, dL_tile);
  } else {
    float* dL_tile = at.dW.Of<float>();
    SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W.Of<float>(), tile.D, dL_tile);
    if (wants_bias) BiasGradients(tile, at, dL_tile);
    PairPositions<Terms>(plan, plan.h, first_row, dL_tile, dL);
    if (dL_heads != nullptr) HeadsOfPositions(plan, s.h, first_row, dL, dL_heads);
  }
  AddMixingGradientsOfPairs<Terms>(tile, at, sums, kLogits, at.J.Of<Pair>(), dL);
  Pair* dJ = dL;
  if (s.MixesLogits()) {
    dJ = scratch.first_pairs;
    MixGradientsOfPairs<Terms>(tile, at, dL_heads, dJ);
  }
  QueriesOfPositions(plan, plan.h_k, first_row, dJ, at.dJ.Of<Pair>());
  AddToQueries<Terms>(tile, at, dJ, plan.half_pitch);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
