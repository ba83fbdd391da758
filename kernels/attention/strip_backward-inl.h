// Backward with convolutions, one strip of queries at a time (workspace.h), by recomputation from the row stats:
//
//   dU = dO·Vᵀ   dY = dU·P_wᵀ   dW = convᵀ(dY)   D = Σ_m W·dW   dL = W·(dW - D)   dC = dL·P_lᵀ   dJ = convᵀ(dC)
//
// with Y = conv(W) and C = conv(J), all masked, where convᵀ is the convolution with the filter turned round both ways.
// Compiled once per target.
#if defined(CROSSTALK_ATTENTION_STRIP_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_STRIP_BACKWARD_INL_H_
#undef CROSSTALK_ATTENTION_STRIP_BACKWARD_INL_H_
#else
#define CROSSTALK_ATTENTION_STRIP_BACKWARD_INL_H_
#endif

#include <utility>

#include "crosstalk/kernels/attention/backward_tile-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/strip-inl.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// dU = dO·Vᵀ of all its rows, and dO_rows of the strip's own.
template <class Terms>
HWY_NOINLINE void ValueGradientsOfStrip(const Strip& strip, const ConstRows& dO, float* dU_buffer) {
  const AttentionPlan& plan = strip.plan;
  const AttentionShape& s = plan.shape;
  const int64_t queries = std::min(strip.sizes.dU_rows, s.n - strip.first);
  const int64_t padded = RoundUp<int64_t>(queries, kQueryGroup), V_size = plan.Lanes(s.d_v) * kChunk;
  auto* const packed_dO = In<Terms>(strip.scratch.Q);
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const ConstRows head = dO.From(strip.b, strip.first, s.n) + (strip.group * plan.h_v + k) * s.d_v;
    PackQueries<Terms>(false, queries, padded, s.d_v, head, 1.0f, packed_dO);
    const int64_t tile = TileReadBy(plan, plan.values, strip.group, k, 0);
    RowsNT<Terms>(padded, strip.columns, plan.Lanes(s.d_v), packed_dO,
                  In<Terms>(strip.packed.V_by_position) + tile * V_size, plan.values.in_group * V_size,
                  strip.At(dU_buffer, k, 0), strip.sizes.pitch);
  }
}

// The strip's own rows of heads[rows][size], as sums over queries read them.
template <class Terms>
HWY_INLINE void CopyOwnRows(const Strip& strip, int64_t heads, int64_t size, const ConstRows& in, LaneOf<Terms>* out) {
  const int64_t rows = strip.plan.rows;
  for (int64_t k = 0; k < heads; ++k) {
    const ConstRows head = in.From(strip.b, strip.first, strip.plan.shape.n) + (strip.group * heads + k) * size;
    if constexpr (Terms::kTerms == 1) {
      CopyPadded(strip.valid, rows, size, size, head.data(), head.stride, out + k * rows * size);
    } else {
      PackRowPairs<Terms>(rows / 2, 2, 1, strip.valid, size, size, head, out + k * rows / 2 * size);
    }
  }
}

// Asks for a chunk of a head's own rows, which lie apart, out of the hardware prefetchers' sight.
HWY_INLINE void PrefetchChunk(const Strip& strip, const float* S) {
  for (int64_t q = 0; q < strip.valid; ++q, S += strip.sizes.pitch) {
    for (int j = 0; j < kChunk; j += kLine) __builtin_prefetch(S + j, 0, 2);
  }
}

// sums[chunk][head][size][kChunk] += Σ_q A[k][q][size] · S[k][q] over the strip's own rows and the `heads` query heads
// k that read the head, in their order, in its turn.
template <class Terms>
HWY_NOINLINE void AddRowsToMemory(const Strip& strip, const MemoryHeads& memory, int64_t heads, int64_t size,
                                  const LaneOf<Terms>* A, float* S_buffer, const SumsOfMemory& sums) {
  const int64_t rows = strip.plan.Lanes(strip.valid), A_size = strip.plan.Lanes(strip.plan.rows) * size;
  ClearRows(strip, heads, strip.valid, RoundUp<int64_t>(strip.valid, 2), S_buffer);
  for (int64_t chunk = 0; chunk < strip.plan.chunks; ++chunk) {
    sums.order->WaitFor(sums.first_chunk + chunk, sums.turn);
    float* const chunk_sums = sums.of_chunk_0 + chunk * memory.in_group * size * kChunk;
    const bool seen = chunk * kChunk < strip.columns;
    if (!seen && sums.turn == 0) std::fill_n(chunk_sums, memory.in_group * size * kChunk, 0.0f);
    for (int64_t k = 0; seen && k < heads; ++k) {
      const float* S = strip.At(S_buffer, k, 0) + chunk * kChunk;
      if (k + 1 < heads) PrefetchChunk(strip, S + strip.sizes.head_pitch);
      const auto add = [&](const LaneOf<Terms>* B, int64_t b_row) HWY_ATTR {
        float* const sum = chunk_sums + memory.Of(k) * size * kChunk;
        if (sums.turn == 0 && memory.PlaceOf(k) == 0) {
          RowsTN<Terms, Result::kSet>(rows, size, A + k * A_size, B, b_row, sum);
        } else {
          RowsTN<Terms, Result::kAdd>(rows, size, A + k * A_size, B, b_row, sum);
        }
      };
      if constexpr (Terms::kTerms == 1) {
        add(S, strip.sizes.pitch);
      } else {
        PairRowQueries<Terms>(strip, strip.valid, S, strip.scratch.pairs);
        add(strip.scratch.pairs, kChunk);
      }
    }
    sums.order->Done(sums.first_chunk + chunk);
  }
}

// P's partial sums += Σ x·dy over one query's row of all heads.
HWY_INLINE void AddMixingGradientOfRow(const Strip& strip, MixingSide side, const float* x, const float* dy) {
  const int64_t in = strip.plan.mixings[side].in, out = strip.plan.mixings[side].out;
  const int64_t steps = strip.columns / kPartialSums;
  HeadMixingGradient<FloatTerms>(in, out, steps, steps, x, dy, strip.sizes.head_pitch, kPartialSums,
                                 strip.scratch.P[side], out * kPartialSums, kPartialSums);
}

// The gradient of a side's filter from its own rows of dy, and of x from all rows that are asked for, `rows`. Row 0 of
// x is the first that row 0 of dy reads.
HWY_NOINLINE inline void ConvolutionGradients(const Strip& strip, MixingSide side, int64_t left, bool wants_filter,
                                              int64_t rows, float* x_buffer, float* dy_buffer, float* dx_buffer) {
  const FilterShape& filter = strip.plan.filters[side];
  const int64_t pitch = strip.sizes.pitch;
  for (int64_t k = 0; k < strip.plan.FilterHeads(side); ++k) {
    const float *x = strip.At(x_buffer, k, 0), *dy = strip.At(dy_buffer, k, 0);
    if (wants_filter) {
      AddFilterGradient(strip.valid, strip.columns, filter.c_q, filter.c_k, dy, pitch, x - left, pitch,
                        strip.scratch.taps[side] + k * filter.taps() * kFilterLanes);
    }
    Convolve(RoundUp(rows, kConvolvedRows), strip.columns, filter.c_q, filter.c_k, dy - (filter.c_k - 1 - left), pitch,
             strip.Taps(strip.packed.taps_back, side, k), strip.At(dx_buffer, k, 0), pitch);
  }
}

// One query's dL is added to the gradient of a bias.
HWY_INLINE void AddBiasGradients(const Strip& strip, const WantedGradients& wanted, const Rows& dbias, int64_t q,
                                 float* dL_buffer) {
  const Tag<float> d;
  const AttentionPlan& plan = strip.plan;
  const AttentionShape& s = plan.shape;
  for (int64_t k = 0; k < plan.h; ++k) {
    const float* dL = strip.At(dL_buffer, k, q);
    if (wanted.bias) {
      float* to = dbias.data + ((strip.group * plan.h + k) * s.n + strip.first + q) * s.m;
      for (int64_t j = 0; j < std::min(strip.columns, s.m); ++j) to[j] += dL[j];
    } else if (wanted.distances) {
      float* to = strip.scratch.distances + k * plan.BlockDistances() + plan.block - 1 - q;
      for (int64_t j = 0; j < strip.columns; j += kLanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::Load(d, dL + j)), d, to + j);
      }
    }
  }
}

template <class Terms>
HWY_NOINLINE void BackwardStrip(const BackwardPass& pass, const WantedGradients& wanted, const PackedMemory& packed,
                                const StripScratch& scratch, const MemorySums& sums, int64_t b, int64_t group,
                                int64_t block) {
  const AttentionPlan& plan = pass.plan;
  const AttentionShape& s = plan.shape;
  const Strip strip = MakeStrip(plan, pass.call, packed, scratch, AttentionPass::kBackward, b, group, block);
  const StripSizes& sizes = strip.sizes;
  const bool convolves_l = plan.filters[kLogits].present(), convolves_w = plan.filters[kWeights].present();

  float* const C = s.P_l ? scratch.C : scratch.W;
  ConvolvedLogits<Terms>(strip, true, scratch.J, C);
  WeightsOfStrip(strip, C, scratch.W, [&](int64_t query, int64_t k, const float*) HWY_ATTR {
    const int64_t at = strip.StatsOffset(k, query);
    return std::pair(pass.stats.row_max[at], pass.stats.inv_row_sum[at]);
  });

  // U and dV, P_w and dY. dU lies where dW will.
  float* const dU = scratch.dW;
  ValueGradientsOfStrip<Terms>(strip, pass.dO, dU);
  ConvolvedWeights(strip, scratch.W, scratch.U);
  if (convolves_w) ClearMargins(strip, plan.h, sizes.dU_rows, scratch.dY);
  for (int64_t q = 0; q < sizes.dU_rows; ++q) {
    const int64_t query = strip.first + q;
    if (query >= s.n) {
      ClearRows(strip, plan.h, q, q + 1, scratch.dY);
      continue;
    }
    for (int64_t k = 0; k < plan.h_v && pass.call.dropout_rate > 0; ++k) DropRow(strip, k, query, strip.At(dU, k, q));
    if (q < strip.valid) {
      if (wanted.mixings[kWeights][kStatic]) {
        AddMixingGradientOfRow(strip, kWeights, strip.At(scratch.U, 0, q), strip.At(dU, 0, q));
      }
      ValuesOfRow(strip, q, scratch.U);
    }
    if (s.P_w) {
      MixRow(strip, packed.P_back[kWeights], plan.h_v, plan.h, strip.At(dU, 0, q), strip.At(scratch.dY, 0, q),
             sizes.head_pitch);
    }
    const RowMask mask = MaskOf(strip, query);
    for (int64_t k = 0; k < plan.h; ++k) {
      if (!s.P_w) std::copy_n(strip.At(dU, k, q), strip.columns, strip.At(scratch.dY, k, q));
      ZeroMasked(strip, mask, strip.At(scratch.dY, k, q));
    }
  }
  CopyOwnRows<Terms>(strip, plan.h_v, s.d_v, pass.dO, In<Terms>(scratch.dO_rows));
  AddRowsToMemory<Terms>(strip, plan.values, plan.h_v, s.d_v, In<Terms>(scratch.dO_rows), scratch.U, sums.V);

  // dW and dL, P_l and dC. Without a convolution dW is dY.
  if (convolves_w) {
    ConvolutionGradients(strip, kWeights, pass.call.left_w, wanted.filters[kWeights], sizes.dL_rows, scratch.W,
                         scratch.dY, scratch.dW);
  }
  float* const dL = convolves_w ? scratch.dW : scratch.dY;
  float* const dC = !s.P_l ? dL : convolves_w ? scratch.dY : scratch.dW;
  if (convolves_l) ClearMargins(strip, plan.h_k, sizes.dL_rows, dC);
  for (int64_t q = 0; q < sizes.dL_rows; ++q) {
    if (strip.first + q >= s.n) {
      ClearRows(strip, plan.h_k, q, q + 1, dC);
      continue;
    }
    const int64_t W_row = q + sizes.before_w;
    for (int64_t k = 0; k < plan.h; ++k) {
      const float* W = strip.At(scratch.W, k, W_row);
      float* const row = strip.At(dL, k, q);
      SoftmaxGradient(strip.columns, W, DotProduct(strip.columns, W, row), row);
    }
    if (q < strip.valid) {
      AddBiasGradients(strip, wanted, pass.out.bias, q, dL);
      if (wanted.mixings[kLogits][kStatic]) {
        AddMixingGradientOfRow(strip, kLogits, strip.At(C, 0, W_row), strip.At(dL, 0, q));
      }
    }
    if (s.P_l) {
      MixRow(strip, packed.P_back[kLogits], plan.h, plan.h_k, strip.At(dL, 0, q), strip.At(dC, 0, q), sizes.head_pitch);
    }
  }

  // dJ, dQ and dK. U has been used.
  float* const dJ = convolves_l ? scratch.U : dC;
  if (convolves_l) {
    ConvolutionGradients(strip, kLogits, pass.call.left_l, wanted.filters[kLogits], strip.valid,
                         scratch.J + sizes.before_w * sizes.pitch, dC, dJ);
    for (int64_t k = 0; k < plan.h_k; ++k) ZeroMaskedRows(strip, strip.first, strip.valid, strip.At(dJ, k, 0));
  }
  const int64_t K_size = kChunk / Terms::kTerms * plan.d_k_padded;
  for (int64_t k = 0; k < plan.h_k; ++k) {
    const int64_t tile = TileReadBy(plan, plan.keys, group, k, 0);
    MultiplyRows<Terms>(strip, plan.d_k_padded, strip.At(dJ, k, 0), In<Terms>(packed.K_by_size) + tile * K_size,
                        plan.keys.in_group * K_size);
    for (int64_t q = 0; q < strip.valid; ++q) {
      CopyScaled(s.d_k, static_cast<float>(pass.call.scale), scratch.product + q * plan.d_k_padded,
                 pass.out.Q.data + (b * s.n + strip.first + q) * pass.out.Q.stride + (group * plan.h_k + k) * s.d_k);
    }
  }
  CopyOwnRows<Terms>(strip, plan.h_k, s.d_k, pass.call.Q, In<Terms>(scratch.Q_rows));
  AddRowsToMemory<Terms>(strip, plan.keys, plan.h_k, s.d_k, In<Terms>(scratch.Q_rows), dJ, sums.K);
}

CROSSTALK_END_TARGET

#endif
