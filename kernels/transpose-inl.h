// Transposing while packing. Compiled once per target.
#if defined(CROSSTALK_KERNELS_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_TRANSPOSE_INL_H_
#undef CROSSTALK_KERNELS_TRANSPOSE_INL_H_
#else
#define CROSSTALK_KERNELS_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "crosstalk/kernels/targets.h"

CROSSTALK_BEGIN_TARGET

// The change of an element on its way: Kept, or times a factor.
struct Kept {
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return v;
  }
};
template <typename T>
struct Scaled {
  T factor;
  HWY_INLINE T operator()(T x) const { return factor * x; }
  HWY_INLINE hn::Vec<hn::Full128<T>> operator()(hn::Vec<hn::Full128<T>> v) const {
    return hn::Mul(hn::Set(hn::Full128<T>(), factor), v);
  }
};

// out[c · out_stride + r] = map(in[r · in_stride + c]) for a 4 × 4 block.
template <typename T, class Map>
HWY_INLINE void Transpose4x4(const T* in, int64_t in_stride, Map map, T* out, int64_t out_stride) {
  const hn::Full128<T> d;
  if constexpr (sizeof(T) == 4) {
    const auto r0 = map(hn::LoadU(d, in));
    const auto r1 = map(hn::LoadU(d, in + in_stride));
    const auto r2 = map(hn::LoadU(d, in + 2 * in_stride));
    const auto r3 = map(hn::LoadU(d, in + 3 * in_stride));
    const auto low01 = hn::InterleaveLower(d, r0, r1), high01 = hn::InterleaveUpper(d, r0, r1);
    const auto low23 = hn::InterleaveLower(d, r2, r3), high23 = hn::InterleaveUpper(d, r2, r3);
    hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, out);
    hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, out + out_stride);
    hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, out + 2 * out_stride);
    hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, out + 3 * out_stride);
  } else {
    for (int r = 0; r < 4; r += 2) {
      for (int c = 0; c < 4; c += 2) {
        const auto r0 = map(hn::LoadU(d, in + r * in_stride + c));
        const auto r1 = map(hn::LoadU(d, in + (r + 1) * in_stride + c));
        hn::StoreU(hn::InterleaveLower(d, r0, r1), d, out + c * out_stride + r);
        hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, out + (c + 1) * out_stride + r);
      }
    }
  }
}

// out[c · out_stride + r] = map(in[r · in_stride + c]), r < rows, c < cols; zeros for rows ≤ r < padded_rows.
template <typename T, class Map>
HWY_INLINE void TransposeMapped(int64_t rows, int64_t padded_rows, int64_t cols, const T* in, int64_t in_stride,
                                Map map, T* out, int64_t out_stride) {
  const int64_t whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
  for (int64_t c = 0; c < whole_cols; c += 4) {
    for (int64_t r = 0; r < whole_rows; r += 4) {
      Transpose4x4(in + r * in_stride + c, in_stride, map, out + c * out_stride + r, out_stride);
    }
  }
  for (int64_t c = whole_rows < rows ? 0 : whole_cols; c < cols; ++c) {
    for (int64_t r = c < whole_cols ? whole_rows : 0; r < rows; ++r) {
      out[c * out_stride + r] = map(in[r * in_stride + c]);
    }
  }
  for (int64_t c = 0; c < cols && rows < padded_rows; ++c) {
    for (int64_t r = rows; r < padded_rows; ++r) out[c * out_stride + r] = T(0);
  }
}
template <typename T>
HWY_INLINE void TransposeScaled(int64_t rows, int64_t padded_rows, int64_t cols, const T* in, int64_t in_stride,
                                T scale, T* out, int64_t out_stride) {
  TransposeMapped(rows, padded_rows, cols, in, in_stride, Scaled<T>{scale}, out, out_stride);
}
// Keeps each element's bits.
template <typename T>
HWY_INLINE void TransposeBits(int64_t rows, int64_t padded_rows, int64_t cols, const T* in, int64_t in_stride, T* out,
                              int64_t out_stride) {
  TransposeMapped(rows, padded_rows, cols, in, in_stride, Kept(), out, out_stride);
}

CROSSTALK_END_TARGET

#endif
