// Forward, one block of queries at a time. With weights mixing the memory is passed twice: first the weights of the
// whole rows, which stay in cache (or are computed again), then U and O, once the normalisers of all heads are known.
// Without it one pass is enough. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_FORWARD_INL_H_
#undef CROSSTALK_ATTENTION_FORWARD_INL_H_
#else
#define CROSSTALK_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "crosstalk/kernels/attention/logits-inl.h"
#include "crosstalk/kernels/attention/pairs-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/strip-inl.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// Forward with convolutions, one strip of queries at a time (workspace.h): J and conv(J) head by head, L and W row
// by row, conv(W) head by head, U row by row, O head by head.

template <class Terms>
HWY_NOINLINE void ForwardStrip(const ForwardPass& pass, const PackedMemory& packed, const StripScratch& scratch,
                               int64_t b, int64_t group, int64_t block) {
  const AttentionPlan& plan = pass.plan;
  const AttentionShape& s = plan.shape;
  const Strip strip = MakeStrip(plan, pass.call, packed, scratch, AttentionPass::kForward, b, group, block);
  ConvolvedLogits<Terms>(strip, false, scratch.J, scratch.W);
  WeightsOfStrip(strip, scratch.W, scratch.W, [&](int64_t query, int64_t k, const float* L) HWY_ATTR {
    const float row_max = LargestOf(strip.columns, L), sum = SumOfExponentials(strip.columns, L, row_max);
    const float inv_row_sum = sum == 0.0f ? 0.0f : 1.0f / sum;  // NaN stays NaN
    if (query >= strip.first) {
      pass.stats.row_max[strip.StatsOffset(k, query)] = row_max;
      pass.stats.inv_row_sum[strip.StatsOffset(k, query)] = inv_row_sum;
    }
    return std::pair(row_max, inv_row_sum);
  });
  ConvolvedWeights(strip, scratch.W, scratch.U);
  for (int64_t q = 0; q < strip.valid; ++q) ValuesOfRow(strip, q, scratch.U);
  const int64_t V_size = kChunk / Terms::kTerms * plan.d_v_padded;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const int64_t tile = TileReadBy(plan, plan.values, group, k, 0);
    MultiplyRows<Terms>(strip, plan.d_v_padded, strip.At(scratch.U, k, 0), In<Terms>(packed.V_by_size) + tile * V_size,
                        plan.values.in_group * V_size);
    for (int64_t q = 0; q < strip.valid; ++q) {
      float* row = pass.O.data + (b * s.n + strip.first + q) * pass.O.stride + (group * plan.h_v + k) * s.d_v;
      std::copy_n(scratch.product + q * plan.d_v_padded, s.d_v, row);
    }
  }
}

// One tile of a block: its queries and its part of the scratch memory.
struct ForwardTile : QueryTile {
  float* O = nullptr;        // [h_v][rows][d_v_padded]
  float* row_max = nullptr;  // [h][rows], like inv_row_sum
  float* inv_row_sum = nullptr;
  float* sums = nullptr;  // [h][rows][kPartialSums]
};

template <class Terms>
HWY_INLINE ForwardTile StartTile(const AttentionPlan& plan, const AttentionCall& call, const PackedMemory& packed,
                                 const ForwardScratch& scratch, const SoftmaxStats& stats, MatrixTiles* tiles,
                                 int64_t b, int64_t group, int64_t block, int64_t index) {
  const AttentionShape& s = plan.shape;
  ForwardTile tile{MakeQueryTile(plan, call, packed, stats, tiles, b, group, block, index)};
  const int64_t Q_size = plan.rows * plan.Lanes(s.d_k), O_size = plan.h_v * plan.rows * plan.d_v_padded;
  const Lanes<SizePair> Q = scratch.Q + index * plan.h_k * Q_size;
  for (int64_t k = 0; k < plan.h_k && !plan.in_place; ++k) {
    PackQueries<Terms>(plan.on_tiles, tile.valid_rows, plan.rows, s.d_k,
                       call.Q.From(b, tile.first_query, s.n) + (group * plan.h_k + k) * s.d_k,
                       static_cast<float>(call.scale), In<Terms>(Q) + k * Q_size);
  }
  tile.Q = Q;
  const SideShape& mixes = plan.mixings[kLogits];
  if (mixes.PacksEachTile()) {
    const Lanes<HeadPair> logits = scratch.mixing[kLogits] + index * plan.rows * mixes.size();
    PackQueryMixings<FloatTerms>(tile, kLogits, nullptr, scratch.matrix, logits.floats());
    tile.mixing[kLogits] = {logits, mixes.size()};
  } else if (mixes.has[kStatic]) {
    tile.mixing[kLogits] = {packed.P[kLogits], 0};
  }
  const int64_t head_rows = plan.h * plan.rows;
  tile.O = scratch.O + index * O_size;
  tile.row_max = scratch.row_max + index * head_rows;
  tile.inv_row_sum = scratch.inv_row_sum + index * head_rows;
  tile.sums = scratch.sums + index * head_rows * kPartialSums;
  std::fill_n(tile.row_max, head_rows, kNoRowMax);
  std::fill_n(tile.sums, head_rows * kPartialSums, 0.0f);
  std::fill_n(tile.O, O_size, 0.0f);
  return tile;
}

// O += U · V for one chunk.
template <class Terms>
HWY_INLINE void AddProducts(const ForwardTile& tile, int64_t chunk, const TileExtent& extent,
                            const PositionLane<Terms>* U) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t V_size = kRow<Terms> * plan.d_v_padded, pitch = plan.position_pitch;
  const auto* all_V = In<Terms>(tile.packed->V_by_size);
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const auto* V = all_V + TileReadBy(plan, plan.values, tile.group, k, chunk) * V_size;
    TileNN<Terms>(tile.tiles, plan.rows - extent.first_row, plan.d_v_padded,
                  U + k * pitch + extent.first_row * kRow<Terms>, V,
                  tile.O + (k * plan.rows + extent.first_row) * plan.d_v_padded,
                  NextShare(tile, V + plan.values.in_group * V_size, V_size), V_size / plan.tiles);
  }
}

// O += U · V for one chunk, U with dropout.
template <class Terms>
HWY_INLINE void AddValues(const ForwardTile& tile, const ForwardScratch& scratch, int64_t chunk,
                          const TileExtent& extent, float* U) {
  const AttentionPlan& plan = *tile.plan;
  if (tile.call->dropout_rate > 0) {
    DropoutFactorsTile(tile, chunk, extent.first_row, scratch.dropout);
    MultiplyTile(plan.h_v, plan.rows, extent.first_row, plan.pitch, scratch.dropout, U);
  }
  if (plan.in_place) {
    AddValuesInPlace(tile, chunk, U, tile.O);
  } else if constexpr (Terms::kTerms > 1) {
    PairPositions<Terms>(plan, plan.h_v, extent.first_row, U, scratch.U_pairs);
    AddProducts<Terms>(tile, chunk, extent, scratch.U_pairs);
  } else {
    AddProducts<Terms>(tile, chunk, extent, U);
  }
}

// W of one chunk, not yet normalised, and the running sums. Without weights mixing W goes into O at once.
template <class Terms>
HWY_INLINE void FirstPass(const ForwardTile& tile, const ForwardScratch& scratch, int64_t chunk) {
  const AttentionPlan& plan = *tile.plan;
  const bool mixes = plan.shape.MixesWeights();
  const TileExtent extent = ExtentOf(tile, chunk);
  if (extent.skip) return;
  const int64_t floats = plan.HeadLanes(plan.h);
  HeadLane<Terms>* first_W = In<Terms>(scratch.W) + (plan.keep_rows ? tile.index * floats : 0);
  const int64_t kept = chunk - tile.first_chunk;
  HeadLane<Terms>* W = first_W + (plan.keep_rows ? kept * plan.tiles * floats : 0);
  float* L = scratch.L;
  if constexpr (Terms::kTerms == 1) L = W;
  LogitsTile<Terms>(tile, chunk, extent, scratch.J, L);
  if (tile.L != nullptr) KeepLogits(tile, chunk, extent.first_row, L);
  ExponentialsOnline<Terms>(plan.h, plan.rows, extent.first_row, plan.pitch, L, tile.row_max, tile.sums,
                            [&](int64_t k, int64_t q, float factor) {
                              if (!mixes) {
                                float* row = tile.O + (k * plan.rows + q) * plan.d_v_padded;
                                for (int64_t e = 0; e < plan.d_v_padded; ++e) row[e] *= factor;
                              } else if (plan.keep_rows) {
                                for (int64_t before = 0; before < kept; ++before) {
                                  HeadLane<Terms>* tile_before = first_W + before * plan.tiles * floats;
                                  if constexpr (Terms::kTerms > 1) {
                                    ScaleHeadOfPairs<Terms>(k, factor, tile_before + k / 2 * plan.pitch + q * kChunk);
                                  } else {
                                    float* row = tile_before + k * plan.pitch + q * kChunk;
                                    for (int j = 0; j < kChunk; ++j) row[j] *= factor;
                                  }
                                }
                              }
                            });
  if (!mixes) {
    AddValues<Terms>(tile, scratch, chunk, extent, L);
  } else if constexpr (Terms::kTerms > 1) {
    PairHeads<Terms>(plan, plan.h, extent.first_row, L, W);
  }
}

// The normalisers, and each query's P_w + R_Xw. The normalisers scale the rows of that matrix, which are fewer than
// the weights; only a mixing by position needs W itself.
template <class Terms>
HWY_INLINE void BetweenPasses(ForwardTile& tile, const ForwardScratch& scratch, const SoftmaxStats& stats,
                              bool normalise) {
  const AttentionPlan& plan = *tile.plan;
  for (int64_t k = 0; k < plan.h; ++k) {
    for (int64_t q = 0; q < plan.rows; ++q) {
      const int64_t at = k * plan.rows + q;
      const float sum = SumOfLanes(tile.sums + at * kPartialSums);
      tile.inv_row_sum[at] = sum == 0.0f ? 0.0f : 1.0f / sum;  // NaN stays NaN
      if (q < tile.valid_rows) {
        stats.row_max[tile.StatsOffset(k) + q] = tile.row_max[at];
        stats.inv_row_sum[tile.StatsOffset(k) + q] = tile.inv_row_sum[at];
      }
    }
  }
  const SideShape& mixes = plan.mixings[kWeights];
  if (mixes.has[kStatic] || mixes.PacksEachTile()) {
    const int64_t size = plan.MixingLanes(kWeights) * mixes.out;
    const Lanes<HeadPair> weights = scratch.mixing[kWeights] + tile.index * plan.rows * size;
    PackQueryMixings<Terms>(tile, kWeights, normalise ? nullptr : tile.inv_row_sum, scratch.matrix, In<Terms>(weights));
    tile.mixing[kWeights] = {weights, size};
  }
}

// U of one chunk, and O. With weights mixing only.
template <class Terms>
HWY_INLINE void SecondPass(const ForwardTile& tile, const ForwardScratch& scratch, int64_t chunk, bool normalise) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const TileExtent extent = ExtentOf(tile, chunk);
  if (extent.skip) return;
  const int64_t floats = plan.HeadLanes(plan.h);
  const int64_t kept = (chunk - tile.first_chunk) * plan.tiles + tile.index;
  HeadLane<Terms>* W = In<Terms>(scratch.W) + (plan.keep_rows ? kept * floats : 0);
  if constexpr (Terms::kTerms > 1) {
    if (!plan.keep_rows) {
      LogitsTile<Terms>(tile, chunk, extent, scratch.J, scratch.L);
      PairExponentials<Terms>(plan, plan.h, extent.first_row, scratch.L, tile.row_max, W);
    }
    if (normalise) ScaleHeadPairs<Terms>(plan, plan.h, extent.first_row, tile.inv_row_sum, W, W);
    if (!plan.mixings[kWeights].MixesByPosition() && tile.call->dropout_rate == 0) {
      MixTile<Terms, Result::kPositionPairs>(plan, tile.tiles, plan.Lanes(s.h), s.h_v, tile.mixing[kWeights],
                                             extent.first_row, W, scratch.U_pairs);
      return AddProducts<Terms>(tile, chunk, extent, scratch.U_pairs);
    }
  } else if (!plan.keep_rows) {
    LogitsTile<Terms>(tile, chunk, extent, scratch.J, W);
    ExponentialsGiven<Terms>(plan.h, plan.rows, extent.first_row, plan.pitch, W, tile.row_max, tile.inv_row_sum);
  } else if (normalise) {
    ScaleRows(plan.h, plan.rows, extent.first_row, plan.pitch, tile.inv_row_sum, W);
  }
  MixSide<Terms, Result::kSet>(tile, kWeights, chunk, extent.first_row, W, scratch.U);
  AddValues<Terms>(tile, scratch, chunk, extent, scratch.U);
}

template <class Terms>
HWY_NOINLINE void ForwardBlock(const AttentionPlan& plan, const AttentionCall& call, const PackedMemory& packed,
                               const ForwardScratch& scratch, const Rows& O, const SoftmaxStats& stats,
                               MatrixTiles* matrix_tiles, int64_t b, int64_t group, int64_t index) {
  const AttentionShape& s = plan.shape;
  const int64_t queries = std::min(plan.block, s.n - index * plan.block);
  const int64_t tiles = CeilDivide(queries, plan.rows);
  // In bfloat16 what is computed twice is W as it was added up, so that only a mixing by position needs it normalised.
  const bool normalise = plan.mixings[kWeights].MixesByPosition() || (!plan.keep_rows && Terms::kTerms == 1);

  std::array<ForwardTile, kMostTiles> tile;
  for (int64_t t = 0; t < tiles; ++t)
    tile[t] = StartTile<Terms>(plan, call, packed, scratch, stats, matrix_tiles, b, group, index, t);
  for (int64_t c = tile[0].first_chunk; c < plan.chunks; ++c) {
    for (int64_t t = 0; t < tiles; ++t) FirstPass<Terms>(tile[t], scratch, c);
  }
  for (int64_t t = 0; t < tiles; ++t) BetweenPasses<Terms>(tile[t], scratch, stats, normalise);
  for (int64_t c = tile[0].first_chunk; s.MixesWeights() && c < plan.chunks; ++c) {
    for (int64_t t = 0; t < tiles; ++t) SecondPass<Terms>(tile[t], scratch, c, normalise);
  }
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t q = 0; q < tile[t].valid_rows && q < plan.rows; ++q) {
      float* row = O.data + tile[t].Query(q) * O.stride + group * plan.h_v * s.d_v;
      for (int64_t k = 0; k < plan.h_v; ++k) {
        const float factor = s.MixesWeights() ? 1.0f : tile[t].inv_row_sum[k * plan.rows + q];
        CopyScaled(s.d_v, factor, tile[t].O + (k * plan.rows + q) * plan.d_v_padded, row + k * s.d_v);
      }
    }
  }
}

// The whole pass, with the operands of products as Terms says.
template <class Terms>
void ForwardIn(const ForwardPass& pass) {
  const AttentionPlan& plan = pass.plan;
  const AttentionCall& call = pass.call;
  const int threads = pass.threads;
  Arena arena(pass.workspace);
  const AttentionShape& s = plan.shape;
  const int64_t rows = s.b, tasks_of_row = plan.groups * plan.blocks, own_rows = OwnRows(rows, threads);
  const Places places(rows, own_rows, threads);
  const PackedMemory packed(plan, AttentionPass::kForward, places.count(), arena);
  const bool convolves = s.Convolves();
  std::vector<ForwardScratch> scratch;
  std::vector<StripScratch> strip_scratch;
  for (int i = 0; i < threads; ++i) {
    if (convolves) {
      strip_scratch.emplace_back(plan, AttentionPass::kForward, arena);
    } else {
      scratch.emplace_back(plan, arena);
    }
  }
  PackStatic<Terms>(plan, call, packed);
  const auto run = [&](int64_t task, int slot) {
    typename Terms::Arithmetic arithmetic(plan);
    const int64_t b = task / plan.blocks / plan.groups;
    const int64_t group = task / plan.blocks % plan.groups, block = task % plan.blocks;
    const auto own = static_cast<size_t>(slot);
    const PackedMemory of_row = packed.From(plan, places.Of(b, slot));
    if (convolves) return ForwardStrip<Terms>(pass, of_row, strip_scratch[own], b, group, block);
    ForwardBlock<Terms>(plan, call, of_row, scratch[own], pass.O, pass.stats, arithmetic.tiles(), b, group, block);
  };
  const auto pack = [&](int64_t b, int64_t chunk, int slot) {
    PackMemoryChunk<Terms>(plan, call, packed.From(plan, places.Of(b, slot)), b, chunk);
  };
  ParallelForWithScratch(own_rows, threads, TileOrder::kLocal, [&](int64_t b, int slot) {
    for (int64_t c = 0; c < plan.chunks; ++c) pack(b, c, slot);
    for (int64_t i = 0; i < tasks_of_row; ++i) {
      if (b + 1 < rows) {
        PrefetchBatchRow({{call.Q, s.n, s.h_k * s.d_k},
                          {call.K, s.m, plan.keys.heads * s.d_k},
                          {call.V, s.m, plan.values.heads * s.d_v}},
                         b + 1, i, tasks_of_row);
      }
      run(b * tasks_of_row + i, slot);
    }
  });
  ParallelFor((rows - own_rows) * plan.chunks, [&](int64_t i) { pack(own_rows + i / plan.chunks, i % plan.chunks, 0); },
              TileOrder::kLocal);
  ParallelForWithScratch((rows - own_rows) * tasks_of_row, threads, TileOrder::kLocal,
                         [&](int64_t i, int slot) { run(own_rows * tasks_of_row + i, slot); });
}

CROSSTALK_END_TARGET

#endif
