#include <algorithm>

#include "crosstalk/kernels/rows.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/norm.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_NORM_SHARED_
#define CROSSTALK_KERNELS_NORM_SHARED_
namespace crosstalk::kernels {

// The inputs and outputs of a row tile. mean is null in RMS norm, which is layer norm with mean 0.
template <typename T>
struct NormTile {
  int64_t rows, cols;
  const T* x;
  const T* scale;  // null: 1
  const T* bias;   // null: 0
  double epsilon;
  T* y;
  T* mean;
  T* rstd;
};
template <typename T>
struct NormGradientTile {
  int64_t rows, cols;
  const T* x;
  const T* scale;
  const T* mean;
  const T* rstd;
  const T* dy;
  T* dx;      // null: not wanted
  T* dscale;  // the tile's own partial sums
  T* dbias;
  bool adds;  // to dx
};

}  // namespace crosstalk::kernels
#endif

CROSSTALK_BEGIN_TARGET

// Σ (x - mean)²
template <typename T>
double SumOfSquaredDeviations(int64_t n, const T* x, T mean) {
  const auto m = hn::Set(Tag<T>(), mean);
  return SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto v = hn::Sub(at.Load(x), m);
    return hn::Mul(v, v);
  });
}

// The same of a row whose sums overflow T (squares do from 1e19 on in float), in double: else its rstd, and with it
// the row, would be 0. Also finds the mean where it is subtracted.
template <typename T>
HWY_NOINLINE double WideVariance(int64_t n, const T* x, bool subtract_mean, T* mean) {
  const double count = static_cast<double>(n);
  if (subtract_mean) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
    *mean = static_cast<T>(sum / count);
  }
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double deviation = static_cast<double>(x[i]) - static_cast<double>(*mean);
    squares += deviation * deviation;
  }
  return squares / count;
}

template <typename T>
void NormForward(const NormTile<T>& t) {
  const Tag<T> d;
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* x = t.x + r * t.cols;
    T* y = t.y + r * t.cols;
    T mean = 0;
    if (t.mean != nullptr) t.mean[r] = mean = static_cast<T>(SumOf(t.cols, x) / static_cast<double>(t.cols));
    double variance = SumOfSquaredDeviations(t.cols, x, mean) / static_cast<double>(t.cols);
    if (HWY_UNLIKELY(!std::isfinite(variance))) {
      variance = WideVariance(t.cols, x, t.mean != nullptr, &mean);
      if (t.mean != nullptr) t.mean[r] = mean;
    }
    t.rstd[r] = static_cast<T>(1 / std::sqrt(variance + t.epsilon));
    const auto m = hn::Set(d, mean);
    const auto s = hn::Set(d, t.rstd[r]);
    const auto normal = [&](auto v) HWY_ATTR { return hn::Mul(hn::Sub(v, m), s); };
    if (t.scale == nullptr) {
      Map1(t.cols, x, y, normal);
    } else {
      Map2(t.cols, x, t.scale, y, [&](auto v, auto g) HWY_ATTR { return hn::Mul(normal(v), g); });
    }
    if (t.bias != nullptr) Map2(t.cols, y, t.bias, y, [](auto v, auto b) HWY_ATTR { return hn::Add(v, b); });
  }
}

// dx = rstd · (g - mean(g) - x̂ · mean(g · x̂)), g = dy · scale; mean(g) only in layer norm.
template <typename T>
void InputGradient(const NormGradientTile<T>& t, int64_t r) {
  const Tag<T> d;
  const T* x = t.x + r * t.cols;
  const T* dy = t.dy + r * t.cols;
  T* dx = t.dx + r * t.cols;
  const auto mean = hn::Set(d, t.mean == nullptr ? T(0) : t.mean[r]);
  const auto rstd = hn::Set(d, t.rstd[r]);
  const double count = static_cast<double>(t.cols);
  const auto scaled = [&](auto at) HWY_ATTR {
    return t.scale == nullptr ? at.Load(dy) : hn::Mul(at.Load(dy), at.Load(t.scale));
  };
  const auto normal = [&](auto at) HWY_ATTR { return hn::Mul(hn::Sub(at.Load(x), mean), rstd); };
  const double dot = SumVectors<T>(t.cols, [&](auto at) HWY_ATTR { return hn::Mul(scaled(at), normal(at)); });
  const double sum = t.mean == nullptr ? 0 : SumVectors<T>(t.cols, scaled);
  const auto mean_dot = hn::Set(d, static_cast<T>(dot / count));
  const auto mean_sum = hn::Set(d, static_cast<T>(sum / count));
  ForPlaces<T>(t.cols, [&](auto at) HWY_ATTR {
    const auto v = hn::Mul(rstd, hn::NegMulAdd(normal(at), mean_dot, hn::Sub(scaled(at), mean_sum)));
    at.Store(t.adds ? hn::Add(at.Load(dx), v) : v, dx);
  });
}

template <typename T>
void NormBackward(const NormGradientTile<T>& t) {
  const Tag<T> d;
  if (t.dscale != nullptr) std::fill_n(t.dscale, t.cols, T(0));
  if (t.dbias != nullptr) std::fill_n(t.dbias, t.cols, T(0));
  for (int64_t r = 0; r < t.rows; ++r) {
    const T* x = t.x + r * t.cols;
    const T* dy = t.dy + r * t.cols;
    const auto mean = hn::Set(d, t.mean == nullptr ? T(0) : t.mean[r]);
    const auto rstd = hn::Set(d, t.rstd[r]);
    if (t.dscale != nullptr) {
      ForPlaces<T>(t.cols, [&](auto at) HWY_ATTR {
        const auto normal = hn::Mul(hn::Sub(at.Load(x), mean), rstd);
        at.Store(hn::MulAdd(at.Load(dy), normal, at.Load(t.dscale)), t.dscale);
      });
    }
    if (t.dbias != nullptr) {
      Map2(t.cols, t.dbias, dy, t.dbias, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    }
    if (t.dx != nullptr) InputGradient(t, r);  // last: dx may be dy
  }
}

template <typename T>
void AddRowTo(int64_t n, const T* x, T* y) {
  Map2(n, y, x, y, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(NormForward)
CROSSTALK_DISPATCH(NormBackward)
CROSSTALK_DISPATCH(AddRowTo)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

// Rows a tile of the gradient; at most 64 tiles, so that their partial sums stay small.
int64_t GradientRows(int64_t rows) { return std::max<int64_t>(32, CeilDivide<int64_t>(rows, 64)); }

int64_t ForwardRows(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)); }

template <typename T>
void RunForward(const NormTile<T>& all) {
  const auto forward = NormForwardOnTarget<T>();
  ParallelForRange(all.rows, ForwardRows(all.cols), [&](int64_t begin, int64_t end) {
    NormTile<T> tile = all;
    tile.rows = end - begin;
    tile.x += begin * all.cols;
    tile.y += begin * all.cols;
    tile.rstd += begin;
    if (all.mean != nullptr) tile.mean += begin;
    forward(tile);
  });
}

// result[cols] = Σ_tiles partial[tile, cols], in the order of tiles.
template <typename T>
void AddPartials(int64_t tiles, int64_t cols, const T* partial, T* result) {
  if (result == nullptr) return;
  const auto add = AddRowToOnTarget<T>();
  std::fill_n(result, cols, T(0));
  for (int64_t i = 0; i < tiles; ++i) add(cols, partial + i * cols, result);
}

template <typename T>
void RunGradient(const NormGradientTile<T>& all, T* workspace) {
  const auto backward = NormBackwardOnTarget<T>();
  const int64_t grain = GradientRows(all.rows);
  const int64_t tiles = CeilDivide(all.rows, grain);
  ParallelForRange(all.rows, grain, [&](int64_t begin, int64_t end) {
    NormGradientTile<T> tile = all;
    const int64_t partial = begin / grain * all.cols;
    tile.rows = end - begin;
    tile.x += begin * all.cols;
    tile.dy += begin * all.cols;
    tile.rstd += begin;
    if (all.mean != nullptr) tile.mean += begin;
    if (all.dx != nullptr) tile.dx += begin * all.cols;
    if (all.dscale != nullptr) tile.dscale = workspace + partial;
    if (all.dbias != nullptr) tile.dbias = workspace + tiles * all.cols + partial;
    backward(tile);
  });
  AddPartials(tiles, all.cols, workspace, all.dscale);
  AddPartials(tiles, all.cols, workspace + tiles * all.cols, all.dbias);
}

}  // namespace

int64_t NormWorkspace(int64_t rows, int64_t cols) {
  const int64_t grain = GradientRows(rows);
  return 2 * cols * CeilDivide(rows, grain);
}

template <typename T>
void RmsNorm(int64_t rows, int64_t cols, const T* x, const T* scale, double epsilon, T* y, T* rstd) {
  RunForward<T>({rows, cols, x, scale, nullptr, epsilon, y, nullptr, rstd});
}

template <typename T>
void LayerNorm(int64_t rows, int64_t cols, const T* x, const T* scale, const T* bias, double epsilon, T* y, T* mean,
               T* rstd) {
  RunForward<T>({rows, cols, x, scale, bias, epsilon, y, mean, rstd});
}

template <typename T>
void RmsNormGradient(int64_t rows, int64_t cols, const T* x, const T* scale, const T* rstd, const T* dy, T* dx,
                     T* dscale, T* workspace, AddsToInput adds) {
  RunGradient<T>({rows, cols, x, scale, nullptr, rstd, dy, dx, dscale, nullptr, adds == AddsToInput::kYes}, workspace);
}

template <typename T>
void LayerNormGradient(int64_t rows, int64_t cols, const T* x, const T* scale, const T* mean, const T* rstd,
                       const T* dy, T* dx, T* dscale, T* dbias, T* workspace, AddsToInput adds) {
  RunGradient<T>({rows, cols, x, scale, mean, rstd, dy, dx, dscale, dbias, adds == AddsToInput::kYes}, workspace);
}

CROSSTALK_INSTANTIATE(RmsNorm)
CROSSTALK_INSTANTIATE(LayerNorm)
CROSSTALK_INSTANTIATE(RmsNormGradient)
CROSSTALK_INSTANTIATE(LayerNormGradient)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
