#include "crosstalk/kernels/head_convolution.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/head_convolution.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/dispatch-inl.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_HEAD_CONVOLUTION_SHARED_
#define CROSSTALK_KERNELS_HEAD_CONVOLUTION_SHARED_
namespace crosstalk::kernels {

// Sums of a filter's gradient, for every width of a vector.
inline constexpr int kGradientLanes = 16;
// Rows are padded to a multiple of it: four vectors at least.
inline constexpr int64_t kRowBlock = 64;

}  // namespace crosstalk::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// y[j] = Σ_{a<c_q, k<c_k} taps[a, k] · rows[a, j + k] for kVectors vectors of elements j, in that order of terms.
template <int kVectors, typename T>
HWY_INLINE void ConvolveVectors(int64_t c_q, int64_t c_k, int64_t pitch, const T* rows, const T* taps, T* y) {
  constexpr int kLanes = kLanesOf<T>;
  const Tag<T> d;
  hn::Vec<Tag<T>> sums[kVectors];
  CROSSTALK_UNROLL
  for (int v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  for (int64_t a = 0; a < c_q; ++a) {
    for (int64_t k = 0; k < c_k; ++k) {
      const auto tap = hn::Set(d, taps[a * c_k + k]);
      const T* const from = rows + a * pitch + k;
      CROSSTALK_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[v] = hn::MulAdd(tap, hn::LoadU(d, from + v * kLanes), sums[v]);
    }
  }
  CROSSTALK_UNROLL
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, y + v * kLanes);
}

// A row of m elements, a multiple of kRowBlock.
template <typename T>
void ConvolveRow(int64_t m, int64_t c_q, int64_t c_k, int64_t pitch, const T* rows, const T* taps, T* y) {
  constexpr int64_t kFour = 4 * kLanesOf<T>;
  int64_t j = 0;
  for (; j + 2 * kFour <= m; j += 2 * kFour) ConvolveVectors<8>(c_q, c_k, pitch, rows + j, taps, y + j);
  for (; j < m; j += kFour) ConvolveVectors<4>(c_q, c_k, pitch, rows + j, taps, y + j);
}

// sums[k, lane] += dy[j] · row[j + k] for kTaps taps k and j < m, j in lane j mod kGradientLanes. dy has zeros up to a
// whole number of lanes, and row as many elements more as k.
template <int kTaps, typename T>
HWY_INLINE void AddGradientsOfTaps(int64_t m, const T* dy, const T* row, T* sums) {
  constexpr int kLanes = std::min(kLanesOf<T>, kGradientLanes), kVectors = kGradientLanes / kLanes;
  const hn::CappedTag<T, kGradientLanes> d;
  hn::Vec<decltype(d)> held[kTaps * kVectors];
  CROSSTALK_UNROLL
  for (int i = 0; i < kTaps * kVectors; ++i) held[i] = hn::LoadU(d, sums + i * kLanes);
  for (int64_t j = 0; j < m; j += kGradientLanes) {
    CROSSTALK_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const auto gradient = hn::LoadU(d, dy + j + v * kLanes);
      CROSSTALK_UNROLL
      for (int k = 0; k < kTaps; ++k) {
        held[k * kVectors + v] = hn::MulAdd(gradient, hn::LoadU(d, row + j + k + v * kLanes), held[k * kVectors + v]);
      }
    }
  }
  CROSSTALK_UNROLL
  for (int i = 0; i < kTaps * kVectors; ++i) hn::StoreU(held[i], d, sums + i * kLanes);
}

// The same for c_k taps, of which as many at a time as registers hold.
template <typename T>
void AddTapGradients(int64_t m, int64_t c_k, const T* dy, const T* row, T* sums) {
  constexpr int kMost = kLanesOf<T> >= kGradientLanes ? 11 : 6;
  int64_t k = 0;
  for (; k + kMost <= c_k; k += kMost) AddGradientsOfTaps<kMost>(m, dy, row + k, sums + k * kGradientLanes);
  for (; k + 3 <= c_k; k += 3) AddGradientsOfTaps<3>(m, dy, row + k, sums + k * kGradientLanes);
  for (; k < c_k; ++k) AddGradientsOfTaps<1>(m, dy, row + k, sums + k * kGradientLanes);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
CROSSTALK_DISPATCH(ConvolveRow)
CROSSTALK_DISPATCH(AddTapGradients)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr int64_t kRowsAtOnce = 32;

// Keys that a query sees, the first ones.
int64_t KeysOf(const HeadConvolutionShape& s, int64_t query) {
  return s.causal ? std::min(s.m, query + s.m - s.n + 1) : s.m;
}

// y[n, m] of each plane x[n, m] of b·h: y[i, j] = Σ taps[a, k] · x[i + a - above, j + k - before], 0 outside, with
// the taps[h, c_q, c_k] of its head.
template <typename T>
void ConvolvePlanes(const HeadConvolutionShape& s, int64_t above, int64_t before, const T* x,
                    const std::vector<T>& taps, T* y) {
  const auto convolve = ConvolveRowOnTarget<T>();
  const int64_t wide = RoundUp(s.m, kRowBlock), pitch = wide + s.c_k - 1;
  const int64_t blocks = CeilDivide(s.n, kRowsAtOnce);
  ParallelForRange(s.b * s.h * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> padded(static_cast<size_t>((kRowsAtOnce + s.c_q - 1) * pitch)), row(static_cast<size_t>(wide));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t plane = task / blocks, first = task % blocks * kRowsAtOnce;
      const int64_t rows = std::min(kRowsAtOnce, s.n - first);
      for (int64_t i = 0; i < rows + s.c_q - 1; ++i) {
        T* const to = padded.data() + i * pitch;
        const int64_t from = first + i - above;
        const bool inside = from >= 0 && from < s.n;
        std::fill(to, to + pitch, T(0));
        if (inside) std::copy_n(x + (plane * s.n + from) * s.m, KeysOf(s, from), to + before);
      }
      const T* const own_taps = taps.data() + plane % s.h * s.c_q * s.c_k;
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t keys = KeysOf(s, first + i);
        convolve(RoundUp(keys, kRowBlock), s.c_q, s.c_k, pitch, padded.data() + i * pitch, own_taps, row.data());
        T* const to = y + (plane * s.n + first + i) * s.m;
        std::copy_n(row.data(), keys, to);
        std::fill(to + keys, to + s.m, T(0));
      }
    }
  });
}

// taps[h, c_q, c_k] of filter[c_q, c_k, h]; turned round both ways for the gradient.
template <typename T>
std::vector<T> TapsOf(const HeadConvolutionShape& s, const T* filter, bool turned) {
  const int64_t count = s.c_q * s.c_k;
  std::vector<T> taps(static_cast<size_t>(s.h * count));
  for (int64_t head = 0; head < s.h; ++head) {
    for (int64_t i = 0; i < count; ++i) {
      taps[static_cast<size_t>(head * count + (turned ? count - 1 - i : i))] = filter[i * s.h + head];
    }
  }
  return taps;
}

template <typename T>
void FilterGradient(const HeadConvolutionShape& s, const T* x, const T* dy, T* dfilter) {
  const auto add = AddTapGradientsOnTarget<T>();
  const int64_t wide = RoundUp<int64_t>(s.m, kGradientLanes), pitch = wide + s.c_k - 1;
  ParallelForRange(s.h * s.c_q, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> row(static_cast<size_t>(pitch)), gradient(static_cast<size_t>(wide));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t head = task / s.c_q, a = task % s.c_q;
      std::vector<T> sums(static_cast<size_t>(s.c_k * kGradientLanes));
      for (int64_t b = 0; b < s.b; ++b) {
        for (int64_t i = s.c_q - 1 - a; i < s.n; ++i) {
          const int64_t at = (b * s.h + head) * s.n + i, above = s.c_q - 1 - a;
          const int64_t keys = KeysOf(s, i), keys_above = KeysOf(s, i - above);
          std::copy_n(dy + at * s.m, keys, gradient.data());
          std::fill(gradient.begin() + keys, gradient.end(), T(0));
          std::copy_n(x + (at - above) * s.m, keys_above, row.data() + s.left);
          std::fill(row.begin() + s.left + keys_above, row.end(), T(0));
          add(RoundUp<int64_t>(keys, kGradientLanes), s.c_k, gradient.data(), row.data(), sums.data());
        }
      }
      for (int64_t k = 0; k < s.c_k; ++k) {
        T sum = 0;
        for (int lane = 0; lane < kGradientLanes; ++lane) sum += sums[static_cast<size_t>(k * kGradientLanes + lane)];
        dfilter[(a * s.c_k + k) * s.h + head] = sum;
      }
    }
  });
}

}  // namespace

template <typename T>
void HeadConvolution(const HeadConvolutionShape& s, const T* x, const T* filter, T* y) {
  ConvolvePlanes(s, s.c_q - 1, s.left, x, TapsOf(s, filter, false), y);
}

// dx[n, m] = Σ filter[a, k] · dy[n + (c_q - 1) - a, m + left - k]: the convolution of dy with the filter turned round.
template <typename T>
void HeadConvolutionGradient(const HeadConvolutionShape& s, const T* x, const T* filter, const T* dy, T* dx,
                             T* dfilter) {
  if (dx != nullptr) ConvolvePlanes(s, 0, s.c_k - 1 - s.left, dy, TapsOf(s, filter, true), dx);
  if (dfilter != nullptr) FilterGradient(s, x, dy, dfilter);
}

template void HeadConvolution(const HeadConvolutionShape&, const float*, const float*, float*);
template void HeadConvolution(const HeadConvolutionShape&, const double*, const double*, double*);
template void HeadConvolutionGradient(const HeadConvolutionShape&, const float*, const float*, const float*, float*,
                                      float*);
template void HeadConvolutionGradient(const HeadConvolutionShape&, const double*, const double*, const double*, double*,
                                      double*);

}  // namespace crosstalk::kernels
#endif
