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
#include "crosstalk/kernels/attention/pairs-inl.h"
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
template <class Terms>
HWY_INLINE PackedMixing MixingOf(const QueryTile& tile, const float* P, const float* R, const float* shared,
                                 int64_t h_in, int64_t h_out, bool transposed, const BackwardScratch& scratch,
                                 float* all_packed) {
  if (R == nullptr) return {shared, 0};
  const int64_t size = CeilDivide<int64_t>(h_in, Terms::kTerms) * h_out;
  float* packed = all_packed + tile.index * tile.plan->rows * size;
  if (transposed) {
    PackQueryMixingsTransposed<Terms>(tile, h_in, h_out, P, R, scratch.matrix, scratch.matrix_transposed, packed);
  } else {
    PackQueryMixings<Terms>(tile, h_in, h_out, P, R, nullptr, scratch.matrix, packed);
  }
  return {packed, size};
}

// D[row] = Σ_d O[row, d] · dO[row, d]; dO as PackQueries packs it. The sum goes along d from first to last, as TileNT
// adds up dW: where O is V of one position, or of several that are equal, D is their dW to the last bit. In bfloat16 dO
// is rounded, O is not.
template <class Terms>
HWY_NOINLINE void RowProducts(int64_t rows, int64_t padded_rows, int64_t size, const float* O, int64_t stride,
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
        const float* pairs = dO + (q / kQueryGroup * CeilDivide<int64_t>(size, 2) + e / 2) * kQueryGroup;
        for (int64_t i = 0; i < part; i += 2) {
          CROSSTALK_UNROLL
          for (int v = 0; v < kQueryGroup; v += kWidth) {
            const auto pair = hn::BitCast(du, hn::Load(d, pairs + i / 2 * kQueryGroup + v));
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

template <class Terms>
HWY_INLINE void StartTile(BackwardTile& tile, const ConstRows& O, const ConstRows& dO, const SoftmaxStats& stats) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const AttentionInputs& in = *tile.in;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t t = tile.index, rows = tile.valid_rows;
  const int64_t Q_size = plan.rows * plan.Lanes(s.d_k), dO_size = plan.rows * plan.Lanes(s.d_v);
  float* Q = scratch.Q + t * plan.h_k * Q_size;
  tile.Q = Q;
  tile.dO = scratch.dO + t * plan.h_v * dO_size;
  tile.dQ = scratch.dQ + t * plan.h_k * plan.rows * plan.d_k_padded;
  const int64_t stats_size = plan.h * plan.rows;
  tile.row_max = scratch.row_max + t * stats_size;
  tile.inv_row_sum = scratch.inv_row_sum + t * stats_size;
  tile.D = scratch.D + t * stats_size;
  tile.D_sums = scratch.D_sums + t * stats_size * kPartialSums;
  tile.R_Xl = scratch.R_Xl == nullptr ? nullptr : scratch.R_Xl + t * plan.rows * s.h_k * s.h * kPartialSums;
  tile.R_Xw = scratch.R_Xw == nullptr ? nullptr : scratch.R_Xw + t * plan.rows * s.h * s.h_v * kPartialSums;
  // For the sums over queries.
  const auto copy_rows = [&](int64_t size, const float* head, int64_t stride, float* out) HWY_ATTR {
    if constexpr (Terms::kTerms == 1) {
      CopyPadded(rows, plan.rows, size, size, head, stride, out);
    } else {
      PackRowPairs<Terms>(plan.rows / 2, 2, 1, rows, size, size, head, stride, out);
    }
  };
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const float* head = in.Q.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h_k + k) * s.d_k;
    if (!plan.in_place) PackQueries<Terms>(rows, plan.rows, s.d_k, head, in.Q.stride, in.scale, Q + k * Q_size);
    copy_rows(s.d_k, head, in.Q.stride, scratch.Q_rows + (k * plan.block + t * plan.rows) / Terms::kTerms * s.d_k);
  }
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const float* head = dO.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h_v + k) * s.d_v;
    PackQueries<Terms>(rows, plan.rows, s.d_v, head, dO.stride, 1.0f, tile.dO + k * dO_size);
    copy_rows(s.d_v, head, dO.stride, scratch.dO_rows + (k * plan.block + t * plan.rows) / Terms::kTerms * s.d_v);
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
      RowProducts<Terms>(rows, plan.rows, s.d_v,
                         O.Row(tile.b, tile.first_query, s.n) + (tile.group * plan.h + k) * s.d_v, O.stride,
                         tile.dO + k * dO_size, tile.D + k * plan.rows);
    }
  }
  if (tile.R_Xl != nullptr) std::fill_n(tile.R_Xl, plan.rows * s.h_k * s.h * kPartialSums, 0.0f);
  if (tile.R_Xw != nullptr) std::fill_n(tile.R_Xw, plan.rows * s.h * s.h_v * kPartialSums, 0.0f);
  const float* P_l = s.P_l ? in.P_l : nullptr;
  const float* P_w = s.P_w ? in.P_w : nullptr;
  const float* R_Xl = s.R_Xl ? in.R_Xl : nullptr;
  const float* R_Xw = s.R_Xw ? in.R_Xw : nullptr;
  const PackedMemory& packed = *tile.packed;
  tile.logits = MixingOf<FloatTerms>(tile, P_l, R_Xl, packed.logits, s.h_k, s.h, false, scratch, scratch.logits);
  tile.logits_back =
      MixingOf<Terms>(tile, P_l, R_Xl, packed.logits_back, s.h, s.h_k, true, scratch, scratch.logits_back);
  if (Terms::kTerms > 1 && !s.R_Mw && (s.P_w || s.R_Xw)) {
    // As forward has it: W is not normalised, the matrix is.
    const int64_t size = plan.Lanes(s.h) * s.h_v;
    float* weights = scratch.weights + t * plan.rows * size;
    PackQueryMixings<Terms>(tile, s.h, s.h_v, P_w, R_Xw, tile.inv_row_sum, scratch.matrix, weights);
    tile.weights = {weights, size};
  } else {
    tile.weights = MixingOf<Terms>(tile, P_w, R_Xw, packed.weights, s.h, s.h_v, false, scratch, scratch.weights);
  }
  tile.weights_back =
      MixingOf<Terms>(tile, P_w, R_Xw, packed.weights_back, s.h_v, s.h, true, scratch, scratch.weights_back);
}

// A tile's buffers for one chunk, whose forms in bfloat16 BackwardScratch has.
struct ChunkTile {
  int64_t chunk;
  TileExtent extent;
  float *J, *W, *dW;   // dW becomes dL
  float *U, *dU, *dJ;  // where nothing is mixed or dropped, the same as W, dW, dL; not in bfloat16, but for dU
};

// Of one tile of a block, in lanes.
struct ChunkSizes {
  template <class Terms>
  static HWY_INLINE ChunkSizes Of(const AttentionPlan& plan) {
    constexpr bool kPairs = Terms::kTerms > 1;
    const int64_t W = kPairs && plan.shape.MixesWeights() ? plan.HeadPairs(plan.h) : plan.TileFloats(plan.h);
    return {kPairs ? plan.HalfTile(plan.h_k) : plan.TileFloats(plan.h_k), W,
            kPairs ? plan.HalfTile(plan.h_v) : plan.TileFloats(plan.h_v)};
  }
  int64_t J;  // and dJ
  int64_t W;  // and dW
  int64_t U;
};

template <class Terms>
HWY_INLINE ChunkTile AtChunk(const BackwardTile& tile, int64_t chunk) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const ChunkSizes sizes = ChunkSizes::Of<Terms>(plan);
  const int64_t kept = tile.index + (plan.keep_rows ? chunk * plan.tiles : 0);
  ChunkTile at{chunk,
               ExtentOf(tile, chunk),
               scratch.J + kept * sizes.J,
               scratch.W + kept * sizes.W,
               scratch.dW + kept * sizes.W,
               nullptr,
               nullptr,
               nullptr};
  constexpr bool kPairs = Terms::kTerms > 1;
  at.U = kPairs || s.MixesWeights() || tile.in->dropout_rate > 0 ? scratch.U + tile.index * sizes.U : at.W;
  at.dU = s.MixesWeights() ? scratch.dU : at.dW;
  at.dJ = kPairs || s.MixesLogits() ? scratch.dJ + tile.index * sizes.J : at.dW;
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

// J, W, dU, dW, and D_sums += W·dW unless that is null, as it is without weights mixing. In bfloat16, where weights are
// mixed, W is not normalised, and lies in scratch.W_tile too.
template <class Terms>
HWY_INLINE void RecomputeTile(const BackwardTile& tile, const ChunkTile& at, float* D_sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first_row = at.extent.first_row;
  const BackwardScratch& scratch = *tile.scratch;
  float* dW = at.dW;
  if constexpr (Terms::kTerms == 1) {
    LogitsTile<Terms>(tile, at.chunk, at.extent, at.J, at.W);
    ExponentialsGiven(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.row_max, tile.inv_row_sum);
  } else {
    float* W = s.MixesWeights() ? scratch.W_tile : at.W;
    LogitsTile<Terms>(tile, at.chunk, at.extent, scratch.J_tile, W);
    RoundedExponentials<Terms>(plan.h, plan.rows, first_row, plan.pitch, W, tile.row_max);
    if (s.MixesLogits()) PairPositions<Terms>(plan, plan.h_k, first_row, scratch.J_tile, at.J);
    if (s.MixesWeights()) {
      PairHeads<Terms>(plan, plan.h, first_row, W, at.W);
      dW = scratch.dW_tile;
    } else {
      ScaleRows(plan.h, plan.rows, first_row, plan.pitch, tile.inv_row_sum, W);
    }
  }
  const int64_t depth = plan.Lanes(s.d_v), V_size = depth * kChunk;
  const float* V = tile.packed->V_by_position + MemoryTile(plan, tile.b, tile.group, at.chunk) * plan.h_v * V_size;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    TileNT<Terms, false>(plan.rows - first_row, depth, tile.dO + (k * plan.rows + first_row) * depth, V + k * V_size,
                         at.dU + k * plan.pitch + first_row * kChunk,
                         NextShare(tile, V + (plan.h_v + k) * V_size, V_size), V_size / plan.tiles);
  }
  if (tile.in->dropout_rate > 0) {
    DropoutFactorsTile(tile, at.chunk, first_row, scratch.dropout);
    MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, scratch.dropout, at.dU);
  }
  if (!s.MixesWeights()) return;
  const float* dU = at.dU;
  if constexpr (Terms::kTerms > 1) {
    PairHeads<Terms>(plan, s.h_v, first_row, at.dU, scratch.head_pairs);
    dU = scratch.head_pairs;
  }
  const int64_t h_in = plan.Lanes(s.h_v);
  if (tile.weights_back.data != nullptr) {
    MixTile<Terms, false>(plan, h_in, s.h, tile.weights_back, first_row, dU, dW);
  } else {
    ClearTile(plan, s.h, first_row, dW);
  }
  if (s.R_Mw) {
    const int64_t chunk = tile.b * plan.chunks + at.chunk;
    if constexpr (Terms::kTerms == 1) {
      const float* R = tile.packed->R_Mw + chunk * s.h * s.h_v * kChunk;
      MixHeadsPerKey<Terms>(plan, s.h_v, s.h, R, kChunk, s.h_v * kChunk, first_row, dU, dW);
    } else {
      const float* R = tile.packed->R_Mw_back + chunk * h_in * s.h * kChunk;
      MixHeadsPerKey<Terms>(plan, h_in, s.h, R, s.h * kChunk, kChunk, first_row, dU, dW);
    }
  }
  if constexpr (Terms::kTerms > 1) {
    PairGradients<Terms>(plan, s.h, first_row, at.W, dW, at.dW, D_sums);
  } else if (D_sums != nullptr) {
    AddRowProducts(plan.h, plan.rows, first_row, plan.pitch, at.W, dW, D_sums);
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

// U, and the gradients of the weights mixing, in bfloat16.
template <class Terms>
HWY_INLINE void RecomputeValuesTileOfPairs(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  float* U = scratch.U_tile;
  if (s.MixesWeights()) {
    const float* W = at.W;
    const int64_t h_in = plan.Lanes(s.h);
    if (s.R_Mw) {
      ScaleRows(plan.h, plan.rows, first_row, plan.pitch, tile.inv_row_sum, scratch.W_tile);
      PairHeads<Terms>(plan, s.h, first_row, scratch.W_tile, scratch.head_pairs);
      W = scratch.head_pairs;
    }
    if (tile.weights.data != nullptr) {
      MixTile<Terms, false>(plan, h_in, s.h_v, tile.weights, first_row, W, U);
    } else {
      ClearTile(plan, s.h_v, first_row, U);
    }
    if (s.R_Mw) {
      const float* R = tile.packed->R_Mw + (tile.b * plan.chunks + at.chunk) * h_in * s.h_v * kChunk;
      MixHeadsPerKey<Terms>(plan, h_in, s.h_v, R, s.h_v * kChunk, kChunk, first_row, W, U);
    }
  } else if (tile.in->dropout_rate > 0) {
    std::copy_n(at.W, plan.TileFloats(plan.h_v), U);
  } else {
    U = at.W;
  }
  if (tile.in->dropout_rate > 0) {
    MultiplyTile(plan.h_v, plan.rows, first_row, plan.pitch, scratch.dropout, U);
  }
  PairQueries<Terms>(plan, plan.h_v, first_row, U, at.U);
  if (scratch.P_w != nullptr || tile.R_Xw != nullptr) {
    // Normalised, as it is already for a mixing by position.
    PairPositions<Terms>(plan, s.h, first_row, scratch.W_tile, scratch.first_pairs,
                         s.R_Mw ? nullptr : tile.inv_row_sum);
    PairPositions<Terms>(plan, s.h_v, first_row, at.dU, scratch.second_pairs);
    AddMixingGradientsOfPairs<Terms>(tile, at, s.h, s.h_v, scratch.first_pairs, scratch.second_pairs, scratch.P_w,
                                     tile.R_Xw);
  }
  if (sums.R_Mw != nullptr) {
    PairQueries<Terms>(plan, s.h, first_row, scratch.W_tile, scratch.first_pairs);
    PairQueries<Terms>(plan, s.h_v, first_row, at.dU, scratch.second_pairs);
    AddPositionGradientsOfPairs<Terms>(tile, at, s.h, s.h_v, scratch.first_pairs, scratch.second_pairs, sums.R_Mw);
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
      MixTile<FloatTerms, false>(plan, s.h, s.h_v, tile.weights, first_row, at.W, at.U);
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

// LogitGradients in bfloat16.
template <class Terms>
HWY_INLINE void LogitGradientsOfPairs(const BackwardTile& tile, const ChunkTile& at, const MemorySums& sums) {
  const AttentionPlan& plan = *tile.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = *tile.scratch;
  const int64_t first_row = at.extent.first_row;
  float* dL = at.dW;
  if (s.MixesWeights()) {
    dL = scratch.dW_tile;
    SoftmaxGradientOfPairs(plan, first_row, at.W, tile.inv_row_sum, at.dW, tile.D, dL);
  } else {
    SoftmaxGradientTile(plan.h, plan.rows, first_row, plan.pitch, at.W, tile.D, dL);
  }
  if (tile.dbias != nullptr || tile.distances != nullptr) BiasGradients(tile, at, dL);
  const float* dJ = dL;
  if (s.MixesLogits()) {
    const int64_t h_in = plan.Lanes(s.h);
    PairHeads<Terms>(plan, s.h, first_row, dL, scratch.head_pairs);
    if (tile.logits_back.data != nullptr) {
      MixTile<Terms, false>(plan, h_in, s.h_k, tile.logits_back, first_row, scratch.head_pairs, scratch.J_tile,
                            NextKept<Terms>(tile, at));
    } else {
      ClearTile(plan, s.h_k, first_row, scratch.J_tile);
    }
    if (s.R_Ml) {
      const float* R = tile.packed->R_Ml_back + (tile.b * plan.chunks + at.chunk) * h_in * s.h_k * kChunk;
      MixHeadsPerKey<Terms>(plan, h_in, s.h_k, R, s.h_k * kChunk, kChunk, first_row, scratch.head_pairs,
                            scratch.J_tile);
    }
    dJ = scratch.J_tile;
  }
  if (scratch.P_l != nullptr || tile.R_Xl != nullptr) {
    PairPositions<Terms>(plan, s.h, first_row, dL, scratch.second_pairs);
    AddMixingGradientsOfPairs<Terms>(tile, at, s.h_k, s.h, at.J, scratch.second_pairs, scratch.P_l, tile.R_Xl);
  }
  if (sums.R_Ml != nullptr) {
    RepairByQueries(plan, s.h_k, first_row, at.J, scratch.first_pairs);
    PairQueries<Terms>(plan, s.h, first_row, dL, scratch.second_pairs);
    AddPositionGradientsOfPairs<Terms>(tile, at, s.h_k, s.h, scratch.first_pairs, scratch.second_pairs, sums.R_Ml);
  }
  PairQueries<Terms>(plan, plan.h_k, first_row, dJ, at.dJ);
  PairPositions<Terms>(plan, plan.h_k, first_row, dJ, scratch.first_pairs);
  AddToQueries<Terms>(tile, at, scratch.first_pairs, plan.half_pitch);
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
      MixTile<FloatTerms, false>(plan, s.h, s.h_k, tile.logits_back, first_row, at.dW, at.dJ,
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
        TileTN<Terms, false>(rows, end - t, tile_floats, size, a, b, sum, next);
      } else {
        TileTN<Terms, true>(rows, end - t, tile_floats, size, a, b, sum, next);
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
