// Tiles in pairs of bfloat16: the three forms that plan.h names, made of tiles of floats and of each other. Compiled
// once per target.
#if defined(CROSSTALK_ATTENTION_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_PAIRS_INL_H_
#undef CROSSTALK_ATTENTION_PAIRS_INL_H_
#else
#define CROSSTALK_ATTENTION_PAIRS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "crosstalk/kernels/attention/elements-inl.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// pairs[head / 2][row][j] = tile[head][row][j] beside tile[head + 1][row][j]; zeros beside an odd last head.
template <class Terms>
HWY_NOINLINE void PairHeads(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* tile,
                            float* pairs) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    const float* first = tile + k * plan.pitch;
    float* out = pairs + k / 2 * plan.pitch;
    for (int64_t at = first_row * kChunk; at < plan.rows * kChunk; at += kLanes) {
      const auto second = k + 1 < heads ? hn::Load(d, first + plan.pitch + at) : hn::Zero(d);
      hn::Store(Terms::Round(hn::Load(d, first + at), second), d, out + at);
    }
  }
}

// pairs[head][row][j] = tile[head][row][j] beside tile[head][row][j + kChunk / 2], each times factors[head][row] where
// factors are given.
template <class Terms>
HWY_NOINLINE void PairPositions(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* tile,
                                float* pairs, const float* factors = nullptr) {
  const Tag<float> d;
  constexpr int kHalf = kChunk / 2;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const float* row = tile + k * plan.pitch + q * kChunk;
      float* out = pairs + k * plan.half_pitch + q * kHalf;
      const auto factor = hn::Set(d, factors == nullptr ? 1.0f : factors[k * plan.rows + q]);
      CROSSTALK_UNROLL
      for (int j = 0; j < kHalf; j += kLanes) {
        hn::Store(Terms::Round(hn::Mul(hn::Load(d, row + j), factor), hn::Mul(hn::Load(d, row + kHalf + j), factor)), d,
                  out + j);
      }
    }
  }
}

// pairs[head][row / 2][j] = tile[head][row][j] beside tile[head][row + 1][j]. first_row is even.
template <class Terms>
HWY_NOINLINE void PairQueries(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* tile,
                              float* pairs) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < plan.rows; q += 2) {
      const float* row = tile + k * plan.pitch + q * kChunk;
      float* out = pairs + k * plan.half_pitch + q / 2 * kChunk;
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        hn::Store(Terms::Round(hn::Load(d, row + j), hn::Load(d, row + kChunk + j)), d, out + j);
      }
    }
  }
}

// Pairs of queries of the same values as `positions`, pairs of positions.
HWY_NOINLINE inline void RepairByQueries(const AttentionPlan& plan, int64_t heads, int64_t first_row,
                                         const float* positions, float* queries) {
  const Tag<float> d;
  const Tag<uint32_t> du;
  constexpr int kHalf = kChunk / 2;
  const auto lower = hn::Set(du, 0x0000ffffu);
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < plan.rows; q += 2) {
      const float* rows = positions + k * plan.half_pitch + q * kHalf;
      float* out = queries + k * plan.half_pitch + q / 2 * kChunk;
      for (int j = 0; j < kHalf; j += kLanes) {
        const auto a = hn::BitCast(du, hn::Load(d, rows + j)), b = hn::BitCast(du, hn::Load(d, rows + kHalf + j));
        hn::Store(hn::BitCast(d, hn::Or(hn::And(a, lower), hn::ShiftLeft<16>(b))), d, out + j);
        hn::Store(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(a), hn::AndNot(lower, b))), d, out + kHalf + j);
      }
    }
  }
}

HWY_INLINE FloatVector FirstTerms(FloatVector pairs) { return FirstOfPairs(hn::BitCast(Tag<uint32_t>(), pairs)); }
HWY_INLINE FloatVector SecondTerms(FloatVector pairs) { return SecondOfPairs(hn::BitCast(Tag<uint32_t>(), pairs)); }

// One head's row of a tile in pairs of heads, kChunk elements, times `factor`; its neighbour's stay as they are.
template <class Terms>
HWY_NOINLINE void ScaleHeadOfPairs(int64_t head, float factor, float* row) {
  const Tag<float> d;
  const auto scale = hn::Set(d, factor);
  for (int j = 0; j < kChunk; j += kLanes) {
    const auto pairs = hn::Load(d, row + j);
    auto first = FirstTerms(pairs), second = SecondTerms(pairs);
    if (head % 2 == 0) {
      first = hn::Mul(first, scale);
    } else {
      second = hn::Mul(second, scale);
    }
    hn::Store(Terms::Round(first, second), d, row + j);
  }
}

// Each row of each head in pairs of heads times its factor, factors[head][row].
template <class Terms>
HWY_NOINLINE void ScaleHeadPairs(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* factors,
                                 float* pairs) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const auto first = hn::Set(d, factors[k * plan.rows + q]);
      const auto second = k + 1 < heads ? hn::Set(d, factors[(k + 1) * plan.rows + q]) : hn::Zero(d);
      float* row = pairs + k / 2 * plan.pitch + q * kChunk;
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        const auto pair = hn::Load(d, row + j);
        hn::Store(Terms::Round(hn::Mul(FirstTerms(pair), first), hn::Mul(SecondTerms(pair), second)), d, row + j);
      }
    }
  }
}

// W = e^(L - row_max), rounded, in place, as forward had it before it was normalised.
template <class Terms>
HWY_NOINLINE void RoundedExponentials(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, float* tile,
                                      const float* row_max) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < rows; ++q) {
      float* row = tile + k * pitch + q * kChunk;
      const auto max = hn::Set(d, row_max[k * rows + q]);
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        hn::Store(Terms::Rounded(Exponential(d, hn::Sub(hn::Load(d, row + j), max))), d, row + j);
      }
    }
  }
}

// pairs = dW in pairs of heads, and D_sums[head, row, kPartialSums] += W · dW of W in pairs of heads and dW as rounded,
// as AddRowProducts adds; not where D_sums is null.
template <class Terms>
HWY_NOINLINE void PairGradients(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* W,
                                const float* dW, float* pairs, float* D_sums) {
  if (D_sums == nullptr) return PairHeads<Terms>(plan, heads, first_row, dW, pairs);
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const float* row = dW + k * plan.pitch + q * kChunk;
      const int64_t at = k / 2 * plan.pitch + q * kChunk;
      float* first_sums = D_sums + (k * plan.rows + q) * kPartialSums;
      float* second_sums = first_sums + plan.rows * kPartialSums;
      CROSSTALK_UNROLL
      for (int i = 0; i < kPartialSums; i += kLanes) {
        auto first_sum = hn::Load(d, first_sums + i);
        auto second_sum = k + 1 < heads ? hn::Load(d, second_sums + i) : hn::Zero(d);
        CROSSTALK_UNROLL
        for (int j = i; j < kChunk; j += kPartialSums) {
          const auto second = k + 1 < heads ? hn::Load(d, row + plan.pitch + j) : hn::Zero(d);
          const auto pair = Terms::Round(hn::Load(d, row + j), second), weights = hn::Load(d, W + at + j);
          hn::Store(pair, d, pairs + at + j);
          first_sum = hn::MulAdd(FirstTerms(weights), FirstTerms(pair), first_sum);
          second_sum = hn::MulAdd(SecondTerms(weights), SecondTerms(pair), second_sum);
        }
        hn::Store(first_sum, d, first_sums + i);
        if (k + 1 < heads) hn::Store(second_sum, d, second_sums + i);
      }
    }
  }
}

// dL = W·(dW - D) of W, not normalised, and dW in pairs of heads; SoftmaxGradientTile says why it is 0 where W is 1.
HWY_NOINLINE inline void SoftmaxGradientOfPairs(const AttentionPlan& plan, int64_t first_row, const float* W,
                                                const float* inv_row_sum, const float* dW, const float* D, float* dL) {
  const Tag<float> d;
  const auto whole = hn::Set(d, kWholeWeight);
  for (int64_t k = 0; k < plan.h; ++k) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const int64_t at = k / 2 * plan.pitch + q * kChunk;
      const auto inverse = hn::Set(d, inv_row_sum[k * plan.rows + q]), shift = hn::Set(d, D[k * plan.rows + q]);
      float* row = dL + k * plan.pitch + q * kChunk;
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        const auto weights = hn::Load(d, W + at + j), gradients = hn::Load(d, dW + at + j);
        const auto w = hn::Mul(k % 2 == 0 ? FirstTerms(weights) : SecondTerms(weights), inverse);
        const auto gradient = k % 2 == 0 ? FirstTerms(gradients) : SecondTerms(gradients);
        hn::Store(hn::IfThenZeroElse(hn::Ge(w, whole), hn::Mul(w, hn::Sub(gradient, shift))), d, row + j);
      }
    }
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
