// Packing: every operand of a product lies contiguously in the order in which the product reads it, padded with zeros
// to whole tiles, so that no kernel has a remainder. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_PACK_INL_H_
#undef CROSSTALK_ATTENTION_PACK_INL_H_
#else
#define CROSSTALK_ATTENTION_PACK_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"
#include "crosstalk/kernels/transpose-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// out[r, width] = in[r · in_stride + c], c < cols; zeros for the rest of each row and of the rows.
HWY_INLINE void CopyPadded(int64_t rows, int64_t padded_rows, int64_t cols, int64_t width, const float* in,
                           int64_t in_stride, float* out) {
  for (int64_t r = 0; r < padded_rows; ++r) {
    float* row = out + r * width;
    const int64_t copied = r < rows ? cols : 0;
    if (copied > 0) std::memcpy(row, in + r * in_stride, static_cast<size_t>(copied) * sizeof(float));
    if (copied < width) std::memset(row + copied, 0, static_cast<size_t>(width - copied) * sizeof(float));
  }
}

// Asks for rows that will be packed soon: their lines lie apart, out of the hardware prefetchers' sight.
HWY_INLINE void PrefetchRows(int64_t rows, int64_t cols, const float* in, int64_t in_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; c += kLine) hwy::Prefetch(in + r * in_stride + c);
  }
}

// Queries for TileNT: out[group][size][kQueryGroup], scaled.
HWY_INLINE void PackQueries(int64_t rows, int64_t padded_rows, int64_t size, const float* in, int64_t in_stride,
                            float scale, float* out) {
  PrefetchRows(rows, size, in, in_stride);
  for (int64_t q = 0; q < padded_rows; q += kQueryGroup) {
    const int64_t valid = std::clamp<int64_t>(rows - q, 0, kQueryGroup);
    TransposeScaled<float>(valid, kQueryGroup, size, in + q * in_stride, in_stride, scale, out + q * size, kQueryGroup);
  }
}

// A mixing matrix A[in, out] for MixHeads: blocks of output heads, each [in][rows of the block]; row `in` of A times
// factors[in · factor_stride] where factors are given. A has a vector of readable slack behind it; so has `packed`.
HWY_INLINE void PackMixing(int64_t h_in, int64_t h_out, const float* A, const float* factors, int64_t factor_stride,
                           float* packed) {
  const Tag<float> d;
  const HeadBlocks blocks(h_out, kMixRows);
  int64_t first = 0;
  for (int64_t i = 0; i < blocks.count; ++i) {
    const int64_t rows = blocks.Rows(i);
    for (int64_t k = 0; k < h_in; ++k) {
      const auto factor = hn::Set(d, factors == nullptr ? 1.0f : factors[k * factor_stride]);
      // Whole vectors are stored: lanes beyond the block's rows are overwritten by the next store.
      for (int64_t r = 0; r < rows; r += kLanes) {
        hn::StoreU(hn::Mul(factor, hn::LoadU(d, A + k * h_out + first + r)), d, packed + r);
      }
      packed += rows;
    }
    first += rows;
  }
}

// sum[i] = a[i] + b[i]; either may be null, which stands for zeros.
HWY_INLINE void AddMatrices(int64_t count, const float* a, const float* b, float* sum) {
  if (a == nullptr || b == nullptr) {
    std::memcpy(sum, a == nullptr ? b : a, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

// Where the K (or V) tile of a group's first head lies in its packed array.
HWY_INLINE int64_t MemoryTile(const AttentionPlan& plan, int64_t b, int64_t group, int64_t chunk) {
  return (b * plan.memory_groups + (plan.memory_groups == 1 ? 0 : group)) * plan.chunks + chunk;
}

// One chunk of one batch row's memory: K and V of all heads, and what dynamic projections belong to its positions.
HWY_NOINLINE inline void PackMemoryChunk(const AttentionPlan& plan, const AttentionInputs& in,
                                         const PackedMemory& packed, int64_t b, int64_t chunk) {
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk;
  const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
  const float* K = in.K.Row(b, first, s.m);
  const float* V = in.V.Row(b, first, s.m);
  for (int64_t g = 0; g < plan.memory_groups; ++g) {
    const int64_t tile = MemoryTile(plan, b, g, chunk);
    for (int64_t k = 0; k < plan.h_k && (packed.K_by_position != nullptr || packed.K_by_size != nullptr); ++k) {
      const float* head = K + (g * plan.h_k + k) * s.d_k;
      const int64_t at = tile * plan.h_k + k;
      PrefetchRows(valid, s.d_k, head, in.K.stride);
      if (packed.K_by_position != nullptr) {
        TransposeScaled(valid, kChunk, s.d_k, head, in.K.stride, 1.0f, packed.K_by_position + at * s.d_k * kChunk,
                        kChunk);
      }
      if (packed.K_by_size != nullptr) {
        CopyPadded(valid, kChunk, s.d_k, plan.d_k_padded, head, in.K.stride,
                   packed.K_by_size + at * kChunk * plan.d_k_padded);
      }
    }
    for (int64_t k = 0; k < plan.h_v && (packed.V_by_size != nullptr || packed.V_by_position != nullptr); ++k) {
      const float* head = V + (g * plan.h_v + k) * s.d_v;
      const int64_t at = tile * plan.h_v + k;
      PrefetchRows(valid, s.d_v, head, in.V.stride);
      if (packed.V_by_size != nullptr) {
        CopyPadded(valid, kChunk, s.d_v, plan.d_v_padded, head, in.V.stride,
                   packed.V_by_size + at * kChunk * plan.d_v_padded);
      }
      if (packed.V_by_position != nullptr) {
        TransposeScaled(valid, kChunk, s.d_v, head, in.V.stride, 1.0f, packed.V_by_position + at * s.d_v * kChunk,
                        kChunk);
      }
    }
  }
  const auto pack_mixing = [&](const ConstRows& R, int64_t size, float* out) {
    TransposeScaled(valid, kChunk, size, R.Row(b, first, s.m), R.stride, 1.0f,
                    out + (b * plan.chunks + chunk) * size * kChunk, kChunk);
  };
  if (s.R_Ml) pack_mixing(in.R_Ml, s.h_k * s.h, packed.R_Ml);
  if (s.R_Mw) pack_mixing(in.R_Mw, s.h * s.h_v, packed.R_Mw);

  float* mask = packed.mask + b * plan.m_padded() + first;
  int64_t open = 0;
  for (int64_t j = 0; j < kChunk; ++j) {
    const bool attend = j < valid && (in.key_padding_mask == nullptr || in.key_padding_mask[b * s.m + first + j] != 0);
    mask[j] = attend ? 0.0f : kMaskedLogit;
    open += attend;
  }
  packed.chunk_state[b * plan.chunks + chunk] = open == kChunk ? kChunkOpen
                                                : open > 0     ? kChunkPartlyMasked
                                                               : kChunkMasked;
}

// A mixing whose element (in, out) lies at A[in · in_stride + out · out_stride], packed for MixHeads. Scalar, as the
// caller's matrix has no slack behind it.
inline void PackStaticMixing(int64_t h_in, int64_t h_out, const float* A, int64_t in_stride, int64_t out_stride,
                             float* packed) {
  const HeadBlocks blocks(h_out, kMixRows);
  int64_t first = 0;
  for (int64_t i = 0; i < blocks.count; ++i) {
    for (int64_t in = 0; in < h_in; ++in) {
      for (int64_t out = first; out < first + blocks.Rows(i); ++out) *packed++ = A[in * in_stride + out * out_stride];
    }
    first += blocks.Rows(i);
  }
}

// The static mixings and the relative position bias: little, and once.
HWY_NOINLINE inline void PackStatic(const AttentionPlan& plan, const AttentionInputs& in, const PackedMemory& packed) {
  const AttentionShape& s = plan.shape;
  if (packed.logits != nullptr) PackStaticMixing(s.h_k, s.h, in.P_l, s.h, 1, packed.logits);
  if (packed.logits_back != nullptr) PackStaticMixing(s.h, s.h_k, in.P_l, 1, s.h, packed.logits_back);
  if (packed.weights != nullptr) PackStaticMixing(s.h, s.h_v, in.P_w, s.h_v, 1, packed.weights);
  if (packed.weights_back != nullptr) PackStaticMixing(s.h_v, s.h, in.P_w, 1, s.h_v, packed.weights_back);
  if (packed.distance_bias != nullptr) {
    const int64_t length = plan.Distances(), before = plan.n_padded() - s.n;
    for (int64_t k = 0; k < s.h; ++k) {
      float* row = packed.distance_bias + k * length;
      std::memset(row, 0, static_cast<size_t>(length) * sizeof(float));
      for (int64_t i = 0; i < s.n + s.m - 1; ++i)
        row[before + i] = in.bias_table[k * s.buckets + in.distance_bucket[i]];
    }
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
