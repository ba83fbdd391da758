// Tiles in pairs of bfloat16, of the kinds that plan.h names, made of tiles of floats and of each other. Compiled once
// per target.
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

CROSSTALK_BEGIN_TARGET

// pairs[head / 2][row][j] = tile[head][row][j] beside tile[head + 1][row][j]; zeros beside an odd last head.
template <class Terms>
HWY_NOINLINE void PairHeads(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* tile,
                            HeadPair* pairs) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    const float* first = tile + k * plan.pitch;
    HeadPair* out = pairs + k / 2 * plan.pitch;
    for (int64_t at = first_row * kChunk; at < plan.rows * kChunk; at += kLanes) {
      const auto second = k + 1 < heads ? hn::Load(d, first + plan.pitch + at) : hn::Zero(d);
      StoreLanes(Terms::Round(hn::Load(d, first + at), second), out + at);
    }
  }
}

// pairs[head][row][j] = tile[head][row][j] beside tile[head][row][j + kHalf].
template <class Terms>
HWY_NOINLINE void PairPositions(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* tile,
                                PositionPair* pairs) {
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const float* row = tile + k * plan.pitch + q * kChunk;
      PairRow<Terms, kHalf>(row, row + kHalf, pairs + k * plan.position_pitch + q * kHalf);
    }
  }
}

// pairs[head][row / 2][j] = tile[head][row][j] beside tile[head][row + 1][j]. first_row is even.
template <class Terms>
HWY_NOINLINE void PairQueries(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* tile,
                              QueryPair* pairs) {
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < plan.rows; q += 2) {
      const float* row = tile + k * plan.pitch + q * kChunk;
      PairRow<Terms, kChunk>(row, row + kChunk, pairs + k * plan.position_pitch + q / 2 * kChunk);
    }
  }
}

// The numbers of two vectors of pairs paired across: both first ones, and both second ones.
HWY_INLINE void PairAcross(PairVector x, PairVector y, Pair* firsts, Pair* seconds) {
  const auto lower = hn::Set(Tag<uint32_t>(), 0x0000ffffu);
  StoreLanes(hn::Or(hn::And(x, lower), hn::ShiftLeft<16>(y)), firsts);
  StoreLanes(hn::Or(hn::ShiftRight<16>(x), hn::AndNot(lower, y)), seconds);
}

// The same values in pairs of queries.
HWY_NOINLINE inline void QueriesOfPositions(const AttentionPlan& plan, int64_t heads, int64_t first_row,
                                            const PositionPair* positions, QueryPair* queries) {
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < plan.rows; q += 2) {
      const int64_t at = k * plan.position_pitch + q * kHalf;
      for (int64_t j = at; j < at + kHalf; j += kLanes) {
        PairAcross(LoadLanes(positions + j), LoadLanes(positions + kHalf + j), queries + j, queries + kHalf + j);
      }
    }
  }
}

// In place. The tile is of queries from then on.
HWY_INLINE QueryPair* MakeQueries(const AttentionPlan& plan, int64_t heads, int64_t first_row, PositionPair* tile) {
  QueryPair* const queries = static_cast<QueryPair*>(static_cast<Pair*>(tile));
  QueriesOfPositions(plan, heads, first_row, tile, queries);
  return queries;
}

// The same values in pairs of heads; zeros beside an odd last head.
HWY_NOINLINE inline void HeadsOfPositions(const AttentionPlan& plan, int64_t heads, int64_t first_row,
                                          const PositionPair* positions, HeadPair* pairs) {
  const Tag<uint32_t> d;
  for (int64_t k = 0; k < heads; k += 2) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const PositionPair* row = positions + k * plan.position_pitch + q * kHalf;
      HeadPair* out = pairs + k / 2 * plan.pitch + q * kChunk;
      for (int j = 0; j < kHalf; j += kLanes) {
        const auto second = k + 1 < heads ? LoadLanes(row + plan.position_pitch + j) : hn::Zero(d);
        PairAcross(LoadLanes(row + j), second, out + j, out + kHalf + j);
      }
    }
  }
}

// One head's row, kChunk elements, times `factor`; its neighbour's stay as they are.
template <class Terms>
HWY_NOINLINE void ScaleHeadOfPairs(int64_t head, float factor, HeadPair* row) {
  const Tag<float> d;
  const auto scale = hn::Set(d, factor);
  for (int j = 0; j < kChunk; j += kLanes) {
    const auto pairs = LoadLanes(row + j);
    auto first = FirstOfPairs(pairs), second = SecondOfPairs(pairs);
    if (head % 2 == 0) {
      first = hn::Mul(first, scale);
    } else {
      second = hn::Mul(second, scale);
    }
    StoreLanes(Terms::Round(first, second), row + j);
  }
}

// scaled = each row of each head times its factor, factors[head][row]; may be `pairs` itself.
template <class Terms>
HWY_NOINLINE void ScaleHeadPairs(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* factors,
                                 const HeadPair* pairs, HeadPair* scaled) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const auto first = hn::Set(d, factors[k * plan.rows + q]);
      const auto second = k + 1 < heads ? hn::Set(d, factors[(k + 1) * plan.rows + q]) : hn::Zero(d);
      const int64_t at = k / 2 * plan.pitch + q * kChunk;
      CROSSTALK_UNROLL
      for (int64_t j = at; j < at + kChunk; j += kLanes) {
        const auto pair = LoadLanes(pairs + j);
        StoreLanes(Terms::Round(hn::Mul(FirstOfPairs(pair), first), hn::Mul(SecondOfPairs(pair), second)), scaled + j);
      }
    }
  }
}

// The same in pairs of positions: positions[head][row][j] = factor · pairs of position j beside that of j + kHalf.
template <class Terms>
HWY_NOINLINE void ScalePositionsOfHeads(const AttentionPlan& plan, int64_t heads, int64_t first_row,
                                        const float* factors, const HeadPair* pairs, PositionPair* positions) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const HeadPair* row = pairs + k / 2 * plan.pitch + q * kChunk;
      PositionPair* out = positions + k * plan.position_pitch + q * kHalf;
      const auto first = hn::Set(d, factors[k * plan.rows + q]);
      CROSSTALK_UNROLL
      for (int j = 0; j < kHalf; j += kLanes) {
        const auto a = LoadLanes(row + j), b = LoadLanes(row + kHalf + j);
        StoreLanes(Terms::Round(hn::Mul(FirstOfPairs(a), first), hn::Mul(FirstOfPairs(b), first)), out + j);
        if (k + 1 == heads) continue;
        const auto second = hn::Set(d, factors[(k + 1) * plan.rows + q]);
        StoreLanes(Terms::Round(hn::Mul(SecondOfPairs(a), second), hn::Mul(SecondOfPairs(b), second)),
                   out + plan.position_pitch + j);
      }
    }
  }
}

// W = e^(L - row_max), rounded, as forward had it before it was normalised.
template <class Terms>
HWY_NOINLINE void PairExponentials(const AttentionPlan& plan, int64_t heads, int64_t first_row, const float* L,
                                   const float* row_max, HeadPair* pairs) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; k += 2) {
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const float* row = L + k * plan.pitch + q * kChunk;
      HeadPair* out = pairs + k / 2 * plan.pitch + q * kChunk;
      const auto first_max = hn::Set(d, row_max[k * plan.rows + q]);
      const auto second_max = hn::Set(d, k + 1 < heads ? row_max[(k + 1) * plan.rows + q] : 0.0f);
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        const auto first = Exponential(d, hn::Sub(hn::Load(d, row + j), first_max));
        const auto second =
            k + 1 < heads ? Exponential(d, hn::Sub(hn::Load(d, row + plan.pitch + j), second_max)) : hn::Zero(d);
        StoreLanes(Terms::Round(first, second), out + j);
      }
    }
  }
}

// pairs = dW, and D_sums[head, row, kPartialSums] += W · dW as rounded, as AddRowProducts adds; not where D_sums is
// null.
template <class Terms>
HWY_NOINLINE void PairGradients(const AttentionPlan& plan, int64_t heads, int64_t first_row, const HeadPair* W,
                                const float* dW, HeadPair* pairs, float* D_sums) {
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
          const auto pair = Terms::Round(hn::Load(d, row + j), second), weights = LoadLanes(W + at + j);
          StoreLanes(pair, pairs + at + j);
          first_sum = hn::MulAdd(FirstOfPairs(weights), FirstOfPairs(pair), first_sum);
          second_sum = hn::MulAdd(SecondOfPairs(weights), SecondOfPairs(pair), second_sum);
        }
        hn::Store(first_sum, d, first_sums + i);
        if (k + 1 < heads) hn::Store(second_sum, d, second_sums + i);
      }
    }
  }
}

// dL = W·(dW - D) of W before it was normalised: in pairs of positions and, where they are not null, in pairs of heads
// and in float. SoftmaxGradient says why it is 0 where W is 1.
template <class Terms>
HWY_NOINLINE void SoftmaxGradientOfPairs(const AttentionPlan& plan, int64_t first_row, const HeadPair* W,
                                         const float* inv_row_sum, const HeadPair* dW, const float* D,
                                         PositionPair* positions, HeadPair* pairs, float* dL) {
  const Tag<float> d;
  const auto whole = hn::Set(d, kWholeWeight);
  const auto gradient = [&](FloatVector weight, FloatVector inverse, FloatVector dW_term, FloatVector shift) HWY_ATTR {
    const auto w = hn::Mul(weight, inverse);
    return hn::IfThenZeroElse(hn::Ge(w, whole), hn::Mul(w, hn::Sub(dW_term, shift)));
  };
  for (int64_t k = 0; k < plan.h; k += 2) {
    const bool two = k + 1 < plan.h;
    for (int64_t q = first_row; q < plan.rows; ++q) {
      const int64_t at = k / 2 * plan.pitch + q * kChunk, i = k * plan.rows + q;
      const auto first_inverse = hn::Set(d, inv_row_sum[i]), first_shift = hn::Set(d, D[i]);
      const auto second_inverse = hn::Set(d, two ? inv_row_sum[i + plan.rows] : 0.0f);
      const auto second_shift = hn::Set(d, two ? D[i + plan.rows] : 0.0f);
      PositionPair* out = positions + k * plan.position_pitch + q * kHalf;
      CROSSTALK_UNROLL
      for (int j = 0; j < kHalf; j += kLanes) {
        const auto W_a = LoadLanes(W + at + j), W_b = LoadLanes(W + at + kHalf + j);
        const auto dW_a = LoadLanes(dW + at + j), dW_b = LoadLanes(dW + at + kHalf + j);
        const auto first_a = gradient(FirstOfPairs(W_a), first_inverse, FirstOfPairs(dW_a), first_shift);
        const auto first_b = gradient(FirstOfPairs(W_b), first_inverse, FirstOfPairs(dW_b), first_shift);
        const auto second_a = gradient(SecondOfPairs(W_a), second_inverse, SecondOfPairs(dW_a), second_shift);
        const auto second_b = gradient(SecondOfPairs(W_b), second_inverse, SecondOfPairs(dW_b), second_shift);
        const auto first = Terms::Round(first_a, first_b), second = Terms::Round(second_a, second_b);
        StoreLanes(first, out + j);
        if (two) StoreLanes(second, out + plan.position_pitch + j);
        if (pairs != nullptr) PairAcross(first, second, pairs + at + j, pairs + at + kHalf + j);
        if (dL == nullptr) continue;
        float* row = dL + k * plan.pitch + q * kChunk + j;
        hn::Store(first_a, d, row);
        hn::Store(first_b, d, row + kHalf);
        if (!two) continue;
        hn::Store(second_a, d, row + plan.pitch);
        hn::Store(second_b, d, row + plan.pitch + kHalf);
      }
    }
  }
}

CROSSTALK_END_TARGET

#endif
