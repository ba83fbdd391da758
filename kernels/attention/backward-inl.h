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

#include "crosstalk/kernels/attention/backward_tile-inl.h"
#include "crosstalk/kernels/attention/pairs-inl.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// The stages of a tile. In bfloat16 what a product reads is in pairs (plan.h), and where weights are mixed W is kept as
// it was before it was normalised.

// J, W, dU, dW, and D_sums += W·dW unless that is null, as it is without weights mixing.
template <class Terms>
HWY_INLINE void RecomputeTile(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  const bool drops = tile.call->dropout_rate > 0, mixes = s.MixesWeights();
  constexpr bool kPairs = InPairs<Terms>;
  float* J = kPairs ? scratch.J_tile : at.J.floats();
  float* W = kPairs && mixes ? scratch.L_tile : at.W.floats();
  float* dU = kPairs && mixes ? scratch.U_tile : at.dU.floats();
  LogitsAgain<Terms>(tile, at, J, W);
  if constexpr (kPairs) {
    if (s.MixesLogits()) PairPositions<Terms>(plan, plan.h_k, first_row, J, at.J.pairs());
    if (mixes) PairExponentials<Terms>(plan, plan.h, first_row, W, tile.row_max, at.W.pairs());
    if (mixes && !drops) {
      ValueGradients<Terms, Result::kPositionPairs>(tile, at, plan.position_pitch, at.dU.pairs());
    }
  }
  if (!kPairs || !mixes) {
    ExponentialsGiven<Terms>(plan.h, plan.rows, first_row, plan.pitch, W, tile.row_max, tile.inv_row_sum);
  }
  if (!kPairs || !mixes || drops) ValueGradients<Terms, Result::kSet>(tile, at, plan.pitch, dU);
  if (drops) DropGradients(tile, at, dU);
  if (!mixes) return;
  if constexpr (kPairs) {
    if (drops) PairPositions<Terms>(plan, plan.h_v, first_row, dU, at.dU.pairs());
    HeadsOfPositions(plan, s.h_v, first_row, at.dU.pairs(), scratch.head_pairs);
    MixSideBack<Terms>(tile, at, kWeights, scratch.head_pairs, scratch.dW_tile);
    PairGradients<Terms>(plan, s.h, first_row, at.W.pairs(), scratch.dW_tile, at.dW.pairs(), D_sums);
  } else {
    MixSideBack<Terms>(tile, at, kWeights, dU, at.dW.floats());
    if (D_sums != nullptr) AddRowProducts(plan.h, plan.rows, first_row, plan.pitch, W, at.dW.floats(), D_sums);
  }
}

// The gradients of a side's mixings y[out] = x[in]·(P + R_X + R_M) from a tile's x and dy, those that are wanted:
// P += Σ x·dy in partial sums; R_X of the tile's queries, in partial sums; R_M of the chunk's positions, summed over
// queries, of which pairs take the place of those of positions: this is their last use.
template <class Terms>
HWY_INLINE void AddMixingGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums,
                                   MixingSide side, PositionLane<Terms>* x, PositionLane<Terms>* dy) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t in = plan.mixings[side].in, out = plan.mixings[side].out, pitch = plan.position_pitch;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row, first = first_row * kRow<Terms>;
  float *P = tile.scratch->P[side], *R_X = tile.R_X[side][kMatrix], *R_M = sums.R_M[side][kMatrix];
  if (P != nullptr && plan.mixes_on_tiles) {
    if constexpr (InPairs<Terms>) {
      HeadMixingGradientOnTiles(*tile.tiles, in, out, rows, x + first, dy + first, pitch, P);
    }
  } else if (P != nullptr) {
    HeadMixingGradientOfRows<Terms>(in, out, rows, x + first, dy + first, pitch, P);
  }
  if (plan.mixings[side].has_factors()) AddFactorGradientsOf<Terms>(tile, at, sums, side, x, dy);
  for (int64_t q = first_row; R_X != nullptr && q < plan.rows; ++q) {
    HeadMixingGradientOfRows<Terms>(in, out, 1, x + q * kRow<Terms>, dy + q * kRow<Terms>, pitch,
                                    R_X + q * in * out * kPartialSums);
  }
  if (R_M == nullptr) return;
  const LaneOf<Terms>*x_queries = x, *dy_queries = dy;
  if constexpr (InPairs<Terms>) {
    x_queries = MakeQueries(plan, in, first_row, x);
    dy_queries = MakeQueries(plan, out, first_row, dy);
  }
  const int64_t lanes = rows / Terms::kTerms;
  R_M += at.chunk * in * out * kChunk;
  for (int j = 0; j < kChunk; j += kPartialSums) {
    HeadMixingGradient<Terms>(in, out, lanes, lanes, x_queries + first + j, dy_queries + first + j, pitch, kChunk,
                              R_M + j, out * kChunk, kChunk);
  }
}

// U, and the gradients of the weights mixing.
template <class Terms>
HWY_INLINE void RecomputeValuesTile(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  const bool drops = tile.call->dropout_rate > 0, by_position = plan.mixings[kWeights].MixesByPosition();
  constexpr bool kPairs = InPairs<Terms>;
  const bool leaves_in_pairs = kPairs && s.MixesWeights() && !by_position && !drops;
  float* U = kPairs ? scratch.U_tile : at.U.floats();
  if (s.MixesWeights() && !leaves_in_pairs) {
    HeadLane<Terms>* W = In<Terms>(at.W);
    if constexpr (kPairs) {
      if (by_position) {
        ScaleHeadPairs<Terms>(plan, s.h, first_row, tile.inv_row_sum, W, scratch.head_pairs);
        W = scratch.head_pairs;
      }
    }
    MixSide<Terms, Result::kSet>(tile, kWeights, at.chunk, first_row, W, U);
  } else if (!s.MixesWeights() && drops) {
    std::copy_n(at.W.floats(), plan.TileFloats(plan.h_v), U);
  }
  if (drops) MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, scratch.dropout, U);
  if constexpr (kPairs) {
    if (leaves_in_pairs) {
      PositionPair* positions = Lanes<PositionPair>(at.U.floats()).pairs();
      MixTile<Terms, Result::kPositionPairs>(plan, tile.tiles, plan.Lanes(s.h), s.h_v, tile.mixing[kWeights], first_row,
                                             at.W.pairs(), positions);
      MakeQueries(plan, s.h_v, first_row, positions);
    } else {
      const bool is_W = !s.MixesWeights() && !drops;
      PairQueries<Terms>(plan, plan.h_v, first_row, is_W ? at.W.floats() : U, at.U.pairs());
    }
    if (!WantsMixingGradients(tile, sums, kWeights)) return;
    ScalePositionsOfHeads<Terms>(plan, s.h, first_row, tile.inv_row_sum, at.W.pairs(), scratch.first_pairs);
    AddMixingGradients<Terms>(tile, at, sums, kWeights, scratch.first_pairs, at.dU.pairs());
  } else {
    AddMixingGradients<Terms>(tile, at, sums, kWeights, at.W.floats(), at.dU.floats());
  }
}

// dL = W·(dW - D), dJ = dL·P_lᵀ, dQ += dJ·K, and the gradients of the logits mixing and the bias.
template <class Terms>
HWY_INLINE void LogitGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  const bool wants_bias = tile.dbias != nullptr || tile.distances != nullptr;
  const bool by_pairs = InPairs<Terms> && s.MixesWeights();
  float* dL = by_pairs ? scratch.dW_tile : at.dW.floats();
  HeadPair* dL_heads = InPairs<Terms> && s.MixesLogits() ? scratch.head_pairs : nullptr;
  if constexpr (InPairs<Terms>) {
    if (by_pairs) {
      SoftmaxGradientOfPairs<Terms>(plan, first_row, at.W.pairs(), tile.inv_row_sum, at.dW.pairs(), tile.D,
                                    scratch.second_pairs, dL_heads, wants_bias ? dL : nullptr);
    }
  }
  if (!by_pairs) SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W.floats(), tile.D, dL);
  if (wants_bias) BiasGradients(tile, at, dL);
  if constexpr (InPairs<Terms>) {
    PositionPair *dL_pairs = scratch.second_pairs, *dJ = dL_pairs;
    if (!by_pairs) PairPositions<Terms>(plan, plan.h, first_row, dL, dL_pairs);
    if (!by_pairs && dL_heads != nullptr) HeadsOfPositions(plan, s.h, first_row, dL_pairs, dL_heads);
    AddMixingGradients<Terms>(tile, at, sums, kLogits, at.J.pairs(), dL_pairs);
    if (s.MixesLogits()) {
      dJ = scratch.first_pairs;
      if (plan.mixings[kLogits].MixesByPosition()) {
        MixSideBack<Terms>(tile, at, kLogits, dL_heads, scratch.J_tile, NextKept<Terms>(tile, at));
        PairPositions<Terms>(plan, s.h_k, first_row, scratch.J_tile, dJ);
      } else {
        MixTile<Terms, Result::kPositionPairs>(plan, tile.tiles, plan.Lanes(s.h), s.h_k, tile.mixing_back[kLogits],
                                               first_row, dL_heads, dJ, NextKept<Terms>(tile, at));
      }
    }
    QueriesOfPositions(plan, plan.h_k, first_row, dJ, at.dJ.pairs());
    AddToQueries<Terms>(tile, at, dJ);
  } else {
    float* dJ = at.dJ.floats();
    if (s.MixesLogits()) MixSideBack<Terms>(tile, at, kLogits, dL, dJ, NextKept<Terms>(tile, at));
    AddMixingGradients<Terms>(tile, at, sums, kLogits, at.J.floats(), dL);
    AddToQueries<Terms>(tile, at, dJ);
  }
}

// sums[head][size][kChunk] += Σ_q A[k, q, size] · T[k, q, kChunk] over the block's queries and the `heads` query heads
// k that read the head, in their order, A[k][block][size] and one tile T for each of `tiles`. Tiles that are whole go
// together, so that the sums are visited once by each reader. `first`: the sums hold nothing yet.
template <class Terms>
HWY_INLINE void AddToMemory(const AttentionPlan& plan, MatrixTiles* matrix_tiles, const MemoryHeads& memory,
                            int64_t heads, int64_t size, const TileExtent* extents, int64_t tiles,
                            const QueryLane<Terms>* A, const QueryLane<Terms>* T, int64_t tile_floats, bool first,
                            float* sums) {
  const int64_t pitch = plan.position_pitch;
  int64_t end;
  for (int64_t t = 0; t < tiles; t = end) {
    end = t + 1;
    if (extents[t].skip) continue;
    const int64_t first_row = extents[t].first_row;
    while (first_row == 0 && end < tiles && !extents[end].skip && extents[end].first_row == 0) ++end;
    for (int64_t k = 0; k < heads; ++k) {
      float* sum = sums + memory.Of(k) * size * kChunk;
      const int64_t rows = (plan.rows - first_row) / Terms::kTerms;
      const auto* a = A + (k * plan.block + t * plan.rows + first_row) / Terms::kTerms * size;
      const auto* b = T + t * tile_floats + k * pitch + first_row / Terms::kTerms * kChunk;
      const float* next = sum + memory.in_group * size * kChunk;
      if (first && memory.PlaceOf(k) == 0) {
        TileTN<Terms, Result::kSet>(matrix_tiles, rows, end - t, tile_floats, size, a, b, sum, next);
      } else {
        TileTN<Terms, Result::kAdd>(matrix_tiles, rows, end - t, tile_floats, size, a, b, sum, next);
      }
    }
    first = false;
  }
  if (first) std::fill_n(sums, memory.in_group * size * kChunk, 0.0f);
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
  const BackwardSizes sizes(plan);
  MatrixTiles* const sums_on = plan.sums_on_tiles ? tile[0].tiles : nullptr;
  TileExtent extents[kMostTiles];
  // A dynamic mixing's sums are added to tile by tile: this task's turn, and zeros for the first one.
  const auto start_mixing_sums = [&](const SumsOfMemory& ordered, MixingSide side, int64_t c) {
    for (const MixingForm form : kMixingForms) {
      float* R = sums.R_M[side][form];
      const int64_t size = plan.mixings[side].size(form) * kChunk;
      if (R == nullptr) continue;
      ordered.order->WaitFor(ordered.first_chunk + c, ordered.turn);
      if (ordered.turn == 0) std::fill_n(R + c * size, size, 0.0f);
    }
  };
  // The first pass: everything up to D. It yields D alone unless rows are kept.
  const auto recompute = [&](int64_t c, bool with_values, bool with_D) HWY_ATTR {
    if (with_values) start_mixing_sums(sums.V, kWeights, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk<Terms>(tile[t], c);
      extents[t] = at.extent;
      if (at.extent.skip) continue;
      RecomputeTile<Terms>(tile[t], at, with_D ? tile[t].D_sums : nullptr);
      if (with_values) RecomputeValuesTile<Terms>(tile[t], at, sums);
    }
    if (!with_values) return;
    const auto* U = In<Terms>(AtChunk<Terms>(tile[0], c).U);
    sums.V.order->WaitFor(sums.V.first_chunk + c, sums.V.turn);
    AddToMemory<Terms>(plan, sums_on, plan.values, plan.h_v, s.d_v, extents, tiles, In<Terms>(scratch.dO_rows), U,
                       sizes.U, sums.V.turn == 0, sums.V.of_chunk_0 + c * plan.values.in_group * s.d_v * kChunk);
    sums.V.order->Done(sums.V.first_chunk + c);
  };
  for (int64_t t = 0; t < tiles; ++t) StartTile<Terms>(tile[t], O, dO, stats);
  if (s.MixesWeights()) {
    for (int64_t c = 0; c < plan.chunks; ++c) recompute(c, plan.keep_rows, true);
    for (int64_t t = 0; t < tiles; ++t) {
      SumLanes(plan.h * plan.rows, tile[t].D_sums, tile[t].D);
      // D_sums are of W before it was normalised
      for (int64_t i = 0; kPairs && i < plan.h * plan.rows; ++i) tile[t].D[i] *= tile[t].inv_row_sum[i];
    }
  }
  for (int64_t c = 0; c < plan.chunks; ++c) {
    if (!plan.keep_rows) recompute(c, true, false);
    start_mixing_sums(sums.K, kLogits, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk<Terms>(tile[t], c);
      extents[t] = at.extent;
      if (!at.extent.skip) LogitGradients<Terms>(tile[t], at, sums);
    }
    sums.K.order->WaitFor(sums.K.first_chunk + c, sums.K.turn);
    AddToMemory<Terms>(plan, sums_on, plan.keys, plan.h_k, s.d_k, extents, tiles, In<Terms>(scratch.Q_rows),
                       In<Terms>(AtChunk<Terms>(tile[0], c).dJ), sizes.J, sums.K.turn == 0,
                       sums.K.of_chunk_0 + c * plan.keys.in_group * s.d_k * kChunk);
    sums.K.order->Done(sums.K.first_chunk + c);
  }
  for (int64_t t = 0; t < tiles; ++t) FinishQueries(tile[t]);
}

CROSSTALK_END_TARGET

#endif
