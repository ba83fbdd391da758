// The steps of a strip (workspace.h) that forward and backward share: products of its whole rows, J and conv(J),
// masks, the softmax of a row, conv(W), mixing and dropout. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_STRIP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_STRIP_INL_H_
#undef CROSSTALK_ATTENTION_STRIP_INL_H_
#else
#define CROSSTALK_ATTENTION_STRIP_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/attention/pack-inl.h"
#include "crosstalk/kernels/attention/products-inl.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/kernels/convolution-inl.h"
#include "crosstalk/runtime/math.h"

CROSSTALK_BEGIN_TARGET

static_assert(kConvolvedColumns == kChunk && kConvolvedRows == kQueryGroup && kFilterLanes == kPartialSums);

struct Strip {
  const AttentionPlan& plan;
  const AttentionCall& call;
  const PackedMemory& packed;
  const StripScratch& scratch;
  StripSizes sizes;
  int64_t b, group;
  int64_t first, valid;  // its first query, and how many it has
  int64_t columns;       // positions: whole chunks, up to the last that a row of the buffers sees
  bool padded;           // whether a position of them is masked for all queries

  int64_t first_of_J() const { return first - sizes.before_w - sizes.before_l; }  // the query of J's row 0
  float* At(float* buffer, int64_t head, int64_t row) const { return buffer + sizes.Offset(head, row); }
  // The convolution's taps of a head of the group.
  const float* Taps(float* const (&taps)[2], MixingSide side, int64_t head) const {
    return taps[side] + (group * plan.FilterHeads(side) + head) * plan.filters[side].taps();
  }
  // In a [b, h, n] array.
  int64_t StatsOffset(int64_t head, int64_t query) const {
    return (b * plan.shape.h + group * plan.h + head) * plan.shape.n + query;
  }
};

inline Strip MakeStrip(const AttentionPlan& plan, const AttentionCall& call, const PackedMemory& packed,
                       const StripScratch& scratch, AttentionPass pass, int64_t b, int64_t group, int64_t block) {
  const AttentionShape& s = plan.shape;
  const StripSizes sizes(plan, pass);
  const int64_t first = block * plan.rows;
  Strip strip{.plan = plan,
              .call = call,
              .packed = packed,
              .scratch = scratch,
              .sizes = sizes,
              .b = b,
              .group = group,
              .first = first,
              .valid = std::min(plan.rows, s.n - first),
              .columns = plan.m_padded(),
              .padded = false};
  const int64_t end = std::min(s.n, first + (pass == AttentionPass::kBackward ? sizes.dU_rows : plan.rows));
  if (s.causality == AttentionCausality::kCausal) strip.columns = RoundUp<int64_t>(end + s.m - s.n, kChunk);
  const uint8_t* state = packed.chunk_state;
  strip.padded = std::any_of(state, state + strip.columns / kChunk, [](uint8_t chunk) { return chunk != kChunkOpen; });
  const float* padding = packed.mask;
  for (int64_t i = std::max<int64_t>(0, strip.first_of_J()); call.attention_mask != nullptr && i < end; ++i) {
    const uint8_t* allowed = call.attention_mask + (b * s.n + i) * s.m;
    float* mask = scratch.mask + (i - strip.first_of_J()) * plan.m_padded();
    for (int64_t j = 0; j < strip.columns; ++j) mask[j] = j >= s.m || allowed[j] != 0 ? padding[j] : kMaskedLogit;
  }
  return strip;
}

// ---- Products of whole rows ----

// C[rows, columns] = A·Bᵀ, A as PackQueries has it, B[chunk][depth][kChunk] with chunks b_chunk lanes apart.
template <class Terms>
HWY_NOINLINE void RowsNT(int64_t rows, int64_t columns, int64_t depth, const LaneOf<Terms>* HWY_RESTRICT a,
                         const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_chunk, float* HWY_RESTRICT c, int64_t c_row) {
  for (int64_t q = 0; q < rows; q += kTileRows) {
    const LaneOf<Terms>* a_rows = a + q / kQueryGroup * kQueryGroup * depth + q % kQueryGroup;
    const LaneOf<Terms>* b_tile = b;
    for (int64_t first = 0; first < columns; first += kChunk, b_tile += b_chunk) {
      for (int j = 0; j < kChunk; j += kStep) {
        BlockProduct<Terms, kTileRows, kStepVectors, Result::kSet>(depth, a_rows, 1, kQueryGroup, b_tile + j, kChunk,
                                                                   c + q * c_row + first + j, c_row);
      }
    }
  }
}

// C[rows, width] = A·B over whole rows of A, B[chunk][kChunk][width].
template <class Terms>
HWY_NOINLINE void RowsNN(int64_t rows, int64_t columns, int64_t width, const LaneOf<Terms>* HWY_RESTRICT a,
                         int64_t a_row, const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_chunk, float* HWY_RESTRICT c) {
  constexpr int kDepth = kChunk / Terms::kTerms;
  const auto multiply = [&](auto vectors, int64_t v) HWY_ATTR {
    for (int64_t q = 0; q < rows; q += kTileRows) {
      BlockProduct<Terms, kTileRows, vectors.value, Result::kSet>(
          kDepth, a + q * a_row, a_row, 1, b + v, width, c + q * width + v, width, {}, columns / kChunk, b_chunk);
    }
  };
  int64_t v = 0;
  for (; v + 2 * kLanes <= width; v += 2 * kLanes) multiply(std::integral_constant<int, 2>(), v);
  if (v < width) multiply(std::integral_constant<int, 1>(), v);
}

// C[size, kChunk] = or += Aᵀ·B over `rows` lanes of queries, A[rows][size], B's rows b_row lanes apart.
template <class Terms, Result kResult>
HWY_NOINLINE void RowsTN(int64_t rows, int64_t size, const LaneOf<Terms>* HWY_RESTRICT a,
                         const LaneOf<Terms>* HWY_RESTRICT b, int64_t b_row, float* HWY_RESTRICT c) {
  int64_t e = 0;
  for (; e + kTileRows <= size; e += kTileRows) {
    for (int j = 0; j < kChunk; j += kStep) {
      BlockProduct<Terms, kTileRows, kStepVectors, kResult>(rows, a + e, 1, size, b + j, b_row, c + e * kChunk + j,
                                                            kChunk);
    }
  }
  if (e == size) return;
  ChunkProduct<Terms, kTileRows - 1, kResult>(static_cast<int>(size - e), rows, a + e, size, b, b_row, c + e * kChunk,
                                              kChunk);
}

// One head's rows in pairs of positions, as RowsNN reads them: pairs[row][columns / 2].
template <class Terms>
HWY_NOINLINE void PairRowPositions(const Strip& strip, int64_t rows, const float* from, Pair* pairs) {
  for (int64_t q = 0; q < rows; ++q, from += strip.sizes.pitch) {
    for (int64_t first = 0; first < strip.columns; first += kChunk, pairs += kHalf) {
      PairRow<Terms, kHalf>(from + first, from + first + kHalf, pairs);
    }
  }
}

// A chunk of one head's rows in pairs of queries, as RowsTN reads them: pairs[row / 2][kChunk].
template <class Terms>
HWY_NOINLINE void PairRowQueries(const Strip& strip, int64_t rows, const float* from, Pair* pairs) {
  for (int64_t q = 0; q < rows; q += 2, from += 2 * strip.sizes.pitch, pairs += kChunk) {
    PairRow<Terms, kChunk>(from, from + strip.sizes.pitch, pairs);
  }
}

// C[rows][width] = S·B of one head's rows S, in scratch.product.
template <class Terms>
HWY_INLINE void MultiplyRows(const Strip& strip, int64_t width, const float* S, const LaneOf<Terms>* B,
                             int64_t b_chunk) {
  const int64_t rows = RoundUp<int64_t>(strip.valid, kQueryGroup);
  float* C = strip.scratch.product;
  if constexpr (Terms::kTerms == 1) {
    RowsNN<Terms>(rows, strip.columns, width, S, strip.sizes.pitch, B, b_chunk, C);
  } else {
    PairRowPositions<Terms>(strip, rows, S, strip.scratch.pairs);
    RowsNN<Terms>(rows, strip.columns, width, strip.scratch.pairs, strip.columns / 2, B, b_chunk, C);
  }
}

// ---- Rows ----

HWY_INLINE void ClearRows(const Strip& strip, int64_t heads, int64_t begin, int64_t end, float* buffer) {
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t r = begin; r < end; ++r) std::fill_n(strip.At(buffer, k, r), strip.columns, 0.0f);
  }
}

// Zeros before and after each row, where a convolution reads.
HWY_INLINE void ClearMargins(const Strip& strip, int64_t heads, int64_t rows, float* buffer) {
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t r = 0; r < rows; ++r) {
      float* row = strip.At(buffer, k, r);
      std::fill_n(row - strip.sizes.margin, strip.sizes.margin, 0.0f);
      std::fill_n(row + strip.columns, strip.sizes.margin, 0.0f);
    }
  }
}

// The positions to which a query attends: the first `visible`, and of them those where `start` is not kMaskedLogit.
struct RowMask {
  const float* start;  // null: all
  int64_t visible;
};

HWY_INLINE RowMask MaskOf(const Strip& strip, int64_t query) {
  const AttentionPlan& plan = strip.plan;
  const AttentionShape& s = plan.shape;
  const bool causal = s.causality == AttentionCausality::kCausal;
  RowMask mask{nullptr, causal ? std::min(strip.columns, query + s.m - s.n + 1) : strip.columns};
  if (strip.call.attention_mask != nullptr) {
    mask.start = strip.scratch.mask + (query - strip.first_of_J()) * plan.m_padded();
  } else if (strip.padded) {
    mask.start = strip.packed.mask;
  }
  return mask;
}

// row = 0 where the query does not attend.
HWY_INLINE void ZeroMasked(const Strip& strip, const RowMask& mask, float* row) {
  const Tag<float> d;
  if (mask.start != nullptr) {
    const auto masked = hn::Set(d, kMaskedLogit);
    for (int64_t j = 0; j < strip.columns; j += kLanes) {
      hn::Store(hn::IfThenZeroElse(hn::Eq(hn::Load(d, mask.start + j), masked), hn::Load(d, row + j)), d, row + j);
    }
  }
  std::fill(row + mask.visible, row + strip.columns, 0.0f);
}
// The same for a head's rows of the queries from `first` on.
HWY_INLINE void ZeroMaskedRows(const Strip& strip, int64_t first, int64_t rows, float* row) {
  for (int64_t r = 0; r < rows; ++r, row += strip.sizes.pitch) {
    const int64_t query = first + r;
    if (query >= 0 && query < strip.plan.shape.n) ZeroMasked(strip, MaskOf(strip, query), row);
  }
}

// L = C + bias, kMaskedLogit where the query does not attend; may be in place. bias: `biases` elements, or null.
HWY_INLINE void LogitsOfRow(const Strip& strip, const RowMask& mask, const float* C, const float* bias, int64_t biases,
                            float* L) {
  const Tag<float> d;
  const auto masked = hn::Set(d, kMaskedLogit);
  for (int64_t j = 0; j < strip.columns; j += kLanes) {
    auto x = hn::Load(d, C + j);
    if (bias != nullptr && j + kLanes <= biases) {
      x = hn::Add(x, hn::LoadU(d, bias + j));
    } else if (bias != nullptr && j < biases) {
      x = hn::Add(x, LoadFirst(d, bias + j, static_cast<size_t>(biases - j)));
    }
    if (mask.start != nullptr) x = hn::IfThenElse(hn::Eq(hn::Load(d, mask.start + j), masked), masked, x);
    hn::Store(x, d, L + j);
  }
  std::fill(L + mask.visible, L + strip.columns, kMaskedLogit);
}

// 0 where all are hidden, so that e^(L - 0) is 0.
HWY_INLINE float LargestOf(int64_t columns, const float* row) {
  const Tag<float> d;
  auto largest = hn::Set(d, kNoRowMax);
  for (int64_t j = 0; j < columns; j += kLanes) largest = hn::Max(largest, hn::Load(d, row + j));
  const float max = hn::GetLane(hn::MaxOfLanes(d, largest));
  return max == kNoRowMax ? 0.0f : max;
}

// Σ e^(L - row_max), in partial sums of positions j mod kPartialSums.
HWY_INLINE float SumOfExponentials(int64_t columns, const float* L, float row_max) {
  const Tag<float> d;
  const auto max = hn::Set(d, row_max);
  hn::Vec<Tag<float>> sum[kSumVectors];
  CROSSTALK_UNROLL
  for (int v = 0; v < kSumVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t j = 0; j < columns; j += kPartialSums) {
    CROSSTALK_UNROLL
    for (int v = 0; v < kSumVectors; ++v) {
      sum[v] = hn::Add(sum[v], Exponential(d, hn::Sub(hn::Load(d, L + j + v * kLanes), max)));
    }
  }
  return SumOfLanes64<float>(sum);
}

// W = e^(L - row_max) · inv_row_sum.
HWY_INLINE void WeightsOfRow(int64_t columns, const float* L, float row_max, float inv_row_sum, float* W) {
  const Tag<float> d;
  const auto max = hn::Set(d, row_max), inverse = hn::Set(d, inv_row_sum);
  for (int64_t j = 0; j < columns; j += kLanes) {
    hn::Store(hn::Mul(Exponential(d, hn::Sub(hn::Load(d, L + j), max)), inverse), d, W + j);
  }
}

// row *= dropout's factors of U's row of a value head and a query.
HWY_INLINE void DropRow(const Strip& strip, int64_t head, int64_t query, float* row) {
  const Tag<float> d;
  const AttentionShape& s = strip.plan.shape;
  const int64_t first = ((strip.b * s.h_v + strip.group * strip.plan.h_v + head) * s.n + query) * s.m;
  for (int64_t at = 0; at < strip.columns; at += kChunk) {
    DropoutFactors(strip.call.dropout_key, strip.call.dropout_rate, static_cast<uint64_t>(first + at),
                   strip.scratch.dropout);
    CROSSTALK_UNROLL
    for (int j = 0; j < kChunk; j += kLanes) {
      hn::Store(hn::Mul(hn::Load(d, row + at + j), hn::Load(d, strip.scratch.dropout + j)), d, row + at + j);
    }
  }
}

// to[out] = Σ_in A[in, out] · from[in] for one query's row of all heads.
HWY_INLINE void MixRow(const Strip& strip, const Lanes<HeadPair>& packed, int64_t h_in, int64_t h_out,
                       const float* from, float* to, int64_t to_pitch) {
  PrefetchNothing nothing;
  MixHeads<FloatTerms, Result::kSet>(HeadBlocks(h_out, kMixRows), strip.columns / kChunk, h_in, packed.floats(), 0,
                                     from, strip.sizes.head_pitch, to, to_pitch, nothing);
}

// ---- J, W and U ----

// J of all rows that W's rows read, and C = conv(J), in C_buffer's rows, which are W's. J's buffer has all heads
// (`keeps_J`) or one.
template <class Terms>
HWY_NOINLINE void ConvolvedLogits(const Strip& strip, bool keeps_J, float* J_buffer, float* C_buffer) {
  const AttentionPlan& plan = strip.plan;
  const AttentionShape& s = plan.shape;
  const StripSizes& sizes = strip.sizes;
  const FilterShape& filter = plan.filters[kLogits];
  const int64_t J_rows = sizes.W_rows + sizes.before_l, first = strip.first_of_J();
  const int64_t skipped = std::max<int64_t>(0, -first);  // rows before the first query
  const int64_t queries = std::min(J_rows - skipped, s.n - (first + skipped));
  const int64_t padded = RoundUp<int64_t>(queries, kQueryGroup), K_size = plan.Lanes(s.d_k) * kChunk;
  auto* const Q = In<Terms>(strip.scratch.Q);
  if (filter.present()) ClearMargins(strip, keeps_J ? plan.h_k : 1, J_rows, J_buffer);
  for (int64_t k = 0; k < plan.h_k; ++k) {
    float* const J = strip.At(filter.present() ? J_buffer : C_buffer, filter.present() && !keeps_J ? 0 : k, 0);
    PackQueries<Terms>(false, queries, padded, s.d_k,
                       strip.call.Q.From(strip.b, first + skipped, s.n) + (strip.group * plan.h_k + k) * s.d_k,
                       static_cast<float>(strip.call.scale), Q);
    const int64_t tile = TileReadBy(plan, plan.keys, strip.group, k, 0);
    RowsNT<Terms>(padded, strip.columns, plan.Lanes(s.d_k), Q, In<Terms>(strip.packed.K_by_position) + tile * K_size,
                  plan.keys.in_group * K_size, J + skipped * sizes.pitch, sizes.pitch);
    if (!filter.present()) continue;
    for (int64_t r = 0; r < skipped; ++r) std::fill_n(J + r * sizes.pitch, strip.columns, 0.0f);
    for (int64_t r = skipped + queries; r < J_rows; ++r) std::fill_n(J + r * sizes.pitch, strip.columns, 0.0f);
    ZeroMaskedRows(strip, first, J_rows, J);
    Convolve(RoundUp(sizes.W_rows, kConvolvedRows), strip.columns, filter.c_q, filter.c_k, J - strip.call.left_l,
             sizes.pitch, strip.Taps(strip.packed.taps, kLogits, k), strip.At(C_buffer, k, 0), sizes.pitch);
  }
}

// W of W's rows, from C in `C_buffer`, which may be W's. `of_row(query, head, L)` gives a row's maximum and 1 / sum.
template <class OfRow>
HWY_INLINE void WeightsOfStrip(const Strip& strip, float* C_buffer, float* W_buffer, const OfRow& of_row) {
  const AttentionPlan& plan = strip.plan;
  const AttentionShape& s = plan.shape;
  const int64_t row_pitch = StripScratch::row_pitch(plan);
  if (plan.filters[kWeights].present()) ClearMargins(strip, plan.h, strip.sizes.W_rows, W_buffer);
  for (int64_t r = 0; r < strip.sizes.W_rows; ++r) {
    const int64_t query = strip.first - strip.sizes.before_w + r;
    if (query < 0 || query >= s.n) {
      ClearRows(strip, plan.h, r, r + 1, W_buffer);
      continue;
    }
    const RowMask mask = MaskOf(strip, query);
    if (s.P_l) {
      MixRow(strip, strip.packed.P[kLogits], plan.h_k, plan.h, strip.At(C_buffer, 0, r), strip.scratch.row, row_pitch);
    }
    for (int64_t k = 0; k < plan.h; ++k) {
      const int64_t head = strip.group * plan.h + k;
      const float* bias = nullptr;
      int64_t biases = plan.m_padded();
      if (strip.packed.distance_bias != nullptr) {
        bias = strip.packed.distance_bias + head * plan.Distances() + plan.n_padded() - 1 - query;
      } else if (s.bias == AttentionBias::kDense) {
        bias = strip.call.bias.data() + (head * s.n + query) * s.m;
        biases = s.m;
      }
      float* const W = strip.At(W_buffer, k, r);
      LogitsOfRow(strip, mask, s.P_l ? strip.scratch.row + k * row_pitch : strip.At(C_buffer, k, r), bias, biases, W);
      const auto [row_max, inv_row_sum] = of_row(query, k, W);
      WeightsOfRow(strip.columns, W, row_max, inv_row_sum, W);
    }
  }
}

// conv(W), or W itself, of the strip's own rows, in U's buffer.
HWY_NOINLINE inline void ConvolvedWeights(const Strip& strip, float* W_buffer, float* U_buffer) {
  const AttentionPlan& plan = strip.plan;
  const FilterShape& filter = plan.filters[kWeights];
  for (int64_t k = 0; k < plan.h; ++k) {
    float *const W = strip.At(W_buffer, k, 0), *const Y = strip.At(U_buffer, k, 0);
    if (filter.present()) {
      Convolve(plan.rows, strip.columns, filter.c_q, filter.c_k, W - strip.call.left_w, strip.sizes.pitch,
               strip.Taps(strip.packed.taps, kWeights, k), Y, strip.sizes.pitch);
      ZeroMaskedRows(strip, strip.first, strip.valid, Y);
    } else {
      for (int64_t q = 0; q < strip.valid; ++q) {
        std::copy_n(W + q * strip.sizes.pitch, strip.columns, Y + q * strip.sizes.pitch);
      }
    }
  }
}

// U of an own row from conv(W), in place: mixed, and dropped.
HWY_INLINE void ValuesOfRow(const Strip& strip, int64_t q, float* U_buffer) {
  const AttentionPlan& plan = strip.plan;
  const int64_t row_pitch = StripScratch::row_pitch(plan);
  if (plan.shape.P_w) {
    MixRow(strip, strip.packed.P[kWeights], plan.h, plan.h_v, strip.At(U_buffer, 0, q), strip.scratch.row, row_pitch);
    for (int64_t k = 0; k < plan.h_v; ++k) {
      std::copy_n(strip.scratch.row + k * row_pitch, strip.columns, strip.At(U_buffer, k, q));
    }
  }
  for (int64_t k = 0; k < plan.h_v && strip.call.dropout_rate > 0; ++k) {
    DropRow(strip, k, strip.first + q, strip.At(U_buffer, k, q));
  }
}

CROSSTALK_END_TARGET

#endif
