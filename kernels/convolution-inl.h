// Convolutions of planes of rows with a filter, and the filter's gradient, in registers. Columns are a multiple of
// kConvolvedColumns, rows of kConvolvedRows; the caller pads with zeros what a filter reads beyond. Compiled once per
// target.
#if defined(CROSSTALK_KERNELS_CONVOLUTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_CONVOLUTION_INL_H_
#undef CROSSTALK_KERNELS_CONVOLUTION_INL_H_
#else
#define CROSSTALK_KERNELS_CONVOLUTION_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "crosstalk/kernels/heads.h"
#include "crosstalk/kernels/simd-inl.h"

CROSSTALK_BEGIN_TARGET

// Rows of a register block, of two vectors each: with 32 registers 16 accumulators, a filter's row of up to 6 taps and
// two vectors of x. A vector of x, which lies across two lines as a rule, then serves up to 6 multiply-adds.
template <typename T>
inline constexpr int kBlockRows = kLanesOf<T>* static_cast<int>(sizeof(T)) >= 64 ? 8 : 4;

// f(size, first) for pieces of `count` whose sizes are among kSizes, as large as possible.
template <int... kSizes, class F>
HWY_INLINE void ForPieces(int64_t count, F f) {
  const auto take = [&](auto size, int64_t& first) HWY_ATTR {
    for (; count - first >= size.value; first += size.value) f(size, first);
  };
  int64_t first = 0;
  (take(std::integral_constant<int, kSizes>(), first), ...);
}

// y[i, j] = or += Σ_{a<A, k<c_k} taps[a, k] · x[i + a, j + k] for kBlockRows rows i and two vectors of columns j. Rows
// of taps are taps_row apart. c_k is at most kReadBeside + 1.
template <int A, typename T>
HWY_INLINE void ConvolveBlock(bool add, int64_t c_k, const T* HWY_RESTRICT x, int64_t x_pitch,
                              const T* HWY_RESTRICT taps, int64_t taps_row, T* HWY_RESTRICT y, int64_t y_pitch) {
  constexpr int R = kBlockRows<T>, kLanes = kLanesOf<T>, kWidth = 2 * kLanes + kReadBeside;
  const Tag<T> d;
  // A copy at distances known to the compiler: one pointer serves all its rows.
  HWY_ALIGN T rows[(R + A - 1) * kWidth];
  for (int t = 0; t < R + A - 1; ++t) {
    CROSSTALK_UNROLL
    for (int j = 0; j < kWidth; j += kLanes) hn::Store(hn::LoadU(d, x + t * x_pitch + j), d, rows + t * kWidth + j);
  }
  hn::Vec<Tag<T>> sum[R][2];
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < 2; ++v) sum[r][v] = add ? hn::LoadU(d, y + r * y_pitch + v * kLanes) : hn::Zero(d);
  }
  for (int64_t k = 0; k < c_k; ++k) {
    hn::Vec<Tag<T>> tap[A];
    CROSSTALK_UNROLL
    for (int a = 0; a < A; ++a) tap[a] = hn::Set(d, taps[a * taps_row + k]);
    CROSSTALK_UNROLL
    for (int t = 0; t < R + A - 1; ++t) {
      const auto first = hn::LoadU(d, rows + t * kWidth + k), second = hn::LoadU(d, rows + t * kWidth + k + kLanes);
      CROSSTALK_UNROLL
      for (int r = 0; r < R; ++r) {
        if (t - r < 0 || t - r >= A) continue;
        sum[r][0] = hn::MulAdd(tap[t - r], first, sum[r][0]);
        sum[r][1] = hn::MulAdd(tap[t - r], second, sum[r][1]);
      }
    }
  }
  CROSSTALK_UNROLL
  for (int r = 0; r < R; ++r) {
    CROSSTALK_UNROLL
    for (int v = 0; v < 2; ++v) hn::StoreU(sum[r][v], d, y + r * y_pitch + v * kLanes);
  }
}

// y[i, j] = Σ_{a<c_q, k<c_k} taps[a, k] · x[i + a, j + k] for i < rows, j < columns. Rows of x can be read for
// kReadBeside elements more than the sum reads.
template <typename T>
HWY_NOINLINE void Convolve(int64_t rows, int64_t columns, int64_t c_q, int64_t c_k, const T* x, int64_t x_pitch,
                           const T* taps, T* y, int64_t y_pitch) {
  for (int64_t i = 0; i < rows; i += kBlockRows<T>) {
    for (int64_t j = 0; j < columns; j += 2 * kLanesOf<T>) {
      for (int64_t k = 0; k < c_k; k += kReadBeside + 1) {
        ForPieces<6, 3, 2, 1>(c_q, [&](auto A, int64_t a) HWY_ATTR {
          ConvolveBlock<A.value>(a + k > 0, std::min<int64_t>(c_k - k, kReadBeside + 1), x + (i + a) * x_pitch + j + k,
                                 x_pitch, taps + a * c_k + k, c_k, y + i * y_pitch + j, y_pitch);
        });
      }
    }
  }
}

// sums[a, k, lane] += Σ_j dy[-a, j] · x[j + k] for A × K taps, j in lane j mod kFilterLanes. Rows of sums are c_k taps.
template <int A, int K, typename T>
HWY_INLINE void AddTaps(int64_t columns, int64_t c_k, const T* HWY_RESTRICT dy, int64_t dy_pitch,
                        const T* HWY_RESTRICT x, T* HWY_RESTRICT sums) {
  constexpr int kLanes = std::min(kLanesOf<T>, kFilterLanes);
  const hn::CappedTag<T, kFilterLanes> d;
  for (int lane = 0; lane < kFilterLanes; lane += kLanes) {
    hn::Vec<decltype(d)> sum[A][K];
    CROSSTALK_UNROLL
    for (int a = 0; a < A; ++a) {
      CROSSTALK_UNROLL
      for (int k = 0; k < K; ++k) sum[a][k] = hn::LoadU(d, sums + (a * c_k + k) * kFilterLanes + lane);
    }
    for (int64_t j = lane; j < columns; j += kFilterLanes) {
      hn::Vec<decltype(d)> from[K];
      CROSSTALK_UNROLL
      for (int k = 0; k < K; ++k) from[k] = hn::LoadU(d, x + j + k);
      CROSSTALK_UNROLL
      for (int a = 0; a < A; ++a) {
        const auto gradient = hn::LoadU(d, dy - a * dy_pitch + j);
        CROSSTALK_UNROLL
        for (int k = 0; k < K; ++k) sum[a][k] = hn::MulAdd(gradient, from[k], sum[a][k]);
      }
    }
    CROSSTALK_UNROLL
    for (int a = 0; a < A; ++a) {
      CROSSTALK_UNROLL
      for (int k = 0; k < K; ++k) hn::StoreU(sum[a][k], d, sums + (a * c_k + k) * kFilterLanes + lane);
    }
  }
}

// sums[c_q, c_k, kFilterLanes] += Σ_{i<rows, j<columns} dy[i, j] · x[i + a, j + k]: the gradient of Convolve's taps
// before its partial sums are added. Each tap's terms come row by row, whatever taps are computed together.
template <typename T>
HWY_NOINLINE void AddFilterGradient(int64_t rows, int64_t columns, int64_t c_q, int64_t c_k, const T* dy,
                                    int64_t dy_pitch, const T* x, int64_t x_pitch, T* sums) {
  constexpr int kMost = kLanesOf<T> * static_cast<int>(sizeof(T)) >= 64 ? 6 : 3;  // taps of a column together
  const auto add = [&](auto A, int64_t first, int64_t t) HWY_ATTR {               // row t of x
    ForPieces<4, 3, 1>(c_k, [&](auto K, int64_t k) HWY_ATTR {
      AddTaps<A.value, K.value>(columns, c_k, dy + (t - first) * dy_pitch, dy_pitch, x + t * x_pitch + k,
                                sums + (first * c_k + k) * kFilterLanes);
    });
  };
  ForPieces<kMost, kMost / 2, 1>(c_q, [&](auto A, int64_t first) HWY_ATTR {
    for (int64_t t = first; t < first + rows + A.value - 1; ++t) {
      if (t - first >= A.value - 1 && t - first < rows) {
        add(A, first, t);
      } else {  // rows of x that not all these taps read
        for (int64_t a = std::max(first, t - rows + 1); a < first + A.value && a <= t; ++a) {
          add(std::integral_constant<int, 1>(), a, t);
        }
      }
    }
  });
}

CROSSTALK_END_TARGET

#endif
