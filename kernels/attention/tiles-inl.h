// One tile: `block` queries by kChunk memory positions, from Q and K to the logits, which forward and backward compute
// alike. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_TILES_INL_H_
#undef CROSSTALK_ATTENTION_TILES_INL_H_
#else
#define CROSSTALK_ATTENTION_TILES_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/attention/elements-inl.h"
#include "kernels/attention/pack-inl.h"
#include "kernels/attention/plan.h"
#include "kernels/attention/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// A mixing matrix packed for MixHeads; query q's lies at data + q · query_stride (0: all queries share it). Null: none.
struct PackedMixing {
  const float* data = nullptr;
  int64_t query_stride = 0;
};

// A block of queries of one batch row and head group, and what its tiles read.
struct QueryBlock {
  const AttentionPlan& plan;
  const AttentionInputs& in;
  const PackedMemory& packed;
  int64_t b, group, first_query, valid_rows;
  const float* Q = nullptr;  // PackQueries of each head: [h_k][block/8][d_k][8]
  PackedMixing logits;       // P_l + R_Xl

  int64_t Query(int64_t row) const { return b * plan.shape.n + first_query + row; }
  // First element of this block's row 0 and this group's head `k` in a [b, h, n] array.
  int64_t Statistic(int64_t k) const {
    return (b * plan.shape.h + group * plan.h + k) * plan.shape.n + first_query;
  }
};

inline QueryBlock MakeQueryBlock(const AttentionPlan& plan, const AttentionInputs& in, const PackedMemory& packed,
                                 int64_t b, int64_t group, int64_t index) {
  const int64_t first = index * plan.block;
  return {plan, in, packed, b, group, first, std::min(plan.block, plan.shape.n - first), nullptr, {}};
}

// Each query's P + R, packed for MixHeads; row `in` times factors[in · block + query] where they are given.
HWY_INLINE void PackQueryMixings(const QueryBlock& block, int64_t h_in, int64_t h_out, const float* P, const float* R,
                                 const float* factors, float* matrix, float* packed) {
  const int64_t size = h_in * h_out;
  if (R == nullptr) AddMatrices(size, P, nullptr, matrix);
  for (int64_t q = 0; q < block.plan.block; ++q) {
    // Rows behind the last query take its matrix: their results are not used.
    const int64_t query = block.Query(std::min(q, block.valid_rows - 1));
    if (R != nullptr) AddMatrices(size, P, R + query * size, matrix);
    PackMixing(h_in, h_out, matrix, factors == nullptr ? nullptr : factors + q, block.plan.block, packed + q * size);
  }
}

// The same for the transpose of A[h_out, h_in] = P + R.
HWY_INLINE void PackQueryMixingsTransposed(const QueryBlock& block, int64_t h_in, int64_t h_out, const float* P,
                                           const float* R, float* matrix, float* transposed, float* packed) {
  const int64_t size = h_in * h_out;
  for (int64_t q = 0; q < block.plan.block; ++q) {
    AddMatrices(size, P, R + block.Query(std::min(q, block.valid_rows - 1)) * size, matrix);
    TransposeScaled(h_out, h_out, h_in, matrix, h_in, 1.0f, transposed, h_out);
    PackMixing(h_in, h_out, transposed, nullptr, 0, packed + q * size);
  }
}

// to[i] = factor · from[i]; from is aligned and padded to whole vectors.
HWY_INLINE void CopyScaled(int64_t count, float factor, const float* from, float* to) {
  const Lane d;
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Mul(f, hn::Load(d, from + i)), d, to + i);
  for (; i < count; ++i) to[i] = factor * from[i];
}

// Σ a·b, in the order that the vector width decides.
HWY_INLINE float DotProduct(int64_t count, const float* a, const float* b) {
  const Lane d;
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float rest = 0;
  for (; i < count; ++i) rest += a[i] * b[i];
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

// Which part of a tile there is to compute.
struct TileExtent {
  bool skip = false;      // no query of the block may attend to the chunk
  bool starts = false;    // the logits start from a bias or a mask instead of 0
  int64_t first_row = 0;  // rows before it may not attend to the chunk (causal); a multiple of kQueryGroup
};

inline TileExtent ExtentOf(const QueryBlock& block, int64_t chunk) {
  const AttentionShape& s = block.plan.shape;
  TileExtent extent;
  const uint8_t state = block.packed.chunk_state[block.b * block.plan.chunks + chunk];
  extent.skip = state == kChunkMasked;
  extent.starts = state == kChunkPartlyMasked || s.bias != AttentionBias::kNone || block.in.pair_mask != nullptr;
  if (s.causality == AttentionCausality::kCausal) {
    const int64_t last_seen = block.first_query + s.m - s.n;  // by row 0
    const int64_t first = chunk * kChunk;
    extent.skip |= first > last_seen + block.valid_rows - 1;
    extent.starts |= first + kChunk - 1 > last_seen;
    extent.first_row = std::max<int64_t>(0, (first - last_seen) / kQueryGroup * kQueryGroup);
  }
  return extent;
}

// tile = bias, or kMaskedLogit where not to attend.
HWY_NOINLINE inline void StartLogits(const QueryBlock& block, int64_t chunk, int64_t first_row, float* tile) {
  const Lane d;
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk;
  const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
  const float* memory_mask = block.packed.mask + block.b * plan.m_padded() + first;
  HWY_ALIGN float start[kChunk];
  HWY_ALIGN float tail[kChunk] = {};
  for (int64_t q = first_row; q < plan.block; ++q) {
    const int64_t i = block.first_query + q;
    const bool real = i < s.n;
    std::copy_n(memory_mask, kChunk, start);
    if (s.causality == AttentionCausality::kCausal) {
      for (int64_t j = std::clamp<int64_t>(i + s.m - s.n + 1 - first, 0, kChunk); j < kChunk; ++j) start[j] = kMaskedLogit;
    }
    if (block.in.pair_mask != nullptr && real) {
      const uint8_t* pairs = block.in.pair_mask + (block.b * s.n + i) * s.m + first;
      for (int64_t j = 0; j < valid; ++j) start[j] = pairs[j] != 0 ? start[j] : kMaskedLogit;
    }
    for (int64_t k = 0; k < plan.h; ++k) {
      float* row = tile + k * plan.pitch + q * kChunk;
      const int64_t head = block.group * plan.h + k;
      const float* bias = tail;
      if (block.packed.distance_bias != nullptr) {
        bias = block.packed.distance_bias + head * plan.Distances() + (first - i + plan.n_padded() - 1);
      } else if (block.in.bias != nullptr && s.bias == AttentionBias::kDense && real) {
        bias = block.in.bias + (head * s.n + i) * s.m + first;
        if (valid < kChunk) {
          std::copy_n(bias, valid, tail);
          bias = tail;
        }
      }
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        hn::Store(hn::Add(hn::Load(d, start + j), hn::LoadU(d, bias + j)), d, row + j);
      }
      if (bias == tail && valid < kChunk) std::fill_n(tail, kChunk, 0.0f);
    }
  }
}

// B[out][row] (+)= Σ_in A[in, out] · B[in][row] for every row, with each query's matrix.
HWY_INLINE void MixTile(const AttentionPlan& plan, int64_t h_in, int64_t h_out, const PackedMixing& mixing,
                        int64_t first_row, bool accumulate, const float* from, float* to) {
  const HeadBlocks blocks(h_out, kMixRows);
  for (int64_t q = first_row; q < plan.block; ++q) {
    const float* packed = mixing.data + q * mixing.query_stride;
    if (accumulate) {
      MixHeads<true>(blocks, h_in, packed, from + q * kChunk, to + q * kChunk, plan.pitch);
    } else {
      MixHeads<false>(blocks, h_in, packed, from + q * kChunk, to + q * kChunk, plan.pitch);
    }
  }
}

HWY_INLINE void ClearTile(const AttentionPlan& plan, int64_t heads, int64_t first_row, float* tile) {
  for (int64_t k = 0; k < heads; ++k) {
    std::fill_n(tile + k * plan.pitch + first_row * kChunk, (plan.block - first_row) * kChunk, 0.0f);
  }
}

// to[out][row] += Σ_in R[in, out, position] · from[in][row], lane by lane; element (in, out) of R lies at
// R + in · in_stride + out · out_stride.
HWY_NOINLINE inline void MixByPosition(const AttentionPlan& plan, int64_t h_in, int64_t h_out, const float* R, int64_t in_stride,
                                int64_t out_stride, int64_t first_row, const float* from, float* to);

// J = scale · Q·K and L = J·P_l + … + bias, masked. Without logits mixing J is not written.
HWY_INLINE void LogitsTile(const QueryBlock& block, int64_t chunk, const TileExtent& extent, float* J, float* L) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  const int64_t rows = plan.block - extent.first_row;
  const float* K = block.packed.K_by_position +
                   MemoryTile(plan, block.b, block.group, chunk) * plan.h_k * s.d_k * kChunk;
  if (extent.starts) StartLogits(block, chunk, extent.first_row, L);
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const float* Q = block.Q + (k * plan.block + extent.first_row) * s.d_k;
    const int64_t at = k * plan.pitch + extent.first_row * kChunk;
    if (s.MixesLogits()) {
      RowsTimesMemory<false>(rows, s.d_k, Q, K + k * s.d_k * kChunk, J + at);
    } else if (extent.starts) {
      RowsTimesMemory<true>(rows, s.d_k, Q, K + k * s.d_k * kChunk, L + at);
    } else {
      RowsTimesMemory<false>(rows, s.d_k, Q, K + k * s.d_k * kChunk, L + at);
    }
  }
  if (!s.MixesLogits()) return;
  const bool by_query = block.logits.data != nullptr;
  if (by_query) MixTile(plan, s.h_k, s.h, block.logits, extent.first_row, extent.starts, J, L);
  if (s.R_Ml) {
    if (!by_query && !extent.starts) ClearTile(plan, s.h, extent.first_row, L);
    const float* R = block.packed.R_Ml + (block.b * plan.chunks + chunk) * s.h_k * s.h * kChunk;
    MixByPosition(plan, s.h_k, s.h, R, s.h * kChunk, kChunk, extent.first_row, J, L);
  }
}

// U ∘= dropout's factors for the block's rows and the group's value heads; `factors` null: computed and used only,
// else kept there for a second use.
HWY_NOINLINE inline void DropoutFactorsTile(const QueryBlock& block, int64_t chunk, int64_t first_row, float* factors) {
  const AttentionPlan& plan = block.plan;
  const AttentionShape& s = plan.shape;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const int64_t head = block.b * s.h_v + block.group * plan.h_v + k;
    for (int64_t q = first_row; q < plan.block; ++q) {
      const int64_t element = (head * s.n + block.first_query + q) * s.m + chunk * kChunk;
      DropoutFactors(block.in.dropout_key, block.in.dropout_rate, static_cast<uint64_t>(element),
                     factors + k * plan.pitch + q * kChunk);
    }
  }
}

// One 4-query × 3-head step of MixByPosition.
template <int S>
HWY_INLINE void MixByPositionColumns(int64_t h_in, const float* R, int64_t in_stride, int64_t out_stride, const float* from,
                                     float* to, int64_t pitch) {
  const Lane d;
  constexpr int kQueries = 4;
  constexpr int kV = kStepVectors;
  hn::Vec<Lane> sum[kQueries][S][kV];
  CROSSTALK_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    CROSSTALK_UNROLL
    for (int o = 0; o < S; ++o) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) sum[q][o][v] = hn::Load(d, to + o * pitch + q * kChunk + v * kLanes);
    }
  }
  for (int64_t k = 0; k < h_in; ++k) {
    hn::Vec<Lane> r[S][kV];
    CROSSTALK_UNROLL
    for (int o = 0; o < S; ++o) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) r[o][v] = hn::Load(d, R + o * out_stride + v * kLanes);
    }
    CROSSTALK_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) {
        const auto x = hn::Load(d, from + q * kChunk + v * kLanes);
        CROSSTALK_UNROLL
        for (int o = 0; o < S; ++o) sum[q][o][v] = hn::MulAdd(x, r[o][v], sum[q][o][v]);
      }
    }
    R += in_stride;
    from += pitch;
  }
  CROSSTALK_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    CROSSTALK_UNROLL
    for (int o = 0; o < S; ++o) {
      CROSSTALK_UNROLL
      for (int v = 0; v < kV; ++v) hn::Store(sum[q][o][v], d, to + o * pitch + q * kChunk + v * kLanes);
    }
  }
}

HWY_NOINLINE inline void MixByPosition(const AttentionPlan& plan, int64_t h_in, int64_t h_out, const float* R, int64_t in_stride,
                                int64_t out_stride, int64_t first_row, const float* from, float* to) {
  constexpr int kHeads = HWY_LANES(float) >= 16 ? 3 : 1;
  for (int64_t j = 0; j < kChunk; j += kStep) {
    int64_t o = 0;
    for (; o + kHeads <= h_out; o += kHeads) {
      for (int64_t q = first_row; q < plan.block; q += 4) {
        MixByPositionColumns<kHeads>(h_in, R + o * out_stride + j, in_stride, out_stride, from + q * kChunk + j,
                                     to + o * plan.pitch + q * kChunk + j, plan.pitch);
      }
    }
    for (; o < h_out; ++o) {
      for (int64_t q = first_row; q < plan.block; q += 4) {
        MixByPositionColumns<1>(h_in, R + o * out_stride + j, in_stride, out_stride, from + q * kChunk + j,
                                to + o * plan.pitch + q * kChunk + j, plan.pitch);
      }
    }
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
