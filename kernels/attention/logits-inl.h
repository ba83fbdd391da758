// One tile: `rows` queries by kChunk memory positions, from Q and K to the logits, which forward and backward compute
// alike. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_LOGITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_LOGITS_INL_H_
#undef CROSSTALK_ATTENTION_LOGITS_INL_H_
#else
#define CROSSTALK_ATTENTION_LOGITS_INL_H_
#endif

#include <algorithm>

#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/attention/mixing-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"

CROSSTALK_BEGIN_TARGET
// to[i] = factor · from[i]; from is aligned and padded to whole vectors.
HWY_INLINE void CopyScaled(int64_t count, float factor, const float* from, float* to) {
  const Tag<float> d;
  const auto f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Mul(f, hn::Load(d, from + i)), d, to + i);
  for (; i < count; ++i) to[i] = factor * from[i];
}

// Σ a·b in kPartialSums partial sums; zeros follow the last elements.
HWY_INLINE float DotProduct(int64_t count, const float* a, const float* b) {
  const Tag<float> d;
  hn::Vec<Tag<float>> sum[kSumVectors];
  CROSSTALK_UNROLL
  for (int v = 0; v < kSumVectors; ++v) sum[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kPartialSums <= count; i += kPartialSums) {
    CROSSTALK_UNROLL
    for (int v = 0; v < kSumVectors; ++v) {
      sum[v] = hn::MulAdd(hn::LoadU(d, a + i + v * kLanes), hn::LoadU(d, b + i + v * kLanes), sum[v]);
    }
  }
  if (i == count) return SumOfLanes64<float>(sum);
  CROSSTALK_UNROLL
  for (int v = 0; v < kSumVectors; ++v, i += kLanes) {
    const auto rest = static_cast<size_t>(std::clamp<int64_t>(count - i, 0, kLanes));
    sum[v] = hn::MulAdd(LoadFirst(d, a + i, rest), LoadFirst(d, b + i, rest), sum[v]);
  }
  return SumOfLanes64<float>(sum);
}

// Which part of a tile there is to compute.
struct TileExtent {
  bool skip = false;      // no query of the tile may attend to the chunk
  bool starts = false;    // the logits start from a bias or a mask instead of 0
  int64_t first_row = 0;  // rows before it may not attend to the chunk (causal); a multiple of query_group
};

inline TileExtent ExtentOf(const QueryTile& queries, int64_t chunk) {
  const AttentionShape& s = queries.plan->shape;
  TileExtent extent;
  const uint8_t state = queries.packed->chunk_state[chunk];
  extent.skip = state == kChunkMasked;
  extent.starts =
      state == kChunkPartlyMasked || s.bias != AttentionBias::kNone || queries.call->attention_mask != nullptr;
  if (s.causality == AttentionCausality::kCausal) {
    const int64_t last_seen = queries.first_query + s.m - s.n;  // by row 0
    const int64_t first = chunk * kChunk;
    extent.skip |= first > last_seen + queries.valid_rows - 1;
    extent.starts |= first + kChunk - 1 > last_seen;
    if (s.window > 0) {  // before first_seen row 0 sees none
      const int64_t first_seen = last_seen + 1 - s.window;
      extent.skip |= first + kChunk <= first_seen;
      extent.starts |= first < first_seen + queries.valid_rows - 1;
    }
    const int64_t query_group = queries.plan->query_group;
    extent.first_row = std::max<int64_t>(0, (first - last_seen) / query_group * query_group);
  }
  return extent;
}

// tile = bias, or kMaskedLogit where not to attend.
HWY_NOINLINE inline void StartLogits(const QueryTile& queries, int64_t chunk, int64_t first_row, float* tile) {
  const Tag<float> d;
  const AttentionPlan& plan = *queries.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk;
  const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
  const float* key_padding_mask = queries.packed->mask + first;
  const auto masked = hn::Set(d, kMaskedLogit);
  const int64_t distances = plan.Distances(), origin = plan.n_padded() - 1;
  HWY_ALIGN float start[kChunk];
  HWY_ALIGN float tail[kChunk] = {};
  HWY_ALIGN static constexpr float kNoBias[kChunk] = {};
  for (int64_t q = first_row; q < plan.rows; ++q) {
    const int64_t i = queries.first_query + q;
    const bool real = i < s.n;
    const int64_t seen = s.causality == AttentionCausality::kCausal ? i + s.m - s.n + 1 - first : kChunk;
    const auto visible = hn::Set(d, static_cast<float>(std::clamp<int64_t>(seen, 0, kChunk)));
    const int64_t passed = s.window > 0 ? seen - s.window : 0;
    const auto hidden = hn::Set(d, static_cast<float>(std::clamp<int64_t>(passed, 0, kChunk)));
    CROSSTALK_UNROLL
    for (int j = 0; j < kChunk; j += kLanes) {
      const auto padding = hn::Load(d, key_padding_mask + j);
      const auto position = hn::Iota(d, static_cast<float>(j));
      hn::Store(hn::IfThenElse(hn::And(hn::Le(hidden, position), hn::Lt(position, visible)), padding, masked), d,
                start + j);
    }
    if (queries.call->attention_mask != nullptr && real) {
      const uint8_t* allowed = queries.call->attention_mask + (queries.b * s.n + i) * s.m + first;
      for (int64_t j = 0; j < valid; ++j) start[j] = allowed[j] != 0 ? start[j] : kMaskedLogit;
    }
    const int64_t head = queries.group * plan.h;
    const float* bias = kNoBias;  // of the first head; those of the others are `step` apart
    int64_t step = 0;
    if (s.bias == AttentionBias::kRelativePosition && real) {
      bias = queries.packed->distance_bias + head * distances + (first - i + origin);
      step = distances;
    } else if (s.bias == AttentionBias::kDense && real) {
      bias = queries.call->bias.data() + (head * s.n + i) * s.m + first;
      step = s.n * s.m;
    }
    const bool ends = s.bias == AttentionBias::kDense && real && valid < kChunk;
    float* row = tile + q * kChunk;
    for (int64_t k = 0; k < plan.h; ++k, bias += step, row += plan.pitch) {
      if (ends) std::copy_n(bias, valid, tail);
      const float* from = ends ? tail : bias;
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        // Instead of the bias, not added to it: whatever the bias is there, infinite or NaN, has no effect.
        const auto mask = hn::Load(d, start + j);
        hn::Store(hn::IfThenElse(hn::Eq(mask, masked), mask, hn::LoadU(d, from + j)), d, row + j);
      }
    }
  }
}

// tile[head][row][j] = scale · Q·K (plus what the tile holds already), straight from the inputs.
HWY_NOINLINE inline void LogitsInPlace(const QueryTile& queries, int64_t chunk, bool accumulate, float* tile) {
  const AttentionPlan& plan = *queries.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk, valid = std::min<int64_t>(kChunk, s.m - first);
  if (!accumulate) std::fill_n(tile, plan.TileFloats(plan.h_k), 0.0f);
  for (int64_t j = 0; j < valid; ++j) {
    const float* row = queries.call->K.Row(queries.b, first + j, s.m);
    for (int64_t k = 0; k < plan.h_k; ++k) {
      const float* K = row + plan.keys.Of(queries.group * plan.h_k + k) * s.d_k;
      for (int64_t q = 0; q < queries.valid_rows; ++q) {
        const float* Q =
            queries.call->Q.Row(queries.b, queries.first_query + q, s.n) + (queries.group * plan.h_k + k) * s.d_k;
        tile[k * plan.pitch + q * kChunk + j] += static_cast<float>(queries.call->scale) * DotProduct(s.d_k, Q, K);
      }
    }
  }
}

// O[head][row] += Σ_j U[head][row][j] · V, straight from the input.
HWY_NOINLINE inline void AddValuesInPlace(const QueryTile& queries, int64_t chunk, const float* U, float* O) {
  const Tag<float> d;
  const AttentionPlan& plan = *queries.plan;
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk, valid = std::min<int64_t>(kChunk, s.m - first);
  for (int64_t j = 0; j < valid; ++j) {
    const float* row = queries.call->V.Row(queries.b, first + j, s.m);
    for (int64_t k = 0; k < plan.h_v; ++k) {
      const float* v = row + plan.values.Of(queries.group * plan.h_v + k) * s.d_v;
      for (int64_t q = 0; q < queries.valid_rows; ++q) {
        const float u = U[k * plan.pitch + q * kChunk + j];
        float* sum = O + (k * plan.rows + q) * plan.d_v_padded;
        ForVectors(
            d, s.d_v,
            [&](int64_t e) HWY_ATTR {
              hn::Store(hn::MulAdd(hn::Set(d, u), hn::LoadU(d, v + e), hn::Load(d, sum + e)), d, sum + e);
            },
            [&](int64_t e, size_t rest) HWY_ATTR {
              hn::Store(hn::MulAdd(hn::Set(d, u), LoadFirst(d, v + e, rest), hn::Load(d, sum + e)), d, sum + e);
            });
      }
    }
  }
}

// J = scale · Q·K and L = J·P_l + … + bias, masked. Without logits mixing J is not written. J and the mixings are float
// whatever Q and K are.
template <class Terms>
HWY_INLINE void LogitsTile(const QueryTile& queries, int64_t chunk, const TileExtent& extent, float* J, float* L) {
  const AttentionPlan& plan = *queries.plan;
  const AttentionShape& s = plan.shape;
  const int64_t rows = plan.rows - extent.first_row;
  if (extent.starts) StartLogits(queries, chunk, extent.first_row, L);
  const int64_t depth = CeilDivide<int64_t>(s.d_k, Terms::kTerms), K_size = depth * kChunk, share = K_size / plan.tiles;
  if (plan.in_place) LogitsInPlace(queries, chunk, extent.starts && !s.MixesLogits(), s.MixesLogits() ? J : L);
  const LaneOf<Terms>* K = In<Terms>(queries.packed->K_by_position);
  for (int64_t k = 0; k < plan.h_k && !plan.in_place; ++k) {
    const LaneOf<Terms>* K_head = K + TileReadBy(plan, plan.keys, queries.group, k, chunk) * K_size;
    const LaneOf<Terms>* next = NextShare(queries, K_head + plan.keys.in_group * K_size, K_size);
    const LaneOf<Terms>* Q = In<Terms>(queries.Q) + (k * plan.rows + extent.first_row) * depth;
    const int64_t at = k * plan.pitch + extent.first_row * kChunk;
    if (s.MixesLogits()) {
      TileNT<Terms, Result::kSet>(queries.tiles, rows, depth, Q, K_head, J + at, next, share);
    } else if (extent.starts) {
      TileNT<Terms, Result::kAdd>(queries.tiles, rows, depth, Q, K_head, L + at, next, share);
    } else {
      TileNT<Terms, Result::kSet>(queries.tiles, rows, depth, Q, K_head, L + at, next, share);
    }
  }
  if (!s.MixesLogits()) return;
  if (extent.starts) {
    MixSide<FloatTerms, Result::kAdd>(queries, kLogits, chunk, extent.first_row, J, L);
  } else {
    MixSide<FloatTerms, Result::kSet>(queries, kLogits, chunk, extent.first_row, J, L);
  }
}

// A chunk's logits of the one head to where the call keeps them, and back.
HWY_INLINE void KeepLogits(const QueryTile& queries, int64_t chunk, int64_t first_row, const float* tile) {
  for (int64_t q = first_row; q < queries.valid_rows; ++q) {
    std::copy_n(tile + q * kChunk, kChunk, queries.L + q * queries.plan->m_padded() + chunk * kChunk);
  }
}
HWY_INLINE void TakeLogits(const QueryTile& queries, int64_t chunk, int64_t first_row, float* tile) {
  for (int64_t q = first_row; q < queries.plan->rows; ++q) {
    if (q < queries.valid_rows) {
      std::copy_n(queries.L + q * queries.plan->m_padded() + chunk * kChunk, kChunk, tile + q * kChunk);
    } else {
      std::fill_n(tile + q * kChunk, kChunk, 0.0f);
    }
  }
}

// Dropout's factors for the tile's rows and the group's value heads.
HWY_NOINLINE inline void DropoutFactorsTile(const QueryTile& queries, int64_t chunk, int64_t first_row,
                                            float* factors) {
  const AttentionPlan& plan = *queries.plan;
  const AttentionShape& s = plan.shape;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const int64_t head = queries.b * s.h_v + queries.group * plan.h_v + k;
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const int64_t element = (head * s.n + queries.first_query + q) * s.m + chunk * kChunk;
      DropoutFactors(queries.call->dropout_key, queries.call->dropout_rate, static_cast<uint64_t>(element),
                     factors + k * plan.pitch + q * kChunk);
    }
  }
}

CROSSTALK_END_TARGET

#endif
