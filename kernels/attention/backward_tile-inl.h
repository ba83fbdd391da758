// A tile of the backward pass: its queries, its buffers, what is packed and computed of it before its first chunk, and
// steps of its stages. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_BACKWARD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_BACKWARD_TILE_INL_H_
#undef CROSSTALK_ATTENTION_BACKWARD_TILE_INL_H_
#else
#define CROSSTALK_ATTENTION_BACKWARD_TILE_INL_H_
#endif

#include <algorithm>

#include "crosstalk/kernels/attention/logits-inl.h"
#include "crosstalk/kernels/attention/pairs-inl.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// A tile of a block in the backward pass: its queries, its part of the scratch memory, and where its contributions go.
struct BackwardTile : QueryTile {
  const BackwardScratch* scratch = nullptr;
  const AttentionGradients* out = nullptr;
  float* dbias = nullptr;      // a dense bias's; null where not wanted
  float* distances = nullptr;  // the task's, of a relative position bias; null where not wanted
  Lanes<SizePair> dO;          // packed as Q is
  float* dQ = nullptr;         // [h_k][rows][d_k_padded]
  float *row_max = nullptr, *inv_row_sum = nullptr, *D = nullptr;  // [h][rows]
  float* D_sums = nullptr;                                         // [h][rows][kPartialSums]
  // The sums of dR_X and dF_X of each side, [rows][in][out][kPartialSums] and [rows][5][h][kPartialSums]; null where
  // not wanted.
  float* R_X[2][2] = {};        // by MixingForm
  PackedMixing mixing_back[2];  // the transposes of `mixing`
};

// D[row] = Σ_d O[row, d] · dO[row, d]; dO as PackQueries packs it. The sum goes along d from first to last, as TileNT
// adds up dW: where O is V of one position, or of several that are equal, D is their dW to the last bit. In bfloat16 dO
// is rounded, O is not.
template <class Terms>
HWY_NOINLINE void RowProducts(int64_t rows, int64_t padded_rows, int64_t size, const float* O, int64_t stride,
                              const LaneOf<Terms>* dO, float* D) {
  constexpr int kPart = 32;  // elements that are transposed at a time
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
      if constexpr (Terms::kTerms == 1) {
        for (int64_t i = 0; i < part; ++i) {
          CROSSTALK_UNROLL
          for (int v = 0; v < kQueryGroup; v += kWidth) {
            const auto gradient = hn::Load(d, dO + q * size + (e + i) * kQueryGroup + v);
            sum[v / kWidth] = hn::MulAdd(gradient, hn::Load(d, transposed + i * kQueryGroup + v), sum[v / kWidth]);
          }
        }
      } else {
        const hn::RebindToUnsigned<decltype(d)> du;
        const Pair* pairs = dO + (q / kQueryGroup * CeilDivide<int64_t>(size, 2) + e / 2) * kQueryGroup;
        for (int64_t i = 0; i < part; i += 2) {
          CROSSTALK_UNROLL
          for (int v = 0; v < kQueryGroup; v += kWidth) {
            const auto pair = hn::Load(du, &pairs[i / 2 * kQueryGroup + v].bits);
            const auto first = hn::BitCast(d, hn::ShiftLeft<16>(pair));
            const auto second = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u)));
            auto& s = sum[v / kWidth];
            if (i + 1 < part) s = hn::MulAdd(second, hn::Load(d, transposed + (i + 1) * kQueryGroup + v), s);
            s = hn::MulAdd(first, hn::Load(d, transposed + i * kQueryGroup + v), s);
          }
        }
      }
    }
    for (int v = 0; v < kQueryGroup; v += kWidth) hn::Store(sum[v / kWidth], d, D + q + v);
  }
}

// The same on tiles, dO[row][size / 2]: in their order of sums.
HWY_NOINLINE inline void RowProductsOfTiles(int64_t rows, int64_t padded_rows, int64_t size, const float* O,
                                            int64_t stride, const Pair* dO, float* D) {
  constexpr int kWidth = HWY_MIN(kLanes, kQueryGroup);
  const hn::CappedTag<float, kWidth> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const int64_t depth = PartOfPairs(size / 2);
  HWY_ALIGN float transposed[2 * kTileSize * kQueryGroup];
  HWY_ALIGN uint32_t pairs[kTileSize * kQueryGroup];
  for (int64_t q = 0; q < padded_rows; q += kQueryGroup) {
    const int64_t valid = std::clamp<int64_t>(rows - q, 0, kQueryGroup);
    hn::Vec<decltype(d)> sum[kQueryGroup / kWidth];
    for (auto& s : sum) s = hn::Zero(d);
    for (int64_t p = 0; p < size / 2; p += depth) {
      TransposeScaled<float>(valid, kQueryGroup, 2 * depth, O + q * stride + 2 * p, stride, 1.0f, transposed,
                             kQueryGroup);
      TransposeBits<uint32_t>(kQueryGroup, kQueryGroup, depth, &dO[q * (size / 2) + p].bits, size / 2, pairs,
                              kQueryGroup);
      CROSSTALK_UNROLL
      for (int v = 0; v < kQueryGroup; v += kWidth) {
        auto first = hn::Zero(d), second = hn::Zero(d);
        for (int64_t i = 0; i < depth; ++i) {
          const auto pair = hn::Load(du, pairs + i * kQueryGroup + v);
          const float* row = transposed + 2 * i * kQueryGroup + v;
          first = hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(pair)), hn::Load(d, row), first);
          second = hn::MulAdd(hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u))), hn::Load(d, row + kQueryGroup),
                              second);
        }
        sum[v / kWidth] = hn::Add(sum[v / kWidth], hn::Add(first, second));
      }
    }
    for (int v = 0; v < kQueryGroup; v += kWidth) hn::Store(sum[v / kWidth], d, D + q + v);
  }
}

// Each side's mixing and its transpose: each query's matrix where they differ, else the one that all share.
template <class Terms>
HWY_INLINE void StartMixings(BackwardTile& tile) {
  const AttentionPlan& plan = *tile.plan;
  const BackwardScratch& scratch = *tile.scratch;
  for (const MixingSide side : kMixingSides) {
    const SideShape& mixes = plan.mixings[side];
    const int64_t size = plan.MixingLanes(side) * mixes.out, size_back = plan.Lanes(mixes.out) * mixes.in;
    // In pairs as forward has it: W is not normalised, the matrix is, except where positions have their own.
    const bool normalises = Terms::kTerms > 1 && side == kWeights && !mixes.MixesByPosition();
    if (!mixes.PacksEachTile() && !(normalises && mixes.has[kStatic])) {
      tile.mixing[side] = {tile.packed->P[side], 0};
    } else {
      const Lanes<HeadPair> packed = scratch.mixing[side] + tile.index * plan.rows * size;
      if (side == kLogits) {
        PackQueryMixings<FloatTerms>(tile, side, nullptr, scratch.matrix, packed.floats());
      } else {
        PackQueryMixings<Terms>(tile, side, normalises ? tile.inv_row_sum : nullptr, scratch.matrix, In<Terms>(packed));
      }
      tile.mixing[side] = {packed, size};
    }
    if (!mixes.PacksEachTile()) {
      tile.mixing_back[side] = {tile.packed->P_back[side], 0};
    } else {
      const Lanes<HeadPair> packed_back = scratch.mixing_back[side] + tile.index * plan.rows * size_back;
      PackQueryMixingsTransposed<Terms>(tile, side, scratch.matrix, scratch.matrix_transposed, In<Terms>(packed_back));
      tile.mixing_back[side] = {packed_back, size_back};
    }
  }
}

template <class Terms>
HWY_INLINE void StartTile(BackwardTile& tile, const ConstRows& O, const ConstRows& dO, const SoftmaxStats& stats) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const AttentionCall& call = *tile.call;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t t = tile.index, rows = tile.valid_rows;
  const int64_t Q_size = plan.rows * plan.Lanes(s.d_k), dO_size = plan.rows * plan.Lanes(s.d_v);
  const Lanes<SizePair> Q = scratch.Q + t * plan.h_k * Q_size;
  tile.Q = Q;
  tile.dO = scratch.dO + t * plan.h_v * dO_size;
  tile.dQ = scratch.dQ + t * plan.h_k * plan.rows * plan.d_k_padded;
  const int64_t stats_size = plan.h * plan.rows;
  tile.row_max = scratch.row_max + t * stats_size;
  tile.inv_row_sum = scratch.inv_row_sum + t * stats_size;
  tile.D = scratch.D + t * stats_size;
  tile.D_sums = scratch.D_sums + t * stats_size * kPartialSums;
  // For the sums over queries.
  const auto copy_rows = [&](int64_t size, const ConstRows& head, LaneOf<Terms>* out) HWY_ATTR {
    if constexpr (Terms::kTerms == 1) {
      CopyPadded(rows, plan.rows, size, size, head.data(), head.stride, out);
    } else if (plan.sums_on_tiles) {
      PackQueriesOfColumns<Terms>(rows, plan.rows, size, head, out);
    } else {
      PackRowPairs<Terms>(plan.rows / 2, 2, 1, rows, size, size, head, out);
    }
  };
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const ConstRows head = call.Q.From(tile.b, tile.first_query, s.n) + (tile.group * plan.h_k + k) * s.d_k;
    if (!plan.in_place && tile.L == nullptr) {
      PackQueries<Terms>(plan.on_tiles, rows, plan.rows, s.d_k, head, static_cast<float>(call.scale),
                         In<Terms>(Q) + k * Q_size);
    }
    copy_rows(s.d_k, head, In<Terms>(scratch.Q_rows) + (k * plan.block + t * plan.rows) / Terms::kTerms * s.d_k);
  }
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const ConstRows head = dO.From(tile.b, tile.first_query, s.n) + (tile.group * plan.h_v + k) * s.d_v;
    PackQueries<Terms>(plan.on_tiles, rows, plan.rows, s.d_v, head, 1.0f, In<Terms>(tile.dO) + k * dO_size);
    copy_rows(s.d_v, head, In<Terms>(scratch.dO_rows) + (k * plan.block + t * plan.rows) / Terms::kTerms * s.d_v);
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
      const float* O_head = O.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h + k) * s.d_v;
      const auto* dO_head = In<Terms>(tile.dO) + k * dO_size;
      float* D = tile.D + k * plan.rows;
      if constexpr (Terms::kTerms > 1) {
        if (plan.on_tiles) {
          RowProductsOfTiles(rows, plan.rows, s.d_v, O_head, O.stride, dO_head, D);
          continue;
        }
      }
      RowProducts<Terms>(rows, plan.rows, s.d_v, O_head, O.stride, dO_head, D);
    }
  }
  for (const MixingSide side : kMixingSides) {
    for (const MixingForm form : kMixingForms) {
      if (scratch.R_X[side][form] == nullptr) continue;
      const int64_t sums = plan.rows * plan.mixings[side].size(form) * kPartialSums;
      tile.R_X[side][form] = scratch.R_X[side][form] + t * sums;
      std::fill_n(tile.R_X[side][form], sums, 0.0f);
    }
  }
  StartMixings<Terms>(tile);
}

// A tile's buffers for one chunk.
struct ChunkTile {
  int64_t chunk;
  TileExtent extent;
  Lanes<PositionPair> J;
  Lanes<HeadPair> W, dW;  // dW becomes dL
  // The same as W, dW, dL if nothing is mixed or dropped; in bfloat16 dU alone.
  Lanes<QueryPair> U, dJ;
  Lanes<PositionPair> dU;
};

template <class Terms>
HWY_INLINE ChunkTile AtChunk(const BackwardTile& tile, int64_t chunk) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const BackwardSizes sizes(plan);
  const int64_t kept_chunk = plan.keep_rows ? std::max<int64_t>(0, chunk - tile.first_chunk) : 0;
  const int64_t kept = tile.index + kept_chunk * plan.tiles;
  ChunkTile at{chunk,
               ExtentOf(tile, chunk),
               scratch.J + kept * sizes.J,
               scratch.W + kept * sizes.W,
               scratch.dW + kept * sizes.W,
               scratch.U + tile.index * sizes.U,
               scratch.dJ + tile.index * sizes.J,
               scratch.dU};
  if (!s.MixesWeights()) at.dU = at.dW.floats();
  if constexpr (InFloat<Terms>) {
    if (!s.MixesWeights() && tile.call->dropout_rate == 0) at.U = at.W.floats();
    if (!s.MixesLogits()) at.dJ = at.dW.floats();
  }
  return at;
}

// The sums of K, or of V, of a batch row and group, and the order in which tasks add to them.
struct SumsOfMemory {
  float* of_chunk_0;
  OrderedReduction* order;
  int64_t first_chunk;  // in `order`
  int64_t turn;         // this task's; 0: the sums hold nothing yet
};

// The sums of a task's memory. It adds to those of V and R_Mw in the pass that computes U, to those of K and R_Ml in
// the pass that computes dJ.
struct MemorySums {
  SumsOfMemory K, V;
  float* R_M[2][2];  // from chunk 0 on; in the order of V and of K
};

// ---- Steps ----

// L as forward had it: what is kept, or computed again, and J with it.
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
  const auto* all_V = In<Terms>(tile.packed->V_by_position);
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const auto* V = all_V + TileReadBy(plan, plan.values, tile.group, k, at.chunk) * V_size;
    TileNT<Terms, kResult>(tile.tiles, plan.rows - first_row, depth,
                           In<Terms>(tile.dO) + (k * plan.rows + first_row) * depth, V,
                           dU + k * pitch + first_row * kColumns<kResult>,
                           NextShare(tile, V + plan.values.in_group * V_size, V_size), V_size / plan.tiles);
  }
}

// Dropout's factors, and dU times them.
HWY_INLINE void DropGradients(const BackwardTile& tile, const ChunkTile& at, float* dU) {
  const AttentionPlan& plan = *tile.plan;
  DropoutFactorsTile(tile, at.chunk, at.extent.first_row, tile.scratch->dropout);
  MultiplyTile(plan.h_v, plan.rows, at.extent.first_row, plan.pitch, tile.scratch->dropout, dU);
}

// sums[in][out][kPartialSums] += Σ x·dy over `rows` rows of a tile, in pieces: as many rows of both operands as stay in
// the first-level cache, but no fewer than make visiting the sums cheap, each of whose vectors is a visit of its own.
template <class Terms>
HWY_INLINE void HeadMixingGradientOfRows(int64_t in, int64_t out, int64_t rows, const PositionLane<Terms>* x,
                                         const PositionLane<Terms>* dy, int64_t pitch, float* sums) {
  constexpr int64_t kSteps = kRow<Terms> / kPartialSums;
  constexpr int64_t kOperandLanes = 6144, kLeastRows = int64_t{kQueryGroup} * kSumVectors;
  const int64_t piece = in * out > 32 * 32 ? rows
                                           : std::clamp(kOperandLanes / ((in + out) * kRow<Terms>),
                                                        std::min(kLeastRows * Terms::kTerms, rows), rows);
  HeadMixingGradient<Terms>(in, out, rows * kSteps, piece * kSteps, x, dy, pitch, kPartialSums, sums,
                            out * kPartialSums, kPartialSums);
}

// dbias += dL for a tile. Row by row, all heads of each: a distance's sum goes from row to row one place to the left,
// so that the next row of the same head would wait for the store of the one before it.
HWY_NOINLINE inline void BiasGradients(const BackwardTile& tile, const ChunkTile& at, const float* all_dL) {
  const Tag<float> d;
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = at.chunk * kChunk;
  for (int64_t q = at.extent.first_row; q < tile.valid_rows; ++q) {
    const int64_t i = tile.first_query + q, block_row = tile.index * plan.rows + q;
    for (int64_t k = 0; k < plan.h; ++k) {
      const int64_t head = tile.group * plan.h + k;
      const float* dL = all_dL + k * plan.pitch + q * kChunk;
      if (tile.dbias != nullptr) {
        float* to = tile.dbias + (head * s.n + i) * s.m + first;
        const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
        for (int64_t j = 0; j < valid; ++j) to[j] += dL[j];
      } else {
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
  const BackwardSizes sizes(plan);
  const int64_t steps = HeadBlocks(plan.h_k, kMixRows).count * plan.rows * (kChunk / kStep) * plan.Lanes(plan.h);
  const int64_t tiles = plan.keep_rows ? plan.tiles : 0;
  const auto next = [&](const auto& kept, int64_t size) { return kept.floats() + tiles * size; };
  return {{next(at.W, sizes.W), next(at.dW, sizes.W), next(at.J, sizes.J)},
          std::min<int64_t>(kLine, CeilDivide(sizes.W, steps))};
}

// dx[in] = dy[out] · (P + R_X + R_M + R(F_X) + R(F_M))ᵀ, what MixSide inverts.
template <class Terms, class Prefetch = PrefetchNothing>
HWY_INLINE void MixSideBack(const BackwardTile& tile, const ChunkTile& at, MixingSide side, const HeadLane<Terms>* dy,
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
    const auto* R = PerPosition<Terms>(tile.packed->R_M[side], at.chunk, mixes.size());
    MixHeadsPerKey<Terms>(plan, out, mixes.in, R, kChunk, mixes.out * kChunk, first_row, dy, dx);
  } else {
    const auto* R = PerPosition<Terms>(tile.packed->R_M_back[side], at.chunk, out * mixes.in);
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

// The gradients of a side's factors from a tile's x and dy.
template <class Terms>
HWY_INLINE void AddFactorGradientsOf(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums,
                                     MixingSide side, const PositionLane<Terms>* x, const PositionLane<Terms>* dy) {
  const int64_t size = tile.plan->mixings[side].size(kFactors) * kChunk;
  float *of_queries = tile.R_X[side][kFactors], *of_positions = sums.R_M[side][kFactors];
  if (of_positions != nullptr) of_positions += at.chunk * size;
  if (of_queries == nullptr && of_positions == nullptr) return;
  AddFactorGradients<Terms>(*tile.plan, FactorsOf(tile, side, at.chunk), at.extent.first_row, x, dy, of_queries,
                            of_positions);
}

// dQ += dJ·K of a tile.
template <class Terms>
HWY_INLINE void AddToQueries(const BackwardTile& tile, const ChunkTile& at, const PositionLane<Terms>* dJ) {
  const AttentionPlan& plan = *tile.plan;
  const int64_t first_row = at.extent.first_row, K_size = kRow<Terms> * plan.d_k_padded, pitch = plan.position_pitch;
  const auto* all_K = In<Terms>(tile.packed->K_by_size);
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const auto* K = all_K + TileReadBy(plan, plan.keys, tile.group, k, at.chunk) * K_size;
    TileNN<Terms>(tile.tiles, plan.rows - first_row, plan.d_k_padded, dJ + k * pitch + first_row * kRow<Terms>, K,
                  tile.dQ + (k * plan.rows + first_row) * plan.d_k_padded,
                  NextShare(tile, K + plan.keys.in_group * K_size, K_size), K_size / plan.tiles);
  }
}

CROSSTALK_END_TARGET

#endif
