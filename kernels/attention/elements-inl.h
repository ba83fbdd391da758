// Elementwise work on a tile: the logits' start (bias and masks), exp, dropout, the softmax's gradient.
// Compiled once per target.
#if defined(CROSSTALK_ATTENTION_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_ELEMENTS_INL_H_
#undef CROSSTALK_ATTENTION_ELEMENTS_INL_H_
#else
#define CROSSTALK_ATTENTION_ELEMENTS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/products-inl.h"
#include "crosstalk/kernels/philox-inl.h"
#include "crosstalk/kernels/rows.h"

CROSSTALK_BEGIN_TARGET

// A masked logit: minus infinity for every purpose, but finite, so that differences of two are no NaN.
inline constexpr float kMaskedLogit = -3.0e38f;
// The maximum of a row that has seen no position yet: no logit that counts is as low, and a masked one is lower
// whatever was added to it.
inline constexpr float kNoRowMax = kHiddenLogit;
// A row's running maximum is raised when a logit exceeds it by this much: e^60 · 2^40 terms stay within a float.
inline constexpr float kRowMaxSlack = 60.0f;
// A lower bound on the only weight of a row: e^x · (1 / e^x), rounded twice.
inline constexpr float kWholeWeight = 0x1.fffffep-1f;

// e^x = 2^n · 2^f with n + f = x·log2(e), |f| ≤ 1/2: for x ≤ 88; 0 for x < -87; NaN stays NaN. The error, 2^-23 +
// |x|·2^-25 of the value, is below 2^-23 of e^0, which is a row's largest weight. Cephes' polynomial of exp2f. A second
// exponential beside ExpFull (simd-inl.h), which is accurate relative to each value and takes any x: n·m·h of them are
// a large part of the attention's work beside its products, and it needs neither.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exponential(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);  // 1.5·2^23: adding it rounds to an integer in the low mantissa bits
  const V log2e = hn::Set(d, 1.44269504088896341f);
  const V shifted = hn::MulAdd(x, log2e, magic);
  const V f = hn::MulSub(x, log2e, hn::Sub(shifted, magic));
  V p = hn::MulAdd(hn::Set(d, 1.535336188319500e-4f), f, hn::Set(d, 1.339887440266574e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.618437357674640e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.550332471162809e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.402264791363012e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.931472028550421e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Zero(d), scaled);
}

// Raises a row's running maximum to `largest`. Sums so far are multiplied by e^(old - new), and so is, by
// rescale(factor), everything else that was computed for the row.
template <typename Rescale>
HWY_INLINE float RaiseRowMax(float largest, float* row_max, float* sums, const Rescale& rescale) {
  const float before = *row_max;
  *row_max = largest;
  if (before == kNoRowMax) return largest;  // all that came before is 0
  const Tag<float> d;
  const float factor = hn::GetLane(Exponential(d, hn::Set(d, std::max(before - largest, -88.0f))));
  for (int i = 0; i < kPartialSums; ++i) sums[i] *= factor;
  rescale(factor);
  return largest;
}

// W = e^(L - row_max) in place, sums[head, row, kPartialSums] += W; in bfloat16 rounded before it is added up, so that
// what is multiplied later adds up to the normaliser. The maximum of a row's first chunk serves for all
// of them unless a logit exceeds it by far: so no second exp per chunk corrects for a changing maximum, as in online
// softmax.
template <class Terms, typename Rescale>
HWY_INLINE void ExponentialsOnline(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, float* tile,
                                   float* row_max, float* sums, const Rescale& rescale) {
  const Tag<float> d;
  const auto slack = hn::Set(d, kRowMaxSlack);
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < rows; ++q) {
      float* row = tile + k * pitch + q * kChunk;
      float* row_sums = sums + (k * rows + q) * kPartialSums;
      auto max = hn::Set(d, row_max[k * rows + q]);
      auto largest = hn::Load(d, row);
      CROSSTALK_UNROLL
      for (int j = kLanes; j < kChunk; j += kLanes) largest = hn::Max(largest, hn::Load(d, row + j));
      if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Gt(hn::Sub(largest, max), slack)))) {
        max = hn::Set(d, RaiseRowMax(hn::GetLane(hn::MaxOfLanes(d, largest)), row_max + k * rows + q, row_sums,
                                     [&](float factor) { rescale(k, q, factor); }));
      }
      // e^(L - 0) of hidden logits is 0, also where L is kNoRowMax itself; NaN stays NaN.
      if (HWY_UNLIKELY(row_max[k * rows + q] == kNoRowMax)) max = hn::Zero(d);
      CROSSTALK_UNROLL
      for (int i = 0; i < kPartialSums; i += kLanes) {
        auto sum = hn::Load(d, row_sums + i);
        CROSSTALK_UNROLL
        for (int j = i; j < kChunk; j += kPartialSums) {
          const auto w = Terms::Rounded(Exponential(d, hn::Sub(hn::Load(d, row + j), max)));
          hn::Store(w, d, row + j);
          sum = hn::Add(sum, w);
        }
        hn::Store(sum, d, row_sums + i);
      }
    }
  }
}

// W = e^(L - row_max) · inv_row_sum in place, in bfloat16 rounded before it is normalised, as ExponentialsOnline has
// it.
template <class Terms>
HWY_INLINE void ExponentialsGiven(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, float* tile,
                                  const float* row_max, const float* inv_row_sum) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < rows; ++q) {
      float* row = tile + k * pitch + q * kChunk;
      const auto max = hn::Set(d, row_max[k * rows + q]);
      const auto inverse = hn::Set(d, inv_row_sum[k * rows + q]);
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) {
        const auto w = Terms::Rounded(Exponential(d, hn::Sub(hn::Load(d, row + j), max)));
        hn::Store(hn::Mul(w, inverse), d, row + j);
      }
    }
  }
}

// Each row times its factor.
HWY_INLINE void ScaleRows(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, const float* factors,
                          float* tile) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < rows; ++q) {
      float* row = tile + k * pitch + q * kChunk;
      const auto factor = hn::Set(d, factors[k * rows + q]);
      CROSSTALK_UNROLL
      for (int j = 0; j < kChunk; j += kLanes) hn::Store(hn::Mul(hn::Load(d, row + j), factor), d, row + j);
    }
  }
}

// sums[head, row, kPartialSums] += A · B.
HWY_INLINE void AddRowProducts(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, const float* a,
                               const float* b, float* sums) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < rows; ++q) {
      const int64_t at = k * pitch + q * kChunk;
      float* row_sums = sums + (k * rows + q) * kPartialSums;
      CROSSTALK_UNROLL
      for (int i = 0; i < kPartialSums; i += kLanes) {
        auto sum = hn::Load(d, row_sums + i);
        CROSSTALK_UNROLL
        for (int j = i; j < kChunk; j += kPartialSums) {
          sum = hn::MulAdd(hn::Load(d, a + at + j), hn::Load(d, b + at + j), sum);
        }
        hn::Store(sum, d, row_sums + i);
      }
    }
  }
}

// dL = W · (dW - D), in place of dW. As Σ dL = 0 over a row, dL is below the rounding of dW where W is 1, all other
// weights together being less than 2^-23; the difference of dW and D, which come from other sums, would be that
// rounding and nothing else, times keys of any size.
HWY_INLINE void SoftmaxGradient(int64_t count, const float* W, float D, float* dW) {
  const Tag<float> d;
  const auto whole = hn::Set(d, kWholeWeight), shift = hn::Set(d, D);
  CROSSTALK_UNROLL
  for (int64_t j = 0; j < count; j += kLanes) {
    const auto w = hn::Load(d, W + j);
    const auto dL = hn::Mul(w, hn::Sub(hn::Load(d, dW + j), shift));
    hn::Store(hn::IfThenZeroElse(hn::Ge(w, whole), dL), d, dW + j);
  }
}
HWY_INLINE void SoftmaxGradientTile(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, const float* W,
                                    const float* D, float* dW) {
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t q = first_row; q < rows; ++q) {
      const int64_t at = k * pitch + q * kChunk;
      SoftmaxGradient(kChunk, W + at, D[k * rows + q], dW + at);
    }
  }
}

HWY_INLINE void MultiplyTile(int64_t heads, int64_t rows, int64_t first_row, int64_t pitch, const float* factors,
                             float* tile) {
  const Tag<float> d;
  for (int64_t k = 0; k < heads; ++k) {
    for (int64_t at = k * pitch + first_row * kChunk; at < k * pitch + rows * kChunk; at += kLanes) {
      hn::Store(hn::Mul(hn::Load(d, tile + at), hn::Load(d, factors + at)), d, tile + at);
    }
  }
}

// Σ sums[kPartialSums].
HWY_INLINE float SumOfLanes(const float* sums) {
  const Tag<float> d;
  hn::Vec<Tag<float>> sum[kSumVectors];
  CROSSTALK_UNROLL
  for (int v = 0; v < kSumVectors; ++v) sum[v] = hn::Load(d, sums + v * kLanes);
  return SumOfLanes64<float>(sum);
}

// out[i] = Σ sums[i, kPartialSums].
HWY_INLINE void SumLanes(int64_t count, const float* sums, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = SumOfLanes(sums + i * kPartialSums);
}

// One row of dropout factors: factors[j] = Uniform(key, first + j) < rate ? 0 : 1 / (1 - rate), j < kChunk.
HWY_INLINE void DropoutFactors(const RandomKey& key, double rate, uint64_t first, float* factors) {
  constexpr int kWords = 4 * kPhiloxBlocks;
  HWY_ALIGN uint32_t words[kChunk + kWords];
  const int offset = static_cast<int>(first % 4);  // the row's, in its first block
  for (int done = 0; done < kChunk + offset; done += kWords) {
    PhiloxWords(key, first / 4 + static_cast<uint64_t>(done / 4), words + done);
  }
  const Tag<float> d;
  const hn::RebindToSigned<Tag<float>> di;
  const auto threshold = hn::Set(di, static_cast<int32_t>(std::ceil(rate * 0x1p24)));
  const auto kept = hn::Set(d, static_cast<float>(1.0 / (1.0 - rate)));
  for (int j = 0; j < kChunk; j += kLanes) {
    const auto number = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(Tag<uint32_t>(), words + offset + j)));
    hn::Store(hn::IfThenZeroElse(hn::RebindMask(d, hn::Lt(number, threshold)), kept), d, factors + j);
  }
}

CROSSTALK_END_TARGET

#endif
