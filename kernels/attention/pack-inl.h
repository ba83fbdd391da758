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
#include <initializer_list>

#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"
#include "crosstalk/kernels/transpose-inl.h"
#include "hwy/cache_control.h"

CROSSTALK_BEGIN_TARGET

// out[r, width] = in[r · in_stride + c], c < cols; zeros for the rest of each row and of the rows.
HWY_INLINE void CopyPadded(int64_t rows, int64_t padded_rows, int64_t cols, int64_t width, const float* in,
                           int64_t in_stride, float* out) {
  const Tag<float> d;
  for (int64_t r = 0; r < padded_rows; ++r) {
    const float* from = in + r * in_stride;
    float* row = out + r * width;
    int64_t c = 0;
    if (r < rows) {
      for (; c + kLanes <= cols; c += kLanes) hn::StoreU(hn::LoadU(d, from + c), d, row + c);
      for (; c < cols; ++c) row[c] = from[c];
    }
    for (; c < width; ++c) row[c] = 0.0f;
  }
}

// Asks for rows that will be packed soon: their lines lie apart, out of the hardware prefetchers' sight.
HWY_INLINE void PrefetchRows(int64_t rows, int64_t cols, const ConstRows& in) {
  for (int64_t r = 0; r < rows; ++r) {
    if (in.is_bfloat16()) {
      for (int64_t c = 0; c < cols; c += 2 * kLine) hwy::Prefetch(in.bfloat16() + r * in.stride + c);
    } else {
      for (int64_t c = 0; c < cols; c += kLine) hwy::Prefetch(in.data() + r * in.stride + c);
    }
  }
}

// What a pass reads of each batch row: rows[positions, cols].
struct BatchRowOperand {
  const ConstRows& rows;
  int64_t positions, cols;
};

// Asks the second-level cache for a share of batch row b, which will be read next, if it has room for all of it. A
// head's rows lie in lines apart, out of the hardware prefetchers' sight.
HWY_INLINE void PrefetchBatchRow(std::initializer_list<BatchRowOperand> operands, int64_t b, int64_t share,
                                 int64_t shares) {
  constexpr int64_t kMostFloats = (512 << 10) / sizeof(float);  // half of a cache of 1 MB
  int64_t all = 0;
  for (const BatchRowOperand& operand : operands) all += operand.positions * operand.cols;
  if (all > kMostFloats) return;
  for (const auto& [rows, positions, cols] : operands) {
    for (int64_t i = positions * share / shares; i < positions * (share + 1) / shares; ++i) {
      const ConstRows row = rows.From(b, i, positions);
      if (row.is_bfloat16()) {
        for (int64_t c = 0; c < cols; c += 2 * kLine) __builtin_prefetch(row.bfloat16() + c, 0, 2);
      } else {
        for (int64_t c = 0; c < cols; c += kLine) __builtin_prefetch(row.data() + c, 0, 2);
      }
    }
  }
}

// out[p][width] = the pairs of rows p · step and p · step + distance of in[rows, cols]; zeros beyond.
template <class Terms>
HWY_INLINE void PackRowPairs(int64_t pairs, int64_t step, int64_t distance, int64_t rows, int64_t cols, int64_t width,
                             const ConstRows& in, Pair* out) {
  const Tag<float> d;
  const Tag<uint32_t> du;
  const auto load = [&](int64_t row, int64_t c) HWY_ATTR {
    if (row >= rows || c >= cols) return hn::Zero(d);
    if (in.is_bfloat16()) return LoadHalvesWidened(in.bfloat16() + row * in.stride + c, cols - c);
    const float* from = in.data() + row * in.stride + c;
    return c + kLanes <= cols ? hn::LoadU(d, from) : LoadFirst(d, from, static_cast<size_t>(cols - c));
  };
  for (int64_t p = 0; p < pairs; ++p) {
    uint32_t* row = &out[p * width].bits;
    const auto pair = [&](int64_t c) HWY_ATTR { return Terms::Round(load(p * step, c), load(p * step + distance, c)); };
    ForVectors(
        d, width, [&](int64_t c) HWY_ATTR { hn::StoreU(pair(c), du, row + c); },
        [&](int64_t c, size_t rest) HWY_ATTR { StoreFirst(pair(c), du, row + c, rest); });
  }
}

// out[p][kWidth] = the pairs of columns 2p and 2p + 1 of scale · in[rows, cols]; zeros beyond. Whole
// vectors are stored, one after the last row where kWidth is less.
template <class Terms, int kWidth>
HWY_INLINE void PackColumnPairs(int64_t rows, int64_t cols, const ConstRows& in, float scale, Pair* out) {
  const Tag<float> d;
  constexpr int64_t kPart = 32;  // columns, transposed at a time
  HWY_ALIGN float part[kPart * kWidth + kMaxLanes] = {};
  HWY_ALIGN float widened[kWidth * kPart];
  for (int64_t c = 0; c < cols; c += kPart) {
    const int64_t columns = std::min(kPart, cols - c);
    for (int64_t r = 0; in.is_bfloat16() && r < rows; ++r) {
      const uint16_t* row = in.bfloat16() + r * in.stride + c;
      for (int64_t j = 0; j < kPart; j += kLanes) {
        hn::Store(LoadHalvesWidened(row + j, columns - j), d, widened + r * kPart + j);
      }
    }
    const float* from = in.is_bfloat16() ? widened : in.data() + c;
    TransposeScaled<float>(rows, kWidth, columns, from, in.is_bfloat16() ? kPart : in.stride, scale, part, kWidth);
    if (columns % 2 != 0) std::fill_n(part + columns * kWidth, kWidth, 0.0f);
    for (int64_t i = 0; i < columns; i += 2) {
      for (int64_t j = 0; j < kWidth; j += kLanes) {
        StoreLanesU(Terms::Round(hn::LoadU(d, part + i * kWidth + j), hn::LoadU(d, part + (i + 1) * kWidth + j)),
                    out + (c + i) / 2 * kWidth + j);
      }
    }
  }
}

// out[padded_rows][cols / 2] = the pairs of columns 2p and 2p + 1 of scale · in[rows, cols]; zeros beyond. cols is a
// multiple of every vector.
template <class Terms>
HWY_INLINE void PackNeighbours(int64_t rows, int64_t padded_rows, int64_t cols, const ConstRows& in, float scale,
                               Pair* out) {
  const Tag<float> d;
  const auto factor = hn::Set(d, scale);
  for (int64_t r = 0; r < padded_rows; ++r, out += cols / 2) {
    uint16_t* halves = reinterpret_cast<uint16_t*>(out);
    for (int64_t c = 0; c < cols; c += kLanes) {
      auto x = hn::Zero(d);
      if (r < rows) {
        x = in.is_bfloat16() ? LoadHalvesWidened(in.bfloat16() + r * in.stride + c, kLanes)
                             : hn::LoadU(d, in.data() + r * in.stride + c);
      }
      hn::StoreU(Terms::RoundHalves(hn::Mul(factor, x)), HalfTag(), halves + c);
    }
  }
}

// A sum over queries for TileTN on tiles: out[group][cols][kTileSize] of groups of 32 queries, in pairs of queries
// 2p and 2p + 1.
template <class Terms>
HWY_INLINE void PackQueriesOfColumns(int64_t rows, int64_t padded_rows, int64_t cols, const ConstRows& in, Pair* out) {
  HWY_ALIGN Pair piece[kTileSize * kTileBlock];
  for (int64_t q = 0; q < padded_rows; q += kTileBlock) {
    for (int64_t c = 0; c < cols; c += kTileBlock) {
      const int64_t here = std::min(kTileBlock, cols - c);
      PackRowPairs<Terms>(kTileSize, 2, 1, rows - q, here, kTileBlock, in + q * in.stride + c, piece);
      TransposeBits<uint32_t>(kTileSize, kTileSize, here, &piece->bits, kTileBlock, &out->bits, kTileSize);
      out += here * kTileSize;
    }
  }
}

// Queries for TileNT: out[group][size][kQueryGroup], scaled; in pairs [size / 2]; on tiles [rows][size / 2].
template <class Terms>
HWY_INLINE void PackQueries(bool on_tiles, int64_t rows, int64_t padded_rows, int64_t size, const ConstRows& in,
                            float scale, LaneOf<Terms>* out) {
  PrefetchRows(rows, size, in);
  if constexpr (Terms::kTerms > 1) {
    if (on_tiles) return PackNeighbours<Terms>(rows, padded_rows, size, in, scale, out);
  }
  for (int64_t q = 0; q < padded_rows; q += kQueryGroup) {
    const int64_t valid = std::clamp<int64_t>(rows - q, 0, kQueryGroup);
    if constexpr (Terms::kTerms == 1) {
      TransposeScaled<float>(valid, kQueryGroup, size, in.data() + q * in.stride, in.stride, scale, out + q * size,
                             kQueryGroup);
    } else {
      PackColumnPairs<Terms, kQueryGroup>(valid, size, in + q * in.stride, scale,
                                          out + q * CeilDivide<int64_t>(size, 2));
    }
  }
}

// A mixing matrix A[in, out] for MixHeads: blocks of output heads, each [in][rows of the block]; row `in` of A times
// factors[in · factor_stride] where factors are given. A has a vector of readable slack after it; so has `packed`. In
// pairs of rows of A it is blocks of [in / 2][rows of the block].
template <class Terms>
HWY_INLINE void PackMixing(int64_t h_in, int64_t h_out, const float* A, const float* factors, int64_t factor_stride,
                           LaneOf<Terms>* packed) {
  const Tag<float> d;
  const HeadBlocks blocks(h_out, kMixRows);
  int64_t first = 0;
  for (int64_t i = 0; i < blocks.count; ++i) {
    const int64_t rows = blocks.Rows(i);
    const auto factor_of = [&](int64_t k)
                               HWY_ATTR { return hn::Set(d, factors == nullptr ? 1.0f : factors[k * factor_stride]); };
    const auto row = [&](int64_t k, int64_t r) HWY_ATTR { return hn::LoadU(d, A + k * h_out + first + r); };
    for (int64_t k = 0; k < h_in; k += Terms::kTerms) {
      const auto factor = factor_of(k);
      // Whole vectors are stored: lanes beyond the block's rows are overwritten by the next store.
      for (int64_t r = 0; r < rows; r += kLanes) {
        if constexpr (Terms::kTerms == 1) {
          hn::StoreU(hn::Mul(factor, row(k, r)), d, packed + r);
        } else {
          const auto second = k + 1 < h_in ? hn::Mul(factor_of(k + 1), row(k + 1, r)) : hn::Zero(d);
          StoreLanesU(Terms::Round(hn::Mul(factor, row(k, r)), second), packed + r);
        }
      }
      packed += rows;
    }
    first += rows;
  }
}

// The same for MixHeads on tiles: packed[out][in / 2], each in pairs of rows of A. h_in is even.
template <class Terms>
HWY_INLINE void PackMixingRows(int64_t h_in, int64_t h_out, const float* A, const float* factors, int64_t factor_stride,
                               Pair* packed) {
  const Tag<float> d;
  HWY_ALIGN Pair piece[kTileSize * kTileSize];
  for (int64_t first = 0; first < h_in / 2; first += kTileSize) {
    const int64_t pairs = std::min<int64_t>(kTileSize, h_in / 2 - first);
    for (int64_t out = 0; out < h_out; out += kTileSize) {
      const int64_t columns = std::min<int64_t>(kTileSize, h_out - out);
      for (int64_t p = 0; p < pairs; ++p) {
        const int64_t k = 2 * (first + p);
        const auto factor_of = [&](int64_t row) HWY_ATTR {
          return hn::Set(d, factors == nullptr ? 1.0f : factors[row * factor_stride]);
        };
        const auto first_factor = factor_of(k), second_factor = factor_of(k + 1);
        for (int64_t c = 0; c < columns; c += kLanes) {
          const float* row = A + k * h_out + out + c;
          StoreLanes(
              Terms::Round(hn::Mul(first_factor, hn::LoadU(d, row)), hn::Mul(second_factor, hn::LoadU(d, row + h_out))),
              piece + p * kTileSize + c);
        }
      }
      TransposeBits<uint32_t>(pairs, pairs, columns, &piece->bits, kTileSize, &packed[out * (h_in / 2) + first].bits,
                              h_in / 2);
    }
  }
}

// sum[i] = a[i] + b[i]; either may be null, which means zeros.
HWY_INLINE void AddMatrices(int64_t count, const float* a, const float* b, float* sum) {
  if (a == nullptr || b == nullptr) {
    std::memcpy(sum, a == nullptr ? b : a, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

// Where a chunk of a head of K (or V) lies in [group][chunk][in_group], and that which a group's query head k reads.
HWY_INLINE int64_t MemoryTile(const AttentionPlan& plan, const MemoryHeads& memory, int64_t head, int64_t chunk) {
  return memory.in_group > 1 ? chunk * memory.heads + head : head * plan.chunks + chunk;
}
HWY_INLINE int64_t TileReadBy(const AttentionPlan& plan, const MemoryHeads& memory, int64_t group, int64_t k,
                              int64_t chunk) {
  return MemoryTile(plan, memory, memory.Of(group * plan.h + k), chunk);
}

// One chunk of a mixing by position in pairs: out[pair][other][kChunk] of R's elements pair · 2 · step + other ·
// other_step and the one `step` after it, of which there are `paired` along the dimension of pairs.
template <class Terms>
HWY_INLINE void PackMixingPairs(int64_t valid, int64_t paired, int64_t step, int64_t others, int64_t other_step,
                                const float* R, int64_t stride, Pair* out) {
  HWY_ALIGN float element[2][kChunk] = {};
  for (int64_t k = 0; k < paired; k += 2) {
    for (int64_t o = 0; o < others; ++o, out += kChunk) {
      for (int64_t i = 0; i < 2; ++i) {
        const float* column = R + (k + i) * step + o * other_step;
        for (int64_t j = 0; j < valid; ++j) element[i][j] = k + i < paired ? column[j * stride] : 0.0f;
      }
      PairRow<Terms, kChunk>(element[0], element[1], out);
    }
  }
}

// One chunk of one batch row's memory: K and V of all heads, and what dynamic projections belong to its positions.
// `packed`: that of the batch row's place.
template <class Terms>
HWY_NOINLINE inline void PackMemoryChunk(const AttentionPlan& plan, const AttentionCall& call,
                                         const PackedMemory& packed, int64_t b, int64_t chunk) {
  const AttentionShape& s = plan.shape;
  const int64_t first = chunk * kChunk;
  const int64_t valid = std::min<int64_t>(kChunk, s.m - first);
  const ConstRows K = call.K.From(b, first, s.m), V = call.V.From(b, first, s.m);
  const auto by_position = [&](const ConstRows& head, int64_t size, LaneOf<Terms>* out) HWY_ATTR {
    if constexpr (Terms::kTerms == 1) {
      TransposeScaled(valid, kChunk, size, head.data(), head.stride, 1.0f, out, kChunk);
    } else {
      PackColumnPairs<Terms, kChunk>(valid, size, head, 1.0f, out);
    }
  };
  const auto by_size = [&](const ConstRows& head, int64_t size, int64_t padded, LaneOf<Terms>* out) HWY_ATTR {
    if constexpr (Terms::kTerms == 1) {
      CopyPadded(valid, kChunk, size, padded, head.data(), head.stride, out);
    } else {
      PackRowPairs<Terms>(kChunk / 2, 1, kChunk / 2, valid, size, padded, head, out);
    }
  };
  // The first heads here, and below each head's neighbour while it is packed itself.
  PrefetchRows(valid, s.d_k, K);
  PrefetchRows(valid, s.d_v, V);
  for (int64_t k = 0; k < plan.keys.heads && (packed.K_by_position != nullptr || packed.K_by_size != nullptr); ++k) {
    const ConstRows head = K + k * s.d_k;
    const int64_t at = MemoryTile(plan, plan.keys, k, chunk);
    PrefetchRows(valid, s.d_k, head + s.d_k);
    if (packed.K_by_position != nullptr) {
      by_position(head, s.d_k, In<Terms>(packed.K_by_position) + at * plan.Lanes(s.d_k) * kChunk);
    }
    if (packed.K_by_size != nullptr) {
      by_size(head, s.d_k, plan.d_k_padded,
              In<Terms>(packed.K_by_size) + at * (kChunk / Terms::kTerms) * plan.d_k_padded);
    }
  }
  for (int64_t k = 0; k < plan.values.heads && (packed.V_by_size != nullptr || packed.V_by_position != nullptr); ++k) {
    const ConstRows head = V + k * s.d_v;
    const int64_t at = MemoryTile(plan, plan.values, k, chunk);
    PrefetchRows(valid, s.d_v, head + s.d_v);
    if (packed.V_by_size != nullptr) {
      by_size(head, s.d_v, plan.d_v_padded,
              In<Terms>(packed.V_by_size) + at * (kChunk / Terms::kTerms) * plan.d_v_padded);
    }
    if (packed.V_by_position != nullptr) {
      by_position(head, s.d_v, In<Terms>(packed.V_by_position) + at * plan.Lanes(s.d_v) * kChunk);
    }
  }
  for (const MixingSide side : kMixingSides) {
    const SideShape& mixes = plan.mixings[side];
    if (mixes.has_factors()) {
      const ConstRows& F_M = MixingOf(call, side, kFactorsPerPosition);
      const int64_t size = mixes.size(kFactors);
      TransposeScaled(valid, kChunk, size, F_M.Row(b, first, s.m), F_M.stride, 1.0f,
                      packed.F_M[side] + chunk * size * kChunk, kChunk);
    }
    if (!mixes.has[kPerPosition]) continue;
    const ConstRows& R_M = MixingOf(call, side, kPerPosition);
    const float* R = R_M.Row(b, first, s.m);
    const int64_t at = chunk * kChunk, lanes = plan.Lanes(mixes.out) * mixes.in;
    const Lanes<HeadPair> out = packed.R_M[side] + at * plan.MixingLanes(side) * mixes.out;
    if constexpr (Terms::kTerms == 1) {
      TransposeScaled(valid, kChunk, mixes.size(), R, R_M.stride, 1.0f, out.floats(), kChunk);
    } else {
      if (side == kLogits) {
        TransposeScaled(valid, kChunk, mixes.size(), R, R_M.stride, 1.0f, out.floats(), kChunk);
      } else {
        PackMixingPairs<Terms>(valid, mixes.in, mixes.out, mixes.out, 1, R, R_M.stride, out.pairs());
      }
      if (packed.R_M_back[side] != nullptr) {
        PackMixingPairs<Terms>(valid, mixes.out, 1, mixes.in, mixes.out, R, R_M.stride,
                               packed.R_M_back[side].pairs() + at * lanes);
      }
    }
  }

  float* mask = packed.mask + first;
  int64_t open = 0;
  for (int64_t j = 0; j < kChunk; ++j) {
    const bool attend =
        j < valid && (call.key_padding_mask == nullptr || call.key_padding_mask[b * s.m + first + j] != 0);
    mask[j] = attend ? 0.0f : kMaskedLogit;
    open += attend;
  }
  packed.chunk_state[chunk] = open == kChunk ? kChunkOpen : open > 0 ? kChunkPartlyMasked : kChunkMasked;
}

// A mixing whose element (in, out) lies at A[in · in_stride + out · out_stride], packed for MixHeads, also on tiles:
// element by element, as the caller's matrix has no slack after it.
template <class Terms>
HWY_NOINLINE void PackStaticMixing(const AttentionPlan& plan, int64_t h_in, int64_t h_out, const float* A,
                                   int64_t in_stride, int64_t out_stride, LaneOf<Terms>* packed) {
  const HeadBlocks blocks(h_out, InPairs<Terms> && plan.mixes_on_tiles ? 1 : kMixRows);
  HWY_ALIGN float element[Terms::kTerms][kMaxLanes] = {};
  int64_t first = 0;
  for (int64_t i = 0; i < blocks.count; ++i) {
    const int64_t rows = blocks.Rows(i);
    for (int64_t in = 0; in < h_in; in += Terms::kTerms) {
      for (int64_t j = 0; j < Terms::kTerms; ++j) {
        for (int64_t r = 0; r < rows; ++r) {
          element[j][r] = in + j < h_in ? A[(in + j) * in_stride + (first + r) * out_stride] : 0.0f;
        }
      }
      if constexpr (InFloat<Terms>) {
        std::copy_n(element[0], rows, packed);
      } else {
        // Whole vectors are stored: lanes beyond the block's rows are overwritten by the next store.
        for (int r = 0; r < kMaxLanes; r += kLanes) {
          if (r >= rows) break;
          const Tag<float> d;
          StoreLanesU(Terms::Round(hn::Load(d, element[0] + r), hn::Load(d, element[1] + r)), packed + r);
        }
      }
      packed += rows;
    }
    first += rows;
  }
}

// The static mixings and the relative position bias: little, and once.
template <class Terms>
HWY_NOINLINE inline void PackStatic(const AttentionPlan& plan, const AttentionCall& call, const PackedMemory& packed) {
  const AttentionShape& s = plan.shape;
  for (const MixingSide side : kMixingSides) {
    const FilterShape& filter = plan.filters[side];
    const int64_t heads = side == kLogits ? s.h_k : s.h;
    for (int64_t i = 0; i < filter.taps() * heads; ++i) {
      const int64_t head = i % heads, tap = i / heads;
      const float value = call[kFilters[side]].data()[i];
      packed.taps[side][head * filter.taps() + tap] = value;
      if (packed.taps_back[side] != nullptr) packed.taps_back[side][(head + 1) * filter.taps() - 1 - tap] = value;
    }
    const auto [in, out, has] = plan.mixings[side];
    const float* P = MixingOf(call, side, kStatic).data();
    if (!has[kStatic]) continue;
    const auto pack = [&](bool in_float, int64_t h_in, int64_t h_out, int64_t in_stride, int64_t out_stride,
                          const Lanes<HeadPair>& to) {
      if (in_float) {
        PackStaticMixing<FloatTerms>(plan, h_in, h_out, P, in_stride, out_stride, to.floats());
      } else {
        PackStaticMixing<Terms>(plan, h_in, h_out, P, in_stride, out_stride, In<Terms>(to));
      }
    };
    pack(side == kLogits || s.Convolves(), in, out, out, 1, packed.P[side]);
    if (packed.P_back[side] != nullptr) pack(s.Convolves(), out, in, 1, out, packed.P_back[side]);
  }
  if (packed.distance_bias != nullptr) {
    const int64_t length = plan.Distances(), before = plan.n_padded() - s.n;
    for (int64_t k = 0; k < s.h; ++k) {
      float* row = packed.distance_bias + k * length;
      std::memset(row, 0, static_cast<size_t>(length) * sizeof(float));
      for (int64_t i = 0; i < s.n + s.m - 1; ++i)
        row[before + i] = call.bias_table.data()[k * s.buckets + call.distance_bucket[i]];
    }
  }
}

CROSSTALK_END_TARGET

#endif
