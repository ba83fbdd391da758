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
#include "crosstalk/kernels/attention/tiles-inl.h"
#include "crosstalk/runtime/ordered_reduction.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// A tile of a block in the backward pass: its queries, its part of the scratch memory, and where its contributions go.
struct BackwardTile : QueryTile {
  const BackwardScratch* scratch = nullptr;
  const AttentionGradients* out = nullptr;
  float* dbias = nullptr;      // of a dense bias; null where not wanted
  float* distances = nullptr;  // the task's, of a relative position bias; null where not wanted
  float* dO = nullptr;         // packed as Q is
  float* dQ = nullptr;         // [h_k][rows][d_k_padded]
  float *row_max = nullptr, *inv_row_sum = nullptr, *D = nullptr;  // [h][rows]
  float* D_sums = nullptr;                                         // [h][rows][kPartialSums]
  float* R_Xl = nullptr;  // the sums of dR_Xl: [rows][h_k][h][kPartialSums]; null where not wanted, like R_Xw's
  float* R_Xw = nullptr;
  PackedMixing logits_back, weights, weights_back;
};

// Each query's matrix if they differ, else the one that all share.
HWY_INLINE PackedMixing MixingOf(const QueryTile& tile, const float* P, const float* R, const float* shared,
                                 int64_t h_in, int64_t h_out, bool transposed, const BackwardScratch& scratch,
                                 float* all_packed) {
  if (R == nullptr) return {shared, 0};
  float* packed = all_packed + tile.index * tile.plan->rows * h_in * h_out;
  if (transposed) {
    PackQueryMixingsTransposed(tile, h_in, h_out, P, R, scratch.matrix, scratch.matrix_transposed, packed);
  } else {
    PackQueryMixings(tile, h_in, h_out, P, R, nullptr, scratch.matrix, packed);
  }
  return {packed, h_in * h_out};
}

// D[row] = Σ_d O[row, d] · dO[row, d]; dO as PackQueries packs it. The sum goes along d from first to last, as TileNT
// adds up dW: where O is V of one position, or of several that are equal, D is their dW to the last bit.
HWY_NOINLINE inline void RowProducts(int64_t rows, int64_t padded_rows, int64_t size, const float* O, int64_t stride,
                                     const float* dO, float* D) {
  constexpr int kPart = 32;  // of d, transposed at a time
  constexpr int kWidth = HWY_MIN(kLanes, kQueryGroup);
  const hn::CappedTag<float, kWidth> d;
  HWY_ALIGN float transposed[kPart * kQueryGroup];
  for (int64_t q = 0; q < padded_rows; q += kQueryGroup) {
    const int64_t valid = std::clamp<int64_t>(rows - q, 0, kQueryGroup);
    hn::Vec<decltype(d)> sum[kQueryGroup / kWidth];
    for (auto& s : sum) s = hn::Zero(d);
    for (int64_t e = 0; e < size; e += kPart) {
      const int64_t part = std::min<int64_t>(kPart, size - e);
      TransposeScaled<float>(valid, kQueryGroup, part, O + q * stride + e, stride, 1.0f, transposed, kQueryGroup);
      for (int64_t i = 0; i < part; ++i) {
        CROSSTALK_UNROLL
        for (int v = 0; v < kQueryGroup; v += kWidth) {
          const auto gradient = hn::Load(d, dO + q * size + (e + i) * kQueryGroup + v);
          sum[v / kWidth] = hn::MulAdd(gradient, hn::Load(d, transposed + i * kQueryGroup + v), sum[v / kWidth]);
        }
      }
    }
    for (int v = 0; v < kQueryGroup; v += kWidth) hn::Store(sum[v / kWidth], d, D + q + v);
  }
}

HWY_INLINE void StartTile(BackwardTile& tile, const ConstRows& O, const ConstRows& dO, const SoftmaxStats& stats) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const AttentionInputs& in = *tile.in;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t t = tile.index, rows = tile.valid_rows;
  float* Q = scratch.Q + t * plan.h_k * plan.rows * s.d_k;
  tile.Q = Q;
  tile.dO = scratch.dO + t * plan.h_v * plan.rows * s.d_v;
  tile.dQ = scratch.dQ + t * plan.h_k * plan.rows * plan.d_k_padded;
  const int64_t stats_size = plan.h * plan.rows;
  tile.row_max = scratch.row_max + t * stats_size;
  tile.inv_row_sum = scratch.inv_row_sum + t * stats_size;
  tile.D = scratch.D + t * stats_size;
  tile.D_sums = scratch.D_sums + t * stats_size * kPartialSums;
  tile.R_Xl = scratch.R_Xl == nullptr ? nullptr : scratch.R_Xl + t * plan.rows * s.h_k * s.h * kPartialSums;
  tile.R_Xw = scratch.R_Xw == nullptr ? nullptr : scratch.R_Xw + t * plan.rows * s.h * s.h_v * kPartialSums;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const float* head = in.Q.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h_k + k) * s.d_k;
    if (!plan.in_place) PackQueries(rows, plan.rows, s.d_k, head, in.Q.stride, in.scale, Q + k * plan.rows * s.d_k);
    CopyPadded(rows, plan.rows, s.d_k, s.d_k, head, in.Q.stride,
               scratch.Q_rows + (k * plan.block + t * plan.rows) * s.d_k);
  }
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const float* head = dO.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h_v + k) * s.d_v;
    PackQueries(rows, plan.rows, s.d_v, head, dO.stride, 1.0f, tile.dO + k * plan.rows * s.d_v);
    CopyPadded(rows, plan.rows, s.d_v, s.d_v, head, dO.stride,
               scratch.dO_rows + (k * plan.block + t * plan.rows) * s.d_v);
  }
  for (int64_t k = 0; k < plan.h; ++k) {
    float* row_max = tile.row_max + k * plan.rows;
    float* inv_row_sum = tile.inv_row_sum + k * plan.rows;
    std::copy_n(stats.row_max + tile.StatsOffset(k), rows, row_max);
    std::copy_n(stats.inv_row_sum + tile.StatsOffset(k), rows, inv_row_sum);
    std::fill(row_max + rows, row_max + plan.rows, 0.0f);
    std::fill(inv_row_sum + rows, inv_row_sum + plan.rows, 0.0f);
  }
  std::fill_n(tile.dQ, plan.h_k * plan.rows * plan.d_k_padded, 0.0f);
  if (s.MixesWeights()) {
    std::fill_n(tile.D_sums, stats_size * kPartialSums, 0.0f);
  } else {
    // D = Σ_m W·dW = Σ_m U·dU = Σ_d O·dO
    for (int64_t k = 0; k < plan.h; ++k) {
      RowProducts(rows, plan.rows, s.d_v, O.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h + k) * s.d_v,
                  O.stride, tile.dO + k * plan.rows * s.d_v, tile.D + k * plan.rows);
    }
  }
  if (tile.R_Xl != nullptr) std::fill_n(tile.R_Xl, plan.rows * s.h_k * s.h * kPartialSums, 0.0f);
  if (tile.R_Xw != nullptr) std::fill_n(tile.R_Xw, plan.rows * s.h * s.h_v * kPartialSums, 0.0f);
  const float* P_l = s.P_l ? in.P_l : nullptr;
  const float* P_w = s.P_w ? in.P_w : nullptr;
  const float* R_Xl = s.R_Xl ? in.R_Xl : nullptr;
  const float* R_Xw = s.R_Xw ? in.R_Xw : nullptr;
  const PackedMemory& packed = *tile.packed;
  tile.logits = MixingOf(tile, P_l, R_Xl, packed.logits, s.h_k, s.h, false, scratch, scratch.logits);
  tile.logits_back = MixingOf(tile, P_l, R_Xl, packed.logits_back, s.h, s.h_k, true, scratch, scratch.logits_back);
  tile.weights = MixingOf(tile, P_w, R_Xw, packed.weights, s.h, s.h_v, false, scratch, scratch.weights);
  tile.weights_back = MixingOf(tile, P_w, R_Xw, packed.weights_back, s.h_v, s.h, true, scratch, scratch.weights_back);
}

// A tile's buffers for one chunk.
struct ChunkTile {
  int64_t chunk;
  TileExtent extent;
  float *J, *W, *dW;   // dW becomes dL
  float *U, *dU, *dJ;  // where nothing is mixed or dropped, the same as W, dW, dL
};

HWY_INLINE ChunkTile AtChunk(const BackwardTile& tile, int64_t chunk) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t kept = tile.index + (plan.keep_rows ? chunk * plan.tiles : 0);
  ChunkTile at{chunk,
               ExtentOf(tile, chunk),
               scratch.J + kept * plan.TileFloats(plan.h_k),
               scratch.W + kept * plan.TileFloats(plan.h),
               scratch.dW + kept * plan.TileFloats(plan.h),
               nullptr,
               nullptr,
               nullptr};
  at.U = s.MixesWeights() || tile.in->dropout_rate > 0 ? scratch.U + tile.index * plan.TileFloats(plan.h_v) : at.W;
  at.dU = s.MixesWeights() ? scratch.dU : at.dW;
  at.dJ = s.MixesLogits() ? scratch.dJ + tile.index * plan.TileFloats(plan.h_k) : at.dW;
  return at;
}

// The sums of a batch row's and group's memory, from chunk 0 on, and the order in which tasks add to them: to those of
// V and R_Mw in the pass that computes U, to those of K and R_Ml in the pass that computes dJ.
struct MemorySums {
  float *K, *V, *R_Ml, *R_Mw;
  OrderedReduction *K_order, *V_order;
  int64_t first_chunk;  // of K_order and V_order
  int64_t turn;         // this task's; 0: the sums hold nothing yet
};

// J, W, dU, dW.
HWY_INLINE void RecomputeTile(const BackwardTile& tile, const ChunkTile& at) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  LogitsTile(tile, at.chunk, at.extent, at.J, at.W);
  ExponentialsGiven(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.row_max, tile.inv_row_sum);
  const int64_t V_size = s.d_v * kChunk;
  const float* V = tile.packed->V_by_position + MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_v * V_size;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    TileNT<false>(plan.rows - first_row, s.d_v, tile.dO + (k * plan.rows + first_row) * s.d_v, V + k * V_size,
                  at.dU + k * plan.pitch + first_row * kChunk, NextShare(tile, V + (plan.h_v + k) * V_size, V_size),
                  V_size / plan.tiles);
  }
  if (tile.in->dropout_rate > 0) {
    DropoutFactorsTile(tile, at.chunk, first_row, tile.scratch->dropout);
    MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, tile.scratch->dropout, at.dU);
  }
  if (!s.MixesWeights()) return;
  if (tile.weights_back.data != nullptr) {
    MixTile<false>(plan, s.h_v, s.h, tile.weights_back, first_row, at.dU, at.dW);
  } else {
    ClearTile(plan, s.h, first_row, at.dW);
  }
  if (s.R_Mw) {
    const float* R = tile.packed->R_Mw + (tile.b * plan.chunks + at.chunk) * s.h * s.h_v * kChunk;
    MixHeadsPerKey(plan, s.h_v, s.h, R, kChunk, s.h_v * kChunk, first_row, at.dU, at.dW);
  }
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
// sums.
HWY_INLINE void AddMixingGradients(const BackwardTile& tile, const ChunkTile& at, int64_t h_in, int64_t h_out,
                                   const float* x, const float* dy, float* P, float* R_M, float* R_X) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row, first = first_row * kChunk;
  if (P != nullptr) {
    HeadMixingGradient(h_in, h_out, rows * kChunkSteps, MixingGradientPiece(h_in, h_out, rows), x + first, dy + first,
                       plan.pitch, kPartialSums, P, h_out * kPartialSums, kPartialSums);
  }
  if (R_M != nullptr) {
    float* R = R_M + at.chunk * h_in * h_out * kChunk;
    for (int j = 0; j < kChunk; j += kPartialSums) {
      HeadMixingGradient(h_in, h_out, rows, rows, x + first + j, dy + first + j, plan.pitch, kChunk, R + j,
                         h_out * kChunk, kChunk);
    }
  }
  if (R_X != nullptr) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      HeadMixingGradient(h_in, h_out, kChunkSteps, kChunkSteps, x + q * kChunk, dy + q * kChunk, plan.pitch,
                         kPartialSums, R_X + q * h_in * h_out * kPartialSums, h_out * kPartialSums, kPartialSums);
    }
  }
}

// U, and the gradients of the weights mixing.
HWY_INLINE void RecomputeValuesTile(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  if (s.MixesWeights()) {
    if (tile.weights.data != nullptr) {
      MixTile<false>(plan, s.h, s.h_v, tile.weights, first_row, at.W, at.U);
    } else {
      ClearTile(plan, s.h_v, first_row, at.U);
    }
    if (s.R_Mw) {
      const float* R = tile.packed->R_Mw + (tile.b * plan.chunks + at.chunk) * s.h * s.h_v * kChunk;
      MixHeadsPerKey(plan, s.h, s.h_v, R, s.h_v * kChunk, kChunk, first_row, at.W, at.U);
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
HWY_NOINLINE inline void BiasGradients(const BackwardTile& tile, const ChunkTile& at) {
  const Tag<float> d;
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = at.chunk * kChunk;
  for (int64_t k = 0; k < plan.h; ++k) {
    const int64_t head = tile.group * plan.h + k;
    for (int64_t q = at.extent.first_row; q < tile.valid_rows; ++q) {
      const int64_t i = tile.first_query + q;
      const float* dL = at.dW + k * plan.pitch + q * kChunk;
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
HWY_INLINE PrefetchThree NextKept(const BackwardTile& tile, const ChunkTile& at) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t steps = HeadBlocks(plan.h_k, kMixRows).count * plan.rows * (kChunk / kStep) * plan.h;
  const int64_t tiles = plan.keep_rows ? plan.tiles : 0;
  return {{at.W + tiles * plan.TileFloats(plan.h), at.dW + tiles * plan.TileFloats(plan.h),
           at.J + tiles * plan.TileFloats(plan.h_k)},
          std::min<int64_t>(kLine, CeilDivide(plan.TileFloats(plan.h), steps))};
}

// dL = W·(dW - D), dJ = dL·P_lᵀ, dQ += dJ·K, and the gradients of the logits mixing and the bias.
HWY_INLINE void LogitGradients(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row, rows = plan.rows - first_row;
  SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.D, at.dW);
  if (tile.dbias != nullptr || tile.distances != nullptr) BiasGradients(tile, at);
  if (s.MixesLogits()) {
    if (tile.logits_back.data != nullptr) {
      MixTile<false>(plan, s.h, s.h_k, tile.logits_back, first_row, at.dW, at.dJ, NextKept(tile, at));
    } else {
      ClearTile(plan, s.h_k, first_row, at.dJ);
    }
    if (s.R_Ml) {
      const float* R = tile.packed->R_Ml + (tile.b * plan.chunks + at.chunk) * s.h_k * s.h * kChunk;
      MixHeadsPerKey(plan, s.h, s.h_k, R, kChunk, s.h * kChunk, first_row, at.dW, at.dJ);
    }
  }
  AddMixingGradients(tile, at, s.h_k, s.h, at.J, at.dW, tile.scratch->P_l, sums.R_Ml, tile.R_Xl);
  const int64_t K_size = kChunk * plan.d_k_padded;
  const float* K = tile.packed->K_by_size + MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_k * K_size;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    TileNN(rows, plan.d_k_padded, at.dJ + k * plan.pitch + first_row * kChunk, K + k * K_size,
           tile.dQ + (k * plan.rows + first_row) * plan.d_k_padded,
           NextShare(tile, K + (plan.h_k + k) * K_size, K_size), K_size / plan.tiles);
  }
}

// sums[head][size][kChunk] += Σ_q A[head, q, size] · T[head, q, kChunk] over the block's queries, A[head][block][size]
// and one tile T for each of `tiles`. Tiles that are whole go together, so that the sums are visited once. `first`: the
// sums hold nothing yet.
HWY_INLINE void AddToMemory(const AttentionPlan& plan, int64_t heads, int64_t size, const TileExtent* extents,
                            int64_t tiles, const float* A, const float* T, int64_t tile_floats, bool first,
                            float* sums) {
  int64_t end;
  for (int64_t t = 0; t < tiles; t = end) {
    end = t + 1;
    if (extents[t].skip) continue;
    const int64_t first_row = extents[t].first_row;
    while (first_row == 0 && end < tiles && !extents[end].skip && extents[end].first_row == 0) ++end;
    for (int64_t k = 0; k < heads; ++k) {
      float* sum = sums + k * size * kChunk;
      const float* a = A + (k * plan.block + t * plan.rows + first_row) * size;
      const float* b = T + t * tile_floats + k * plan.pitch + first_row * kChunk;
      const float* next = sum + heads * size * kChunk;
      if (first) {
        TileTN<false>(plan.rows - first_row, end - t, tile_floats, size, a, b, sum, next);
      } else {
        TileTN<true>(plan.rows - first_row, end - t, tile_floats, size, a, b, sum, next);
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
HWY_NOINLINE inline void BackwardBlock(BackwardTile* tile, int64_t tiles, const MemorySums& sums, const ConstRows& O,
                                       const ConstRows& dO, const SoftmaxStats& stats) {
  const AttentionPlan& plan = *tile[0].plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile[0].scratch;
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
      const ChunkTile at = AtChunk(tile[t], c);
      extents[t] = at.extent;
      if (at.extent.skip) continue;
      RecomputeTile(tile[t], at);
      if (with_D) AddRowProducts(plan.h, plan.rows, at.extent.first_row, plan.pitch, at.W, at.dW, tile[t].D_sums);
      if (with_values) RecomputeValuesTile(tile[t], at, sums);
    }
    if (!with_values) return;
    const bool own_U = s.MixesWeights() || tile[0].in->dropout_rate > 0;
    const float* U = own_U ? scratch.U : AtChunk(tile[0], c).W;
    sums.V_order->WaitFor(sums.first_chunk + c, sums.turn);
    AddToMemory(plan, plan.h_v, s.d_v, extents, tiles, scratch.dO_rows, U, plan.TileFloats(plan.h_v), sums.turn == 0,
                sums.V + c * plan.h_v * s.d_v * kChunk);
    sums.V_order->Done(sums.first_chunk + c);
  };
  for (int64_t t = 0; t < tiles; ++t) StartTile(tile[t], O, dO, stats);
  if (s.MixesWeights()) {
    for (int64_t c = 0; c < plan.chunks; ++c) recompute(c, plan.keep_rows, true);
    for (int64_t t = 0; t < tiles; ++t) SumLanes(plan.h * plan.rows, tile[t].D_sums, tile[t].D);
  }
  for (int64_t c = 0; c < plan.chunks; ++c) {
    if (!plan.keep_rows) recompute(c, true, false);
    start_mixing_sums(*sums.K_order, sums.R_Ml, s.h_k * s.h, c);
    for (int64_t t = 0; t < tiles; ++t) {
      const ChunkTile at = AtChunk(tile[t], c);
      extents[t] = at.extent;
      if (!at.extent.skip) LogitGradients(tile[t], at, sums);
    }
    sums.K_order->WaitFor(sums.first_chunk + c, sums.turn);
    AddToMemory(plan, plan.h_k, s.d_k, extents, tiles, scratch.Q_rows, AtChunk(tile[0], c).dJ,
                plan.TileFloats(plan.h_k), sums.turn == 0, sums.K + c * plan.h_k * s.d_k * kChunk);
    sums.K_order->Done(sums.first_chunk + c);
  }
  for (int64_t t = 0; t < tiles; ++t) FinishQueries(tile[t]);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
