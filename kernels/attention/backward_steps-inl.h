// Steps of a backward tile that are the same in float and in bfloat16. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_BACKWARD_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_BACKWARD_STEPS_INL_H_
#undef CROSSTALK_ATTENTION_BACKWARD_STEPS_INL_H_
#else
#define CROSSTALK_ATTENTION_BACKWARD_STEPS_INL_H_
#endif

#include <algorithm>

#include "crosstalk/kernels/attention/backward_tile-inl.h"
#include "crosstalk/kernels/attention/logits-inl.h"

CROSSTALK_BEGIN_TARGET

// L as forward had it: from where it is kept, or computed again, and J with it.
template <class Terms>
HWY_INLINE void LogitsAgain(const BackwardTile& tile, const ChunkTile& at, float* J, float* L) {
  if (tile.L != nullptr) {
    TakeLogits(tile, at.chunk, at.extent.first_row, L);
  } else {
    LogitsTile<Terms>(tile, at.chunk, at.extent, J, L);
  }
}

// dU = dO·Vᵀ, heads `pitch` lanes apart.
template <class Terms, Result kResult>
HWY_INLINE void ValueGradients(const BackwardTile& tile, const ChunkTile& at, int64_t pitch,
                               ResultLane<Terms, kResult>* dU) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, depth = plan.Lanes(plan.shape.d_v), V_size = depth * kChunk;
  const auto* V = tile.packed->V_by_position.template Of<const LaneOf<Terms>>() +
                  MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_v * V_size;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    TileNT<Terms, kResult>(tile.tiles, plan.rows - first_row, depth,
                           tile.dO.template Of<const LaneOf<Terms>>() + (k * plan.rows + first_row) * depth,
                           V + k * V_size, dU + k * pitch + first_row * kColumns<kResult>,
                           NextShare(tile, V + (plan.h_v + k) * V_size, V_size), V_size / plan.tiles);
  }
}

// Dropout's factors, and dU times them.
HWY_INLINE void DropGradients(const BackwardTile& tile, const ChunkTile& at, float* dU) {
  const AttentionPlan& plan = *tile.plan;
  DropoutFactorsTile(tile, at.chunk, at.extent.first_row, tile.scratch->dropout);
  MultiplyTile(plan.h_v, plan.rows, at.extent.first_row, plan.pitch, tile.scratch->dropout, dU);
}

// The piece of HeadMixingGradient, in steps of kPartialSums: as many rows of both operands as stay in the first-level
// cache, but no fewer than make visiting the sums cheap, each of whose vectors is a visit of its own.
HWY_INLINE int64_t MixingGradientPiece(int64_t a_heads, int64_t b_heads, int64_t rows) {
  constexpr int64_t kOperandFloats = 6144, kLeastRows = int64_t{kQueryGroup} * kSumVectors;
  if (a_heads * b_heads > 32 * 32) return rows * kChunkSteps;
  return std::clamp(kOperandFloats / ((a_heads + b_heads) * kChunk), std::min(kLeastRows, rows), rows) * kChunkSteps;
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

// The first pass's rows of the tile's next chunk, in a cache farther away: for the mixing of dL to ask for while it
// computes.
template <class Terms>
HWY_INLINE PrefetchThree NextKept(const BackwardTile& tile, const ChunkTile& at) {
  const AttentionPlan& plan = *tile.plan;
  const ChunkSizes sizes = ChunkSizes::Of<Terms>(plan);
  const int64_t steps = HeadBlocks(plan.h_k, kMixRows).count * plan.rows * (kChunk / kStep) * plan.Lanes(plan.h);
  const int64_t tiles = plan.keep_rows ? plan.tiles : 0;
  const auto next = [&](const Lanes& kept, int64_t size) { return kept.Of<const float>() + tiles * size; };
  return {{next(at.W, sizes.W), next(at.dW, sizes.W), next(at.J, sizes.J)},
          std::min<int64_t>(kLine, CeilDivide(sizes.W, steps))};
}

// dx[in] = dy[out] · (P + R_X + R_M + R(F_X) + R(F_M))ᵀ, what MixSide inverts. Pairs of dy are of heads.
template <class Terms, class Prefetch = PrefetchNothing>
HWY_INLINE void MixSideBack(const BackwardTile& tile, const ChunkTile& at, MixingSide side, const LaneOf<Terms>* dy,
                            float* dx, Prefetch prefetch = {}) {
  const AttentionPlan& plan = *tile.plan;
  const SideShape& mixes = plan.mixings[side];
  const int64_t first_row = at.extent.first_row, out = plan.Lanes(mixes.out);
  const bool matrices = tile.mixing_back[side].data != nullptr;
  if (matrices) {
    MixTile<Terms, Result::kSet>(plan, tile.tiles, out, mixes.in, tile.mixing_back[side], first_row, dy, dx, prefetch);
  } else if (mixes.has[kPerPosition]) {
    ClearTile(plan, mixes.in, first_row, dx);
  }
  if (mixes.has_factors()) {
    TileFactors factors = FactorsOf(tile, side, at.chunk);
    std::swap(factors.first, factors.second);
    MixFactors<Terms>(plan, factors, first_row, matrices || mixes.has[kPerPosition], dy, dx);
  }
  if (!mixes.has[kPerPosition]) return;
  if constexpr (Terms::kTerms == 1) {
    const auto* R = PerPosition<float>(tile, tile.packed->R_M, side, at.chunk, mixes.size());
    MixHeadsPerKey<Terms>(plan, out, mixes.in, R, kChunk, mixes.out * kChunk, first_row, dy, dx);
  } else {
    const auto* R = PerPosition<Pair>(tile, tile.packed->R_M_back, side, at.chunk, out * mixes.in);
    MixHeadsPerKey<Terms>(plan, out, mixes.in, R, mixes.in * kChunk, kChunk, first_row, dy, dx);
  }
}

// Whether a side has a mixing whose gradient is wanted.
HWY_INLINE bool WantsMixingGradients(const BackwardTile& tile, const MemorySums& sums, MixingSide side) {
  bool wants = tile.scratch->P[side] != nullptr;
  for (const MixingForm form : kMixingForms) {
    wants |= tile.R_X[side][form] != nullptr || sums.R_M[side][form] != nullptr;
  }
  return wants;
}

// The gradients of a side's factors from a tile's x and dy, in float or in pairs of positions.
template <class Terms>
HWY_INLINE void AddFactorGradientsOf(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums,
                                     MixingSide side, const LaneOf<Terms>* x, const LaneOf<Terms>* dy) {
  const int64_t size = tile.plan->mixings[side].size(kFactors) * kChunk;
  float *of_queries = tile.R_X[side][kFactors], *of_positions = sums.R_M[side][kFactors];
  if (of_positions != nullptr) of_positions += at.chunk * size;
  if (of_queries == nullptr && of_positions == nullptr) return;
  AddFactorGradients<Terms>(*tile.plan, FactorsOf(tile, side, at.chunk), at.extent.first_row, x, dy, of_queries,
                            of_positions);
}

// dQ += dJ·K of a tile, dJ as TileNN reads it: heads `pitch` apart, rows of `row` lanes.
template <class Terms>
HWY_INLINE void AddToQueries(const BackwardTile& tile, const ChunkTile& at, const LaneOf<Terms>* dJ, int64_t pitch) {
  const AttentionPlan& plan = *tile.plan;
  constexpr int kRow = kChunk / Terms::kTerms;
  const int64_t first_row = at.extent.first_row, K_size = kRow * plan.d_k_padded;
  const auto* K = tile.packed->K_by_size.template Of<const LaneOf<Terms>>() +
                  MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_k * K_size;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    TileNN<Terms>(tile.tiles, plan.rows - first_row, plan.d_k_padded, dJ + k * pitch + first_row * kRow, K + k * K_size,
                  tile.dQ + (k * plan.rows + first_row) * plan.d_k_padded,
                  NextShare(tile, K + (plan.h_k + k) * K_size, K_size), K_size / plan.tiles);
  }
}

CROSSTALK_END_TARGET

#endif
