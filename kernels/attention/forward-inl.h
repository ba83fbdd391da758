// Forward, one block of queries at a time. With weights mixing the memory is passed twice: first the weights of the
// whole rows, which stay in cache (or are computed again), then U and O, once the normalisers of all heads are known.
// Without it one pass is enough. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_FORWARD_INL_H_
#undef CROSSTALK_ATTENTION_FORWARD_INL_H_
#else
#define CROSSTALK_ATTENTION_FORWARD_INL_H_
#endif

#include "kernels/attention/tiles-inl.h"

#ifndef CROSSTALK_ATTENTION_FORWARD_SCRATCH_
#define CROSSTALK_ATTENTION_FORWARD_SCRATCH_
namespace crosstalk::kernels {

// What one thread needs for a block of queries.
struct ForwardScratch {
  ForwardScratch(const AttentionPlan& plan, Carver& carver) {
    const AttentionShape& s = plan.shape;
    Q = carver.Floats(plan.h_k * plan.block * s.d_k);
    J = s.MixesLogits() ? carver.Floats(plan.TileFloats(plan.h_k)) : nullptr;
    W = carver.Floats(plan.TileFloats(plan.h) * (plan.keep_rows ? plan.chunks : 1));
    U = s.MixesWeights() ? carver.Floats(plan.TileFloats(plan.h_v)) : nullptr;
    dropout = carver.Floats(plan.TileFloats(plan.h_v));
    O = carver.Floats(plan.h_v * plan.block * plan.d_v_padded);
    references = carver.Floats(plan.h * plan.block);
    reciprocals = carver.Floats(plan.h * plan.block);
    sums = carver.Floats(plan.h * plan.block * kMaxLanes);
    logits = s.R_Xl ? carver.Floats(plan.block * s.h_k * s.h) : nullptr;
    weights = s.MixesWeights() ? carver.Floats(plan.block * s.h * s.h_v) : nullptr;
    matrix = s.MixesLogits() || s.MixesWeights() ? carver.Floats(std::max(s.h_k * s.h, s.h * s.h_v)) : nullptr;
  }
  float *Q, *J, *W, *U, *dropout, *O, *references, *reciprocals, *sums, *logits, *weights, *matrix;
};

}  // namespace crosstalk::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// O += U · V for one tile, U with dropout.
HWY_INLINE void AddValues(const QueryBlock& block, int64_t chunk, const TileExtent& extent, float* dropout, float* U,
                          float* O) {
  const AttentionPlan& plan = block.plan;
  if (block.in.dropout_rate > 0) {
    DropoutFactorsTile(block, chunk, extent.first_row, dropout);
    MultiplyTile(plan.h_v, plan.block, extent.first_row, plan.pitch, dropout, U);
  }
  const float* V = block.packed.V_by_size +
                   MemoryTile(plan, block.b, block.group, chunk) * plan.h_v * kChunk * plan.d_v_padded;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    WeightsTimesValues(plan.block - extent.first_row, plan.d_v_padded, U + k * plan.pitch + extent.first_row * kChunk,
                       V + k * kChunk * plan.d_v_padded, O + (k * plan.block + extent.first_row) * plan.d_v_padded);
  }
}

HWY_NOINLINE inline void ForwardBlock(const AttentionPlan& plan, const AttentionInputs& in, const PackedMemory& packed,
                               const ForwardScratch& scratch, const Rows& O, const AttentionStatistics& statistics,
                               int64_t b, int64_t group, int64_t index) {
  const AttentionShape& s = plan.shape;
  QueryBlock block = MakeQueryBlock(plan, in, packed, b, group, index);
  for (int64_t k = 0; k < plan.h_k; ++k) {
    PackQueries(block.valid_rows, plan.block, s.d_k, in.Q.data + block.Query(0) * in.Q.stride + (group * plan.h_k + k) * s.d_k,
                in.Q.stride, in.scale, scratch.Q + k * plan.block * s.d_k);
  }
  block.Q = scratch.Q;
  if (s.R_Xl) {
    PackQueryMixings(block, s.h_k, s.h, s.P_l ? in.P_l : nullptr, in.R_Xl, nullptr, scratch.matrix, scratch.logits);
    block.logits = {scratch.logits, s.h_k * s.h};
  } else if (s.P_l) {
    block.logits = {packed.logits, 0};
  }

  const int64_t statistics_count = plan.h * plan.block;
  const int64_t O_size = plan.block * plan.d_v_padded;
  std::fill_n(scratch.references, statistics_count, kNoReference);
  std::fill_n(scratch.sums, statistics_count * kLanes, 0.0f);
  std::fill_n(scratch.O, plan.h_v * O_size, 0.0f);

  const int64_t tile = plan.TileFloats(plan.h);
  for (int64_t c = 0; c < plan.chunks; ++c) {
    const TileExtent extent = ExtentOf(block, c);
    if (extent.skip) continue;
    float* W = scratch.W + (plan.keep_rows ? c * tile : 0);
    LogitsTile(block, c, extent, scratch.J, W);
    ExponentialsOnline(plan.h, plan.block, extent.first_row, plan.pitch, W, scratch.references, scratch.sums,
                       [&](int64_t k, int64_t q, float factor) {
                         if (!s.MixesWeights()) {
                           float* row = scratch.O + k * O_size + q * plan.d_v_padded;
                           for (int64_t e = 0; e < plan.d_v_padded; ++e) row[e] *= factor;
                         } else if (plan.keep_rows) {
                           for (int64_t before = 0; before < c; ++before) {
                             float* row = scratch.W + before * tile + k * plan.pitch + q * kChunk;
                             for (int j = 0; j < kChunk; ++j) row[j] *= factor;
                           }
                         }
                       });
    if (!s.MixesWeights()) AddValues(block, c, extent, scratch.dropout, W, scratch.O);
  }

  for (int64_t k = 0; k < plan.h; ++k) {
    for (int64_t q = 0; q < plan.block; ++q) {
      const float sum = SumOfLanes(scratch.sums + (k * plan.block + q) * kLanes);
      const float reciprocal = sum == 0.0f ? 0.0f : 1.0f / sum;  // NaN stays NaN
      scratch.reciprocals[k * plan.block + q] = reciprocal;
      if (q < block.valid_rows) {
        statistics.reference[block.Statistic(k) + q] = scratch.references[k * plan.block + q];
        statistics.reciprocal[block.Statistic(k) + q] = reciprocal;
      }
    }
  }

  if (s.MixesWeights()) {
    // The normalisers scale the rows of each query's matrix, which are fewer than the weights; only a mixing by
    // position needs W itself.
    const bool normalise = s.R_Mw || !plan.keep_rows;
    PackedMixing weights;
    if (s.P_w || s.R_Xw) {
      PackQueryMixings(block, s.h, s.h_v, s.P_w ? in.P_w : nullptr, s.R_Xw ? in.R_Xw : nullptr,
                       normalise ? nullptr : scratch.reciprocals, scratch.matrix, scratch.weights);
      weights = {scratch.weights, s.h * s.h_v};
    }
    for (int64_t c = 0; c < plan.chunks; ++c) {
      const TileExtent extent = ExtentOf(block, c);
      if (extent.skip) continue;
      float* W = scratch.W + (plan.keep_rows ? c * tile : 0);
      if (!plan.keep_rows) {
        LogitsTile(block, c, extent, scratch.J, W);
        ExponentialsGiven(plan.h, plan.block, extent.first_row, plan.pitch, W, scratch.references, scratch.reciprocals);
      } else if (normalise) {
        ScaleRows(plan.h, plan.block, extent.first_row, plan.pitch, scratch.reciprocals, W);
      }
      if (weights.data != nullptr) {
        MixTile(plan, s.h, s.h_v, weights, extent.first_row, false, W, scratch.U);
      } else {
        ClearTile(plan, s.h_v, extent.first_row, scratch.U);
      }
      if (s.R_Mw) {
        MixByPosition(plan, s.h, s.h_v, packed.R_Mw + (b * plan.chunks + c) * s.h * s.h_v * kChunk, s.h_v * kChunk, kChunk,
                      extent.first_row, W, scratch.U);
      }
      AddValues(block, c, extent, scratch.dropout, scratch.U, scratch.O);
    }
  }

  for (int64_t q = 0; q < block.valid_rows; ++q) {
    float* row = O.data + block.Query(q) * O.stride + group * plan.h_v * s.d_v;
    for (int64_t k = 0; k < plan.h_v; ++k) {
      const float* from = scratch.O + k * O_size + q * plan.d_v_padded;
      const float factor = s.MixesWeights() ? 1.0f : scratch.reciprocals[k * plan.block + q];
      CopyScaled(s.d_v, factor, from, row + k * s.d_v);
    }
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
