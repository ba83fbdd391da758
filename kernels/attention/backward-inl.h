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

#include <algorithm>

#include "crosstalk/kernels/attention/backward_steps-inl.h"
#include "crosstalk/kernels/attention/pairs-inl.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// The stages of a backward tile in bfloat16, as backward-inl.h has them in float: what a product reads is in pairs of
// heads, positions or queries (plan.h).

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

// The stages of a tile in float; backward-inl.h has them in bfloat16. J, W, dU, dW, and D_sums += W·dW unless
// that is null, as it is without weights mixing.
template <InFloat Terms>
HWY_INLINE void RecomputeTile(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  float *W = at.W.Of<float>(), *dU = at.dU.Of<float>();
  LogitsAgain<Terms>(tile, at, at.J.Of<float>(), W);
  ExponentialsGiven(plan.h, plan.rows, first_row, plan.pitch, W, tile.row_max, tile.inv_row_sum);
  ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, dU);
  if (tile.call->dropout_rate > 0) DropGradients(tile, at, dU);
  if (!s.MixesWeights()) return;
  MixSideBack<Terms>(tile, at, kWeights, dU, at.dW.Of<float>());
  if (D_sums != nullptr) AddRowProducts(plan.h, plan.rows, first_row, plan.pitch, W, at.dW.Of<float>(), D_sums);
}

// The gradients of a side's mixings y[out] = x[in]·(P + R_X + R_M) from a tile's x and dy, those that are wanted:
// P += Σ x·dy in partial sums; R_M of the chunk's positions, summed over queries; R_X of the tile's queries, in partial
// sums. In bfloat16 AddMixingGradientsOfPairs takes its place.
HWY_INLINE void AddMixingGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums,
                                   MixingSide side, const float* x, const float* dy) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t in = plan.mixings[side].in, out = plan.mixings[side].out;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row, first = first_row * kChunk;
  if (tile.scratch->P[side] != nullptr) {
    HeadMixingGradient<FloatTerms>(in, out, rows * kChunkSteps, MixingGradientPiece(in, out, rows), x + first,
                                   dy + first, plan.pitch, kPartialSums, tile.scratch->P[side], out * kPartialSums,
                                   kPartialSums);
  }
  if (plan.mixings[side].has_factors()) AddFactorGradientsOf<FloatTerms>(tile, at, sums, side, x, dy);
  if (sums.R_M[side][kMatrix] != nullptr) {
    float* R = sums.R_M[side][kMatrix] + at.chunk * in * out * kChunk;
    for (int j = 0; j < kChunk; j += kPartialSums) {
      HeadMixingGradient<FloatTerms>(in, out, rows, rows, x + first + j, dy + first + j, plan.pitch, kChunk, R + j,
                                     out * kChunk, kChunk);
    }
  }
  if (tile.R_X[side][kMatrix] != nullptr) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      HeadMixingGradient<FloatTerms>(in, out, kChunkSteps, kChunkSteps, x + q * kChunk, dy + q * kChunk, plan.pitch,
                                     kPartialSums, tile.R_X[side][kMatrix] + q * in * out * kPartialSums,
                                     out * kPartialSums, kPartialSums);
    }
  }
}

// U, and the gradients of the weights mixing.
template <InFloat Terms>
HWY_INLINE void RecomputeValuesTile(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  float *W = at.W.Of<float>(), *U = at.U.Of<float>();
  if (s.MixesWeights()) {
    MixSide<FloatTerms, Result::kSet>(tile, kWeights, at.chunk, first_row, W, U);
  } else if (tile.call->dropout_rate > 0) {
    std::copy_n(W, plan.TileFloats(plan.h_v), U);
  }
  if (tile.call->dropout_rate > 0) {
    MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, tile.scratch->dropout, U);
  }
  AddMixingGradients(tile, at, sums, kWeights, W, at.dU.Of<float>());
}

// dL = W·(dW - D), dJ = dL·P_lᵀ, dQ += dJ·K, and the gradients of the logits mixing and the bias.
template <InFloat Terms>
HWY_INLINE void LogitGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  float *dW = at.dW.Of<float>(), *dJ = at.dJ.Of<float>();
  SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W.Of<float>(), tile.D, dW);
  if (tile.dbias != nullptr || tile.distances != nullptr) BiasGradients(tile, at, dW);
  if (s.MixesLogits()) MixSideBack<FloatTerms>(tile, at, kLogits, dW, dJ, NextKept<FloatTerms>(tile, at));
  AddMixingGradients(tile, at, sums, kLogits, at.J.Of<float>(), dW);
  AddToQueries<FloatTerms>(tile, at, dJ, plan.pitch);
}

// sums[head][size][kChunk] += Σ_q A[head, q, size] · T[head, q, kChunk] over the block's queries, A[head][block][size]
// and one tile T for each of `tiles`; in bfloat16 both in pairs of queries. Tiles that are whole go together, so that
// the sums are visited once. `first`: the sums hold nothing yet.
template <class Terms>
HWY_INLINE void AddToMemory(const AttentionPlan& plan, MatrixTiles* matrix_tiles, int64_t heads, int64_t size,
                            const TileExtent* extents, int64_t tiles, const LaneOf<Terms>* A, const LaneOf<Terms>* T,
                            int64_t tile_floats, bool first, float* sums) {
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
      const auto* a = A + (k * plan.block + t * plan.rows + first_row) / Terms::kTerms * size;
      const auto* b = T + t * tile_floats + k * pitch + first_row / Terms::kTerms * kChunk;
      const float* next = sum + heads * size * kChunk;
      if (first) {
        TileTN<Terms, Result::kSet>(matrix_tiles, rows, end - t, tile_floats, size, a, b, sum, next);
      } else {
        TileTN<Terms, Result::kAdd>(matrix_tiles, rows, end - t, tile_floats, size, a, b, sum, next);
      }
    }
    first = false;
  }
  if (first) std::fill_n(sums, heads * size * kChunk, 0.0f);
}

HWY_INLINE void FinishQueries(const BackwardTile& tile) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  for (int64_t q = 0; q < tile.valid_rows; ++q) {
    float* row = tile.out->Q.data + tile.Query(q) * tile.out->Q.stride + tile.group * plan.h_k * s.d_k;
    for (int64_t k = 0; k < plan.h_k; ++k) {
      CopyScaled(s.d_k, static_cast<float>(tile.call->scale), tile.dQ + (k * plan.rows + q) * plan.d_k_padded,
                 row + k * s.d_k);
    }
    for (const MixingSide side : kMixingSides) {
      for (const MixingForm form : kMixingForms) {
        const int64_t size = plan.mixings[side].size(form);
        if (tile.R_X[side][form] == nullptr) continue;
        SumLanes(size, tile.R_X[side][form] + q * size * kPartialSums,
                 MixingOf(*tile.out, side, kByQuery[form]).data + tile.Query(q) * size);
      }
    }
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
  MatrixTiles* const sums_on = plan.sums_on_tiles ? tile[0].tiles : nullptr;
  TileExtent extents[kMostTiles];
  // A dynamic mixing's sums are added to tile by tile: this task's turn, and zeros for the first one.
  const auto start_mixing_sums = [&](const OrderedReduction& order, MixingSide side, int64_t c) {
    for (const MixingForm form : kMixingForms) {
      float* R = sums.R_M[side][form];
      const int64_t size = plan.mixings[side].size(form) * kChunk;
      if (R == nullptr) continue;
      order.WaitFor(sums.first_chunk + c, sums.turn);
      if (sums.turn == 0) std::fill_n(R + c * size, size, 0.0f);
    }
  };
  // The first pass: everything up to D. Where rows are not kept it yields D alone.
  const auto recompute = [&](int64_t c, bool with_values, bool with_D) HWY_ATTR {
    if (with_values) start_mixing_sums(*sums.V_order, kWeights, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk<Terms>(tile[t], c);
      extents[t] = at.extent;
      if (at.extent.skip) continue;
      RecomputeTile<Terms>(tile[t], at, with_D ? tile[t].D_sums : nullptr);
      if (with_values) RecomputeValuesTile<Terms>(tile[t], at, sums);
    }
    if (!with_values) return;
    const auto* U = AtChunk<Terms>(tile[0], c).U.template Of<const LaneOf<Terms>>();
    sums.V_order->WaitFor(sums.first_chunk + c, sums.turn);
    AddToMemory<Terms>(plan, sums_on, plan.h_v, s.d_v, extents, tiles,
                       scratch.dO_rows.template Of<const LaneOf<Terms>>(), U, sizes.U, sums.turn == 0,
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
    start_mixing_sums(*sums.K_order, kLogits, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk<Terms>(tile[t], c);
      extents[t] = at.extent;
      if (!at.extent.skip) LogitGradients<Terms>(tile[t], at, sums);
    }
    sums.K_order->WaitFor(sums.first_chunk + c, sums.turn);
    AddToMemory<Terms>(plan, sums_on, plan.h_k, s.d_k, extents, tiles,
                       scratch.Q_rows.template Of<const LaneOf<Terms>>(),
                       AtChunk<Terms>(tile[0], c).dJ.template Of<const LaneOf<Terms>>(), sizes.J, sums.turn == 0,
                       sums.K + c * plan.h_k * s.d_k * kChunk);
    sums.K_order->Done(sums.first_chunk + c);
  }
  for (int64_t t = 0; t < tiles; ++t) FinishQueries(tile[t]);
}

CROSSTALK_END_TARGET

#endif
