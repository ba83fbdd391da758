// A mixing of heads of low rank, for one tile: by the factors of each query and each memory position, and never by
// their matrix [h, h].
//
//   y[t] = x[t] · (Dq[t] + Dp[t]) + Σ_{i < 2} (Tq_i · Bq_i[t] + Tp_i · Bp_i[t])     T_i = Σ_s x[s] · A_i[s]
//
// where F[5, h] = (A_0; A_1; B_0; B_1; D), of the query (q) and of the position (p). 9·h multiply-adds a query and a
// position instead of 2·h². Back, from dy to dx, A and B change places; the gradients are sums over pairs, with
// S_i = Σ_t dy[t] · B_i[t]:
//
//   dA_i[s] = Σ x[s] · S_i     dB_i[t] = Σ dy[t] · T_i     dD[s] = Σ x[s] · dy[s]
//
// All in float, of operands in pairs of bfloat16 too. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_FACTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_FACTORS_INL_H_
#undef CROSSTALK_ATTENTION_FACTORS_INL_H_
#else
#define CROSSTALK_ATTENTION_FACTORS_INL_H_
#endif

#include <algorithm>

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"

CROSSTALK_BEGIN_TARGET

// Rows that share each read of a position's factors: with all their sums in registers.
inline constexpr int kFactorRows = kLanes >= 16 ? 4 : 2;

// A tile's factors of one side. Forward, `first` is where A lies and `second` where B does; back the other way round.
struct TileFactors {
  // Row q's [5][h]. Rows after the last query take its factors: their results are not used.
  HWY_INLINE const float* OfQuery(int64_t q) const { return queries + std::min(q, last_row) * kMixingFactors * h; }

  const float* queries = nullptr;    // the first row's
  const float* positions = nullptr;  // the chunk's, [5][h][kChunk]
  int64_t last_row = 0, h = 0;
  int64_t first = 0, second = kMixingRank;
};

// A head's vector of a tile.
template <class Terms>
HWY_INLINE FloatVector LoadHead(const AttentionPlan& plan, const HeadLane<Terms>* tile, int64_t head, int64_t at) {
  if constexpr (Terms::kTerms == 1) {
    return hn::Load(Tag<float>(), tile + head * plan.pitch + at);
  } else {
    const auto pairs = LoadLanes(tile + head / 2 * plan.pitch + at);
    return head % 2 == 0 ? FirstOfPairs(pairs) : SecondOfPairs(pairs);
  }
}

// sums[row][Tq_0, Tq_1, Tp_0, Tp_1] of kFactorRows rows from `q` on and the positions from `j` on, by the factors from
// `begin` on; load(head, row) gives x.
template <class Load>
HWY_INLINE void FactorProducts(const TileFactors& factors, int64_t begin, int64_t q, int64_t j, const Load& load,
                               FloatVector (&sums)[kFactorRows][2 * kMixingRank]) {
  const Tag<float> d;
  const int64_t h = factors.h;
  const float* of_query[kFactorRows];
  CROSSTALK_UNROLL
  for (int r = 0; r < kFactorRows; ++r) {
    of_query[r] = factors.OfQuery(q + r) + begin * h;
    for (auto& sum : sums[r]) sum = hn::Zero(d);
  }
  const float* of_position = factors.positions + begin * h * kChunk + j;
  for (int64_t s = 0; s < h; ++s) {
    const auto p_0 = hn::Load(d, of_position + s * kChunk), p_1 = hn::Load(d, of_position + (h + s) * kChunk);
    CROSSTALK_UNROLL
    for (int r = 0; r < kFactorRows; ++r) {
      const auto x = load(s, r);
      sums[r][0] = hn::MulAdd(hn::Set(d, of_query[r][s]), x, sums[r][0]);
      sums[r][1] = hn::MulAdd(hn::Set(d, of_query[r][h + s]), x, sums[r][1]);
      sums[r][2] = hn::MulAdd(p_0, x, sums[r][2]);
      sums[r][3] = hn::MulAdd(p_1, x, sums[r][3]);
    }
  }
}

// y = or += x mixed.
template <class Terms>
HWY_NOINLINE void MixFactors(const AttentionPlan& plan, const TileFactors& factors, int64_t first_row, bool accumulate,
                             const HeadLane<Terms>* x, float* y) {
  const Tag<float> d;
  const int64_t h = factors.h;
  const float* second = factors.positions + factors.second * h * kChunk;
  const float* diagonal = factors.positions + 2 * kMixingRank * h * kChunk;
  for (int64_t q = first_row; q < plan.rows; q += kFactorRows) {
    for (int64_t j = 0; j < kChunk; j += kLanes) {
      const int64_t at = q * kChunk + j;
      const auto load = [&](int64_t head, int r) HWY_ATTR { return LoadHead<Terms>(plan, x, head, at + r * kChunk); };
      FloatVector T[kFactorRows][2 * kMixingRank];
      FactorProducts(factors, factors.first, q, j, load, T);
      const float* of_query[kFactorRows];
      CROSSTALK_UNROLL
      for (int r = 0; r < kFactorRows; ++r) of_query[r] = factors.OfQuery(q + r);
      for (int64_t t = 0; t < h; ++t) {
        const auto p_0 = hn::Load(d, second + t * kChunk + j), p_1 = hn::Load(d, second + (h + t) * kChunk + j);
        const auto p_d = hn::Load(d, diagonal + t * kChunk + j);
        CROSSTALK_UNROLL
        for (int r = 0; r < kFactorRows; ++r) {
          const float* F = of_query[r];
          float* to = y + t * plan.pitch + at + r * kChunk;
          const auto weight = hn::Add(hn::Set(d, F[2 * kMixingRank * h + t]), p_d);
          auto sum = hn::MulAdd(load(t, r), weight, accumulate ? hn::Load(d, to) : hn::Zero(d));
          sum = hn::MulAdd(T[r][0], hn::Set(d, F[factors.second * h + t]), sum);
          sum = hn::MulAdd(T[r][1], hn::Set(d, F[(factors.second + 1) * h + t]), sum);
          sum = hn::MulAdd(T[r][2], p_0, sum);
          hn::Store(hn::MulAdd(T[r][3], p_1, sum), d, to);
        }
      }
    }
  }
}

// The same at row q and position j.
template <class Terms>
HWY_INLINE FloatVector LoadPositions(const AttentionPlan& plan, const PositionLane<Terms>* tile, int64_t head,
                                     int64_t q, int64_t j) {
  if constexpr (Terms::kTerms == 1) {
    return hn::Load(Tag<float>(), tile + head * plan.pitch + q * kChunk + j);
  } else {
    const auto pairs = LoadLanes(tile + head * plan.position_pitch + q * kHalf + j % kHalf);
    return j < kHalf ? FirstOfPairs(pairs) : SecondOfPairs(pairs);
  }
}

// The gradients of a tile's factors from x and dy: those of its rows, of_queries[rows][5][h][kPartialSums], and those
// of the chunk's positions, of_positions[5][h][kChunk], to which they are added; not where these are null.
template <class Terms>
HWY_NOINLINE void AddFactorGradients(const AttentionPlan& plan, const TileFactors& factors, int64_t first_row,
                                     const PositionLane<Terms>* x, const PositionLane<Terms>* dy, float* of_queries,
                                     float* of_positions) {
  const Tag<float> d;
  const int64_t h = factors.h;
  // T and S of each row, of the query's factors and of the position's.
  constexpr int kProducts = 2 * kMixingRank;
  HWY_ALIGN float T[kFactorRows][kProducts][kChunk];
  HWY_ALIGN float S[kFactorRows][kProducts][kChunk];
  // sums[i][head][stride] += the five gradients of a head from its x and dy; its T and S are those from `of` on.
  const auto add = [&](int64_t head, int of, int r, int64_t row, int64_t j,
                       FloatVector(&sums)[kMixingFactors]) HWY_ATTR {
    const auto from = LoadPositions<Terms>(plan, x, head, row, j), to = LoadPositions<Terms>(plan, dy, head, row, j);
    sums[0] = hn::MulAdd(from, hn::Load(d, S[r][of] + j), sums[0]);
    sums[1] = hn::MulAdd(from, hn::Load(d, S[r][of + 1] + j), sums[1]);
    sums[2] = hn::MulAdd(to, hn::Load(d, T[r][of] + j), sums[2]);
    sums[3] = hn::MulAdd(to, hn::Load(d, T[r][of + 1] + j), sums[3]);
    sums[4] = hn::MulAdd(from, to, sums[4]);
  };
  for (int64_t q = first_row; q < plan.rows; q += kFactorRows) {
    for (int64_t j = 0; j < kChunk; j += kLanes) {
      const auto products = [&](const PositionLane<Terms>* tile, int64_t begin,
                                float(&out)[kFactorRows][kProducts][kChunk]) HWY_ATTR {
        FloatVector sums[kFactorRows][kProducts];
        FactorProducts(
            factors, begin, q, j,
            [&](int64_t head, int r) HWY_ATTR { return LoadPositions<Terms>(plan, tile, head, q + r, j); }, sums);
        CROSSTALK_UNROLL
        for (int r = 0; r < kFactorRows; ++r) {
          CROSSTALK_UNROLL
          for (int i = 0; i < kProducts; ++i) hn::Store(sums[r][i], d, out[r][i] + j);
        }
      };
      products(x, 0, T);
      products(dy, kMixingRank, S);
    }
    FloatVector sums[kMixingFactors];
    const auto load = [&](const float* from, int64_t stride) HWY_ATTR {
      CROSSTALK_UNROLL
      for (int i = 0; i < kMixingFactors; ++i) sums[i] = hn::Load(d, from + i * stride);
    };
    const auto store = [&](float* to, int64_t stride) HWY_ATTR {
      CROSSTALK_UNROLL
      for (int i = 0; i < kMixingFactors; ++i) hn::Store(sums[i], d, to + i * stride);
    };
    for (int64_t j = 0; of_positions != nullptr && j < kChunk; j += kLanes) {
      for (int64_t head = 0; head < h; ++head) {
        float* at = of_positions + head * kChunk + j;
        load(at, h * kChunk);
        CROSSTALK_UNROLL
        for (int r = 0; r < kFactorRows; ++r) add(head, kMixingRank, r, q + r, j, sums);
        store(at, h * kChunk);
      }
    }
    for (int r = 0; of_queries != nullptr && r < kFactorRows; ++r) {
      float* of_row = of_queries + (q + r) * kMixingFactors * h * kPartialSums;
      for (int64_t j = 0; j < kPartialSums; j += kLanes) {
        for (int64_t head = 0; head < h; ++head) {
          float* at = of_row + head * kPartialSums + j;
          load(at, h * kPartialSums);
          CROSSTALK_UNROLL
          for (int half = 0; half < kChunk; half += kPartialSums) add(head, 0, r, q + r, j + half, sums);
          store(at, h * kPartialSums);
        }
      }
    }
  }
}

CROSSTALK_END_TARGET

#endif
