// Backward, one block of queries at a time, by recomputation from the row statistics:
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

#include "kernels/attention/backward_buffers.h"
#include "kernels/attention/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// A block of queries in the backward pass, and where its contributions go.
struct BackwardBlock : QueryBlock {
  const BackwardScratch& scratch;
  const AttentionGradients& out;
  // This task's sums over queries; K, V, R: tiles of chunk 0.
  float *K, *V, *R_Ml, *R_Mw, *distances;
  PackedMixing logits_back, weights, weights_back;
};

HWY_INLINE void PackBackwardBlock(BackwardBlock& block, const ConstRows& O, const ConstRows& dO,
                                  const AttentionStatistics& statistics) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const AttentionInputs& in = block.in;
  const BackwardScratch& scratch = block.scratch;
  const int64_t rows = block.valid_rows;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const float* Q = in.Q.data + block.Query(0) * in.Q.stride + (block.group * plan.h_k + k) * s.d_k;
    PackQueries(rows, plan.block, s.d_k, Q, in.Q.stride, in.scale, scratch.Q + k * plan.block * s.d_k);
    CopyPadded(rows, plan.block, s.d_k, s.d_k, Q, in.Q.stride, scratch.Q_rows + k * plan.block * s.d_k);
  }
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const float* head = dO.data + block.Query(0) * dO.stride + (block.group * plan.h_v + k) * s.d_v;
    PackQueries(rows, plan.block, s.d_v, head, dO.stride, 1.0f, scratch.dO + k * plan.block * s.d_v);
    CopyPadded(rows, plan.block, s.d_v, s.d_v, head, dO.stride, scratch.dO_rows + k * plan.block * s.d_v);
  }
  for (int64_t k = 0; k < plan.h; ++k) {
    float* references = scratch.references + k * plan.block;
    float* reciprocals = scratch.reciprocals + k * plan.block;
    std::copy_n(statistics.reference + block.Statistic(k), rows, references);
    std::copy_n(statistics.reciprocal + block.Statistic(k), rows, reciprocals);
    std::fill(references + rows, references + plan.block, 0.0f);
    std::fill(reciprocals + rows, reciprocals + plan.block, 0.0f);
  }
  std::fill_n(scratch.dQ, plan.h_k * plan.block * plan.d_k_padded, 0.0f);
  block.Q = scratch.Q;

  if (!s.MixesWeights()) {
    // D = Σ_m W·dW = Σ_m U·dU = Σ_d O·dO
    for (int64_t k = 0; k < plan.h; ++k) {
      for (int64_t q = 0; q < plan.block; ++q) {
        const int64_t column = (block.group * plan.h + k) * s.d_v;
        scratch.D[k * plan.block + q] =
            q >= rows ? 0.0f
                      : DotProduct(s.d_v, O.data + block.Query(q) * O.stride + column,
                                   dO.data + block.Query(q) * dO.stride + column);
      }
    }
  }

  const auto mixing = [&](bool by_query, const float* P, const float* R, const float* shared, int64_t h_in,
                          int64_t h_out, bool transposed, float* packed) -> PackedMixing {
    if (!by_query) return {shared, 0};
    if (transposed) {
      PackQueryMixingsTransposed(block, h_in, h_out, P, R, scratch.matrix, scratch.matrix_transposed, packed);
    } else {
      PackQueryMixings(block, h_in, h_out, P, R, nullptr, scratch.matrix, packed);
    }
    return {packed, h_in * h_out};
  };
  const float* P_l = s.P_l ? in.P_l : nullptr;
  const float* P_w = s.P_w ? in.P_w : nullptr;
  block.logits = mixing(s.R_Xl, P_l, in.R_Xl, block.packed.logits, s.h_k, s.h, false, scratch.logits);
  block.logits_back = mixing(s.R_Xl, P_l, in.R_Xl, block.packed.logits_back, s.h, s.h_k, true, scratch.logits_back);
  block.weights = mixing(s.R_Xw, P_w, in.R_Xw, block.packed.weights, s.h, s.h_v, false, scratch.weights);
  block.weights_back = mixing(s.R_Xw, P_w, in.R_Xw, block.packed.weights_back, s.h_v, s.h, true, scratch.weights_back);
}

// The buffers of one chunk's tile; the kept ones differ from chunk to chunk.
struct BackwardTile {
  int64_t chunk;
  TileExtent extent;
  float *J, *W, *dW;  // dW becomes dL
  float *dU;          // dW itself without weights mixing
};

HWY_INLINE BackwardTile TileOf(const BackwardBlock& block, int64_t chunk) {
  const AttentionPlan& plan = block.plan;
  const BackwardScratch& scratch = block.scratch;
  const int64_t kept = plan.keep_rows ? chunk : 0;
  BackwardTile tile{chunk, ExtentOf(block, chunk), scratch.J + kept * plan.TileFloats(plan.h_k),
                    scratch.W + kept * plan.TileFloats(plan.h), scratch.dW + kept * plan.TileFloats(plan.h), nullptr};
  tile.dU = plan.shape.MixesWeights() ? scratch.dU : tile.dW;
  return tile;
}

// J, W, dU, dW.
HWY_INLINE void RecomputeTile(const BackwardBlock& block, const BackwardTile& tile) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = block.scratch;
  const int64_t first_row = tile.extent.first_row;
  LogitsTile(block, tile.chunk, tile.extent, tile.J, tile.W);
  ExponentialsGiven(plan.h, plan.block, first_row, plan.pitch, tile.W, scratch.references, scratch.reciprocals);
  const float* V = block.packed.V_by_position +
                   MemoryTile(plan, block.b, block.group, tile.chunk) * plan.h_v * s.d_v * kChunk;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    RowsTimesMemory<false>(plan.block - first_row, s.d_v, scratch.dO + (k * plan.block + first_row) * s.d_v,
                           V + k * s.d_v * kChunk, tile.dU + k * plan.pitch + first_row * kChunk);
  }
  if (block.in.dropout_rate > 0) {
    DropoutFactorsTile(block, tile.chunk, first_row, scratch.dropout);
    MultiplyTile(plan.h_v, plan.block, first_row, plan.pitch, scratch.dropout, tile.dU);
  }
  if (!s.MixesWeights()) return;
  if (block.weights_back.data != nullptr) {
    MixTile(plan, s.h_v, s.h, block.weights_back, first_row, false, tile.dU, tile.dW);
  } else {
    ClearTile(plan, s.h, first_row, tile.dW);
  }
  if (s.R_Mw) {
    const float* R = block.packed.R_Mw + (block.b * plan.chunks + tile.chunk) * s.h * s.h_v * kChunk;
    MixByPosition(plan, s.h_v, s.h, R, kChunk, s.h_v * kChunk, first_row, tile.dU, tile.dW);
  }
}

// dV += Uᵀ·dO, and the gradients of the weights mixing.
HWY_INLINE void ValueGradients(const BackwardBlock& block, const BackwardTile& tile) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = block.scratch;
  const int64_t first_row = tile.extent.first_row, rows = plan.block - first_row;
  float* U = tile.W;
  if (s.MixesWeights()) {
    U = scratch.U;
    if (block.weights.data != nullptr) {
      MixTile(plan, s.h, s.h_v, block.weights, first_row, false, tile.W, U);
    } else {
      ClearTile(plan, s.h_v, first_row, U);
    }
    if (s.R_Mw) {
      const float* R = block.packed.R_Mw + (block.b * plan.chunks + tile.chunk) * s.h * s.h_v * kChunk;
      MixByPosition(plan, s.h, s.h_v, R, s.h_v * kChunk, kChunk, first_row, tile.W, U);
    }
  } else if (block.in.dropout_rate > 0) {
    U = scratch.U;
    std::copy_n(tile.W, plan.TileFloats(plan.h_v), U);
  }
  if (block.in.dropout_rate > 0) MultiplyTile(plan.h_v, plan.block, first_row, plan.pitch, scratch.dropout, U);
  for (int64_t k = 0; k < plan.h_v; ++k) {
    GradientOfMemory(rows, s.d_v, scratch.dO_rows + (k * plan.block + first_row) * s.d_v,
                     U + k * plan.pitch + first_row * kChunk, block.V + (tile.chunk * plan.h_v + k) * s.d_v * kChunk);
  }
  const int64_t at = first_row * kChunk;
  if (scratch.P_w != nullptr) {
    HeadsByHeads(s.h, s.h_v, rows * kChunkVectors, tile.W + at, tile.dU + at, plan.pitch, kLanes, scratch.P_w,
                 s.h_v * kLanes, kLanes);
  }
  if (block.R_Mw != nullptr) {
    float* R = block.R_Mw + tile.chunk * s.h * s.h_v * kChunk;
    for (int j = 0; j < kChunk; j += kLanes) {
      HeadsByHeads(s.h, s.h_v, rows, tile.W + at + j, tile.dU + at + j, plan.pitch, kChunk, R + j, s.h_v * kChunk, kChunk);
    }
  }
  if (s.R_Xw && block.out.dR_Xw != nullptr) {
    for (int64_t q = first_row; q < plan.block; ++q) {
      HeadsByHeads(s.h, s.h_v, kChunkVectors, tile.W + q * kChunk, tile.dU + q * kChunk, plan.pitch, kLanes,
                   scratch.R_Xw + q * s.h * s.h_v * kLanes, s.h_v * kLanes, kLanes);
    }
  }
}

// dbias += dL for a tile.
HWY_NOINLINE inline void BiasGradients(const BackwardBlock& block, const BackwardTile& tile) {
  const Lane d;
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = tile.chunk * kChunk;
  for (int64_t k = 0; k < plan.h; ++k) {
    const int64_t head = block.group * plan.h + k;
    for (int64_t q = tile.extent.first_row; q < block.valid_rows; ++q) {
      const int64_t i = block.first_query + q;
      const float* dL = tile.dW + k * plan.pitch + q * kChunk;
      if (s.bias == AttentionBias::kDense) {
        float* to = block.out.dbias + (head * s.n + i) * s.m + first;
        const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
        for (int64_t j = 0; j < valid; ++j) to[j] += dL[j];
      } else {
        float* to = block.distances + (plan.memory_groups == 1 ? head : k) * plan.Distances() +
                    (first - i + plan.n_padded() - 1);
        for (int j = 0; j < kChunk; j += kLanes) {
          hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::Load(d, dL + j)), d, to + j);
        }
      }
    }
  }
}

// dL = W·(dW - D), dJ = dL·P_lᵀ, dQ += dJ·K, dK += dJᵀ·Q, and the gradients of the logits mixing and the bias.
HWY_INLINE void LogitGradients(const BackwardBlock& block, const BackwardTile& tile) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = block.scratch;
  const int64_t first_row = tile.extent.first_row, rows = plan.block - first_row;
  float* dL = tile.dW;
  SoftmaxGradientTile(plan.h, plan.block, first_row, plan.pitch, tile.W, scratch.D, dL);
  if (block.out.dbias != nullptr || block.distances != nullptr) BiasGradients(block, tile);

  float* dJ = dL;
  if (s.MixesLogits()) {
    dJ = scratch.dJ;
    if (block.logits_back.data != nullptr) {
      MixTile(plan, s.h, s.h_k, block.logits_back, first_row, false, dL, dJ);
    } else {
      ClearTile(plan, s.h_k, first_row, dJ);
    }
    if (s.R_Ml) {
      const float* R = block.packed.R_Ml + (block.b * plan.chunks + tile.chunk) * s.h_k * s.h * kChunk;
      MixByPosition(plan, s.h, s.h_k, R, kChunk, s.h * kChunk, first_row, dL, dJ);
    }
  }
  const int64_t memory = MemoryTile(plan, block.b, block.group, tile.chunk) * plan.h_k;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const float* dJ_head = dJ + k * plan.pitch + first_row * kChunk;
    WeightsTimesValues(rows, plan.d_k_padded, dJ_head,
                       block.packed.K_by_size + (memory + k) * kChunk * plan.d_k_padded,
                       scratch.dQ + (k * plan.block + first_row) * plan.d_k_padded);
    GradientOfMemory(rows, s.d_k, scratch.Q_rows + (k * plan.block + first_row) * s.d_k, dJ_head,
                     block.K + (tile.chunk * plan.h_k + k) * s.d_k * kChunk);
  }
  const int64_t at = first_row * kChunk;
  if (scratch.P_l != nullptr) {
    HeadsByHeads(s.h_k, s.h, rows * kChunkVectors, tile.J + at, dL + at, plan.pitch, kLanes, scratch.P_l, s.h * kLanes,
                 kLanes);
  }
  if (block.R_Ml != nullptr) {
    float* R = block.R_Ml + tile.chunk * s.h_k * s.h * kChunk;
    for (int j = 0; j < kChunk; j += kLanes) {
      HeadsByHeads(s.h_k, s.h, rows, tile.J + at + j, dL + at + j, plan.pitch, kChunk, R + j, s.h * kChunk, kChunk);
    }
  }
  if (s.R_Xl && block.out.dR_Xl != nullptr) {
    for (int64_t q = first_row; q < plan.block; ++q) {
      HeadsByHeads(s.h_k, s.h, kChunkVectors, tile.J + q * kChunk, dL + q * kChunk, plan.pitch, kLanes,
                   scratch.R_Xl + q * s.h_k * s.h * kLanes, s.h * kLanes, kLanes);
    }
  }
}

// out[i] = Σ lanes of lanes[i].
HWY_INLINE void SumLanes(int64_t count, const float* lanes, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = SumOfLanes(lanes + i * kLanes);
}

HWY_NOINLINE inline void BackwardOneBlock(BackwardBlock& block, const ConstRows& O, const ConstRows& dO,
                                   const AttentionStatistics& statistics) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const BackwardScratch& scratch = block.scratch;
  PackBackwardBlock(block, O, dO, statistics);
  const int64_t xl = s.h_k * s.h, xw = s.h * s.h_v;
  if (s.R_Xl && block.out.dR_Xl != nullptr) std::fill_n(scratch.R_Xl, plan.block * xl * kLanes, 0.0f);
  if (s.R_Xw && block.out.dR_Xw != nullptr) std::fill_n(scratch.R_Xw, plan.block * xw * kLanes, 0.0f);

  if (s.MixesWeights()) {
    std::fill_n(scratch.D_sums, plan.h * plan.block * kLanes, 0.0f);
    for (int64_t c = 0; c < plan.chunks; ++c) {
      const BackwardTile tile = TileOf(block, c);
      if (tile.extent.skip) continue;
      RecomputeTile(block, tile);
      AddRowProducts(plan.h, plan.block, tile.extent.first_row, plan.pitch, tile.W, tile.dW, scratch.D_sums);
      if (plan.keep_rows) ValueGradients(block, tile);
    }
    SumLanes(plan.h * plan.block, scratch.D_sums, scratch.D);
  }
  for (int64_t c = 0; c < plan.chunks; ++c) {
    const BackwardTile tile = TileOf(block, c);
    if (tile.extent.skip) continue;
    if (!plan.keep_rows) {
      RecomputeTile(block, tile);
      ValueGradients(block, tile);
    }
    LogitGradients(block, tile);
  }

  for (int64_t q = 0; q < block.valid_rows; ++q) {
    float* row = block.out.dQ.data + block.Query(q) * block.out.dQ.stride + block.group * plan.h_k * s.d_k;
    for (int64_t k = 0; k < plan.h_k; ++k) {
      const float* from = scratch.dQ + (k * plan.block + q) * plan.d_k_padded;
      CopyScaled(s.d_k, block.in.scale, from, row + k * s.d_k);
    }
    if (s.R_Xl && block.out.dR_Xl != nullptr) {
      SumLanes(xl, scratch.R_Xl + q * xl * kLanes, block.out.dR_Xl + block.Query(q) * xl);
    }
    if (s.R_Xw && block.out.dR_Xw != nullptr) {
      SumLanes(xw, scratch.R_Xw + q * xw * kLanes, block.out.dR_Xw + block.Query(q) * xw);
    }
  }
}

// One task: a range of query blocks of some batch rows and groups, whose sums over queries it owns.
HWY_NOINLINE inline void BackwardTask(const AttentionPlan& plan, const BackwardTasks& tasks, const AttentionInputs& in,
                               const PackedMemory& packed, const BackwardSums& sums, const BackwardScratch& shared,
                               const ConstRows& O, const AttentionStatistics& statistics, const ConstRows& dO,
                               const AttentionGradients& out, int64_t task) {
  const AttentionShape& s = plan.shape;
  const int64_t split = task % plan.splits;
  const int64_t group_range = s.h / plan.h / tasks.groups, batch_range = s.b / tasks.batches;
  const int64_t first_group = task / plan.splits % tasks.groups * group_range;
  const int64_t first_batch = task / plan.splits / tasks.groups * batch_range;

  BackwardScratch scratch = shared;
  if (sums.P_l == nullptr) scratch.P_l = nullptr;
  if (sums.P_w == nullptr) scratch.P_w = nullptr;
  if (scratch.P_l != nullptr) std::fill_n(scratch.P_l, s.h_k * s.h * kLanes, 0.0f);
  if (scratch.P_w != nullptr) std::fill_n(scratch.P_w, s.h * s.h_v * kLanes, 0.0f);
  const int64_t distances = plan.h * group_range * plan.Distances();
  float* const task_distances = sums.distances == nullptr ? nullptr : sums.distances + task * distances;
  if (task_distances != nullptr) std::fill_n(task_distances, distances, 0.0f);

  for (int64_t b = first_batch; b < first_batch + batch_range; ++b) {
    for (int64_t g = first_group; g < first_group + group_range; ++g) {
      const int64_t memory = sums.Split(plan, b, g, split);
      float* K = sums.K + memory * sums.K_size;
      float* V = sums.V + memory * sums.V_size;
      float* R_Ml = sums.R_Ml == nullptr ? nullptr : sums.R_Ml + memory * sums.R_Ml_size;
      float* R_Mw = sums.R_Mw == nullptr ? nullptr : sums.R_Mw + memory * sums.R_Mw_size;
      if (g == first_group) {
        std::fill_n(K, sums.K_size, 0.0f);
        std::fill_n(V, sums.V_size, 0.0f);
        if (R_Ml != nullptr) std::fill_n(R_Ml, sums.R_Ml_size, 0.0f);
        if (R_Mw != nullptr) std::fill_n(R_Mw, sums.R_Mw_size, 0.0f);
      }
      for (int64_t i = plan.blocks * split / plan.splits; i < plan.blocks * (split + 1) / plan.splits; ++i) {
        BackwardBlock block{MakeQueryBlock(plan, in, packed, b, g, i), scratch, out, K, V, R_Ml, R_Mw, task_distances,
                            {}, {}, {}};
        BackwardOneBlock(block, O, dO, statistics);
      }
    }
  }
  if (scratch.P_l != nullptr) SumLanes(s.h_k * s.h, scratch.P_l, sums.P_l + task * s.h_k * s.h);
  if (scratch.P_w != nullptr) SumLanes(s.h * s.h_v, scratch.P_w, sums.P_w + task * s.h * s.h_v);
}

// The sums of all splits of one chunk, in order, into the rows of `out`: tile[size, kChunk] becomes kChunk rows.
HWY_INLINE void FinishTile(const AttentionPlan& plan, int64_t size, float* first_split, int64_t split_size, float scale,
                           int64_t rows, float* out, int64_t stride) {
  const Lane d;
  for (int64_t split = 1; split < plan.splits; ++split) {
    const float* other = first_split + split * split_size;
    for (int64_t i = 0; i < size * kChunk; i += kLanes) {
      hn::Store(hn::Add(hn::Load(d, first_split + i), hn::Load(d, other + i)), d, first_split + i);
    }
  }
  if (rows == kChunk) {
    TransposeScaled(size, size, kChunk, first_split, kChunk, scale, out, stride);
  } else {
    TransposeScaled(size, size, rows, first_split, kChunk, scale, out, stride);
  }
}

HWY_NOINLINE inline void FinishMemoryChunk(const AttentionPlan& plan, const AttentionInputs& in, const BackwardSums& sums,
                                    const AttentionGradients& out, int64_t b, int64_t chunk) {
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk, rows = std::min<int64_t>(kChunk, s.m - first), position = b * s.m + first;
  for (int64_t g = 0; g < plan.memory_groups; ++g) {
    const int64_t memory = sums.Split(plan, b, g, 0);
    for (int64_t k = 0; k < plan.h_k; ++k) {
      FinishTile(plan, s.d_k, sums.K + memory * sums.K_size + (chunk * plan.h_k + k) * s.d_k * kChunk, sums.K_size,
                 in.scale, rows, out.dK.data + position * out.dK.stride + (g * plan.h_k + k) * s.d_k, out.dK.stride);
    }
    for (int64_t k = 0; k < plan.h_v; ++k) {
      FinishTile(plan, s.d_v, sums.V + memory * sums.V_size + (chunk * plan.h_v + k) * s.d_v * kChunk, sums.V_size, 1.0f,
                 rows, out.dV.data + position * out.dV.stride + (g * plan.h_v + k) * s.d_v, out.dV.stride);
    }
  }
  const int64_t memory = sums.Split(plan, b, 0, 0);
  if (sums.R_Ml != nullptr) {
    const int64_t size = s.h_k * s.h;
    FinishTile(plan, size, sums.R_Ml + memory * sums.R_Ml_size + chunk * size * kChunk, sums.R_Ml_size, 1.0f, rows,
               out.dR_Ml + position * size, size);
  }
  if (sums.R_Mw != nullptr) {
    const int64_t size = s.h * s.h_v;
    FinishTile(plan, size, sums.R_Mw + memory * sums.R_Mw_size + chunk * size * kChunk, sums.R_Mw_size, 1.0f, rows,
               out.dR_Mw + position * size, size);
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
