#include <algorithm>
#include <vector>

#include "crosstalk/kernels/heads.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/head_convolution.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/convolution-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_DISPATCH(Convolve)
CROSSTALK_DISPATCH(AddFilterGradient)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr int64_t kRowsAtOnce = 32;

// Keys that a query sees, the first ones.
int64_t KeysOf(const HeadConvolutionShape& s, int64_t query) {
  return s.causal ? std::min(s.m, query + s.m - s.n + 1) : s.m;
}

// Rows of a plane[n, m] of b·h, in the shape's order, that a task reads or writes.
struct PlaneRows {
  int64_t plane, first, count;
};

template <typename T>
class PaddedRows {
 public:
  PaddedRows(int64_t rows, int64_t columns)
      : columns_(columns), data_(static_cast<size_t>(rows * columns + kReadBeside)) {}
  // rows[i, before + j] = x[first + i, j], 0 wherever there is none that the query sees.
  void Read(const HeadConvolutionShape& s, const T* x, const PlaneRows& rows, int64_t before) {
    std::fill(data_.begin(), data_.end(), T(0));
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t from = rows.first + i;
      if (from < 0 || from >= s.n) continue;
      std::copy_n(x + (rows.plane * s.n + from) * s.m, KeysOf(s, from), data() + i * columns_ + before);
    }
  }
  void Write(const HeadConvolutionShape& s, const PlaneRows& rows, T* y) const {
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t keys = KeysOf(s, rows.first + i);
      T* const to = y + (rows.plane * s.n + rows.first + i) * s.m;
      std::copy_n(data_.data() + i * columns_, keys, to);
      std::fill(to + keys, to + s.m, T(0));
    }
  }
  T* data() { return data_.data(); }
  int64_t columns() const { return columns_; }

 private:
  int64_t columns_;
  std::vector<T> data_;
};

// y[n, m] of each plane x[n, m] of b·h: y[i, j] = Σ taps[a, k] · x[i + a - above, j + k - before], 0 outside, with
// the taps[h, c_q, c_k] of its head.
template <typename T>
void ConvolvePlanes(const HeadConvolutionShape& s, int64_t above, int64_t before, const T* x,
                    const std::vector<T>& taps, T* y) {
  const auto convolve = ConvolveOnTarget<T>();
  const int64_t columns = RoundUp(s.m, kConvolvedColumns), blocks = CeilDivide(s.n, kRowsAtOnce);
  ParallelForRange(s.b * s.h * blocks, 1, [&](int64_t begin, int64_t end) {
    PaddedRows<T> from(kRowsAtOnce + s.c_q - 1, columns + s.c_k - 1), to(kRowsAtOnce, columns);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t plane = task / blocks, first = task % blocks * kRowsAtOnce;
      const int64_t rows = std::min(kRowsAtOnce, s.n - first);
      from.Read(s, x, {plane, first - above, rows + s.c_q - 1}, before);
      convolve(RoundUp(rows, kConvolvedRows), RoundUp(KeysOf(s, first + rows - 1), kConvolvedColumns), s.c_q, s.c_k,
               from.data(), from.columns(), taps.data() + plane % s.h * s.c_q * s.c_k, to.data(), columns);
      to.Write(s, {plane, first, rows}, y);
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
  const auto add = AddFilterGradientOnTarget<T>();
  const int64_t columns = RoundUp(s.m, kConvolvedColumns), blocks = CeilDivide(s.n, kRowsAtOnce), count = s.c_q * s.c_k;
  std::vector<T> sums(
      static_cast<size_t>(s.b * s.h * blocks * count));  // each block of rows has its own, added up in order
  ParallelForRange(s.b * s.h * blocks, 1, [&](int64_t begin, int64_t end) {
    PaddedRows<T> from(kRowsAtOnce + s.c_q - 1, columns + s.c_k - 1), gradient(kRowsAtOnce, columns);
    std::vector<T> lanes(static_cast<size_t>(count * kFilterLanes));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t plane = task / blocks, first = task % blocks * kRowsAtOnce;
      const int64_t rows = std::min(kRowsAtOnce, s.n - first);
      from.Read(s, x, {plane, first - (s.c_q - 1), rows + s.c_q - 1}, s.left);
      gradient.Read(s, dy, {plane, first, rows}, 0);
      std::fill(lanes.begin(), lanes.end(), T(0));
      add(rows, columns, s.c_q, s.c_k, gradient.data(), columns, from.data(), from.columns(), lanes.data());
      for (int64_t i = 0; i < count; ++i) {
        T& sum = sums[static_cast<size_t>(task * count + i)];
        for (int lane = 0; lane < kFilterLanes; ++lane) sum += lanes[static_cast<size_t>(i * kFilterLanes + lane)];
      }
    }
  });
  std::fill_n(dfilter, count * s.h, T(0));
  for (int64_t task = 0; task < s.b * s.h * blocks; ++task) {
    for (int64_t i = 0; i < count; ++i) {
      dfilter[i * s.h + task / blocks % s.h] += sums[static_cast<size_t>(task * count + i)];
    }
  }
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

CROSSTALK_INSTANTIATE(HeadConvolution)
CROSSTALK_INSTANTIATE(HeadConvolutionGradient)

}  // namespace crosstalk::kernels
#endif
