#include "crosstalk/kernels/optimizer_step.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/optimizer_step.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_OPTIMIZER_STEP_SHARED_
#define CROSSTALK_KERNELS_OPTIMIZER_STEP_SHARED_
namespace crosstalk::kernels {

// Sums over one piece of a parameter.
struct StepSums {
  double update;     // Σ u²
  double parameter;  // Σ p²
};

// Formed in double and rounded once: 1 - beta2 of a beta2 in float is off by 1e-5.
template <typename T>
struct MomentScalars {
  T gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  T inverse_correction2, epsilon;
};

}  // namespace crosstalk::kernels
#endif

CROSSTALK_BEGIN_TARGET

template <typename T>
double SquareSum(int64_t n, const T* x) {
  return SumOfSquaresOf(n, x);
}

// v ← decay · v + (1 - decay) · (g² + ε); u = g / √v.
template <typename T>
StepSums UnfactoredMoments(int64_t n, const AdafactorOptions& options, const T* g, const T* p, T* v) {
  const Tag<T> d;
  const auto scale = hn::Set(d, static_cast<T>(options.gradient_scale));
  const auto epsilon = hn::Set(d, static_cast<T>(options.epsilon1));
  const auto keep = hn::Set(d, static_cast<T>(options.decay));
  const auto take = hn::Set(d, static_cast<T>(1 - options.decay));
  const double update = SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto gradient = hn::Mul(scale, at.Load(g));
    const auto square = hn::MulAdd(gradient, gradient, epsilon);
    const auto moment = hn::MulAdd(keep, at.Load(v), hn::Mul(take, square));
    at.Store(moment, v);
    return hn::Mul(gradient, hn::Div(gradient, moment));
  });
  return {update, SquareSum(n, p)};
}

// p ← p - step · g / √v.
template <typename T>
void UnfactoredUpdate(int64_t n, T step, const T* g, const T* v, T* p) {
  const auto s = hn::Set(Tag<T>(), step);
  ForPlaces<T>(n, [&](auto at) HWY_ATTR {
    at.Store(hn::NegMulAdd(s, hn::Div(at.Load(g), hn::Sqrt(at.Load(v))), at.Load(p)), p);
  });
}

// Returns Σ_j (g² + ε) of one row, and adds its terms to columns.
template <typename T>
double RowSquares(int64_t n, T gradient_scale, T epsilon, const T* g, T* columns) {
  const Tag<T> d;
  const auto scale = hn::Set(d, gradient_scale);
  const auto eps = hn::Set(d, epsilon);
  return SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto gradient = hn::Mul(scale, at.Load(g));
    const auto square = hn::MulAdd(gradient, gradient, eps);
    at.Store(hn::Add(at.Load(columns), square), columns);
    return square;
  });
}

// Σ u² of one row.
template <typename T>
double RowUpdateSquares(int64_t n, T factor, const T* g, const T* column_factor) {
  const auto f = hn::Set(Tag<T>(), factor);
  return SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto u = hn::Mul(hn::Mul(f, at.Load(g)), at.Load(column_factor));
    return hn::Mul(u, u);
  });
}

template <typename T>
void RowUpdate(int64_t n, T factor, const T* g, const T* column_factor, T* p) {
  const auto f = hn::Set(Tag<T>(), factor);
  ForPlaces<T>(n, [&](auto at) HWY_ATTR {
    const auto u = hn::Mul(hn::Mul(f, at.Load(g)), at.Load(column_factor));
    at.Store(hn::Sub(at.Load(p), u), p);
  });
}

template <typename T>
void InverseRoot(int64_t n, const T* v, T* y) {
  const Tag<T> d;
  const auto one = hn::Set(d, T(1));
  Map1(n, v, y, [&](auto x) HWY_ATTR { return hn::Div(one, hn::Sqrt(x)); });
}

// Adam's moments on vectors.
template <typename T>
struct Moments {
  using V = hn::Vec<Tag<T>>;
  explicit HWY_INLINE Moments(const MomentScalars<T>& s)
      : scale(hn::Set(Tag<T>(), s.gradient_scale)),
        beta1(hn::Set(Tag<T>(), s.beta1)),
        take1(hn::Set(Tag<T>(), s.one_minus_beta1)),
        beta2(hn::Set(Tag<T>(), s.beta2)),
        take2(hn::Set(Tag<T>(), s.one_minus_beta2)),
        correction2(hn::Set(Tag<T>(), s.inverse_correction2)),
        epsilon(hn::Set(Tag<T>(), s.epsilon)) {}

  // m and v of this step are stored; m / (√v̂ + ε) is returned.
  template <class Place>
  HWY_INLINE V Next(Place at, const T* g, T* m, T* v) const {
    const V gradient = hn::Mul(scale, at.Load(g));
    const V moment1 = hn::MulAdd(beta1, at.Load(m), hn::Mul(take1, gradient));
    const V moment2 = hn::MulAdd(beta2, at.Load(v), hn::Mul(take2, hn::Mul(gradient, gradient)));
    at.Store(moment1, m);
    at.Store(moment2, v);
    return Direction(moment1, moment2);
  }
  HWY_INLINE V Direction(V moment1, V moment2) const {
    return hn::Div(moment1, hn::Add(hn::Sqrt(hn::Mul(moment2, correction2)), epsilon));
  }

  V scale, beta1, take1, beta2, take2, correction2, epsilon;
};

// p ← keep · p - step · m / (√v̂ + ε).
template <typename T>
void AdamWTile(int64_t n, const MomentScalars<T>& scalars, T step_size, T keep_share, const T* g, T* m, T* v, T* p) {
  const Moments<T> moments(scalars);
  const auto step = hn::Set(Tag<T>(), step_size), keep = hn::Set(Tag<T>(), keep_share);
  ForPlaces<T>(n, [&](auto at) HWY_ATTR {
    const auto direction = moments.Next(at, g, m, v);
    at.Store(hn::NegMulAdd(step, direction, hn::Mul(at.Load(p), keep)), p);
  });
}

// u = factor · m / (√v̂ + ε) + decay · p.
template <typename T>
StepSums LambMoments(int64_t n, const MomentScalars<T>& scalars, T factor, T decay, const T* g, T* m, T* v,
                     const T* p) {
  const Moments<T> moments(scalars);
  const auto f = hn::Set(Tag<T>(), factor), w = hn::Set(Tag<T>(), decay);
  const double update = SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto u = hn::MulAdd(f, moments.Next(at, g, m, v), hn::Mul(w, at.Load(p)));
    return hn::Mul(u, u);
  });
  return {update, SquareSum(n, p)};
}

// p ← p - step · u.
template <typename T>
void LambUpdate(int64_t n, const MomentScalars<T>& scalars, T factor, T decay, T step_size, const T* m, const T* v,
                T* p) {
  const Moments<T> moments(scalars);
  const auto f = hn::Set(Tag<T>(), factor), w = hn::Set(Tag<T>(), decay), step = hn::Set(Tag<T>(), step_size);
  ForPlaces<T>(n, [&](auto at) HWY_ATTR {
    const auto parameter = at.Load(p);
    const auto u = hn::MulAdd(f, moments.Direction(at.Load(m), at.Load(v)), hn::Mul(w, parameter));
    at.Store(hn::NegMulAdd(step, u, parameter), p);
  });
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(UnfactoredMoments)
CROSSTALK_DISPATCH(UnfactoredUpdate)
CROSSTALK_DISPATCH(RowSquares)
CROSSTALK_DISPATCH(SquareSum)
CROSSTALK_DISPATCH(RowUpdateSquares)
CROSSTALK_DISPATCH(RowUpdate)
CROSSTALK_DISPATCH(InverseRoot)
CROSSTALK_DISPATCH(AdamWTile)
CROSSTALK_DISPATCH(LambMoments)
CROSSTALK_DISPATCH(LambUpdate)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

constexpr int64_t kTile = 16384;       // elements a tile, at least
constexpr int64_t kMaxPartials = 256;  // tiles whose partial sums are kept on the stack
constexpr int64_t kMaxRowTiles = 64;   // each keeps a row of a factored parameter's column sums

// A tile's size, from the count alone, such that there are at most `most` tiles.
int64_t Grain(int64_t count, int64_t least, int64_t most) { return std::max(least, CeilDivide(count, most)); }

// Σ over tiles of sums(begin, end), in their order.
template <typename F>
StepSums SumOverTiles(int64_t count, const F& sums_of) {
  const int64_t grain = Grain(count, kTile, kMaxPartials);
  StepSums partial[kMaxPartials];
  ParallelForRange(count, grain, [&](int64_t begin, int64_t end) { partial[begin / grain] = sums_of(begin, end); });
  StepSums sums{0, 0};
  for (int64_t t = 0; t < CeilDivide(count, grain); ++t) {
    sums.update += partial[t].update;
    sums.parameter += partial[t].parameter;
  }
  return sums;
}

// Adam's divisor of a moment: 1 - βᵗ, or 1 without bias correction.
double Correction(const AdamWOptions& options, double beta) {
  return options.bias_correction == AdamWOptions::BiasCorrection::kYes
             ? 1 - Pow(beta, static_cast<double>(options.step))
             : 1;
}

template <typename T>
MomentScalars<T> ScalarsOf(const AdamWOptions& options) {
  return {static_cast<T>(options.gradient_scale), static_cast<T>(options.beta1),
          static_cast<T>(1 - options.beta1),      static_cast<T>(options.beta2),
          static_cast<T>(1 - options.beta2),      static_cast<T>(1 / Correction(options, options.beta2)),
          static_cast<T>(options.epsilon)};
}

// learning_rate · max(RMS(p), ε₂) / max(1, RMS(u) / clip).
double StepSize(const AdafactorOptions& options, double count, const StepSums& sums) {
  double step = options.learning_rate;
  if (options.step_scale == AdafactorOptions::StepScale::kParameterRms) {
    step *= std::max(std::sqrt(sums.parameter / count), options.epsilon2);
  }
  if (options.clip_threshold > 0) step /= std::max(1.0, std::sqrt(sums.update / count) / options.clip_threshold);
  return step;
}

int64_t RowGrain(int64_t rows, int64_t cols) {
  return Grain(rows, std::max<int64_t>(1, kTile / std::max<int64_t>(1, cols)), kMaxRowTiles);
}

// v_row, the tiles' column sums and Σ p²: one pass over the gradient and the parameter.
template <typename T>
void FactoredMoments(int64_t rows, int64_t cols, const AdafactorOptions& options, const T* gradient, T* v_row, T* v_col,
                     const T* parameter, T* columns, StepSums* sums) {
  const auto row_squares = RowSquaresOnTarget<T>();
  const auto sum_of_squares = SquareSumOnTarget<T>();
  const int64_t grain = RowGrain(rows, cols);
  StepSums partial[kMaxRowTiles];
  ParallelForRange(rows, grain, [&](int64_t begin, int64_t end) {
    T* own = columns + begin / grain * cols;
    std::fill_n(own, cols, T(0));
    for (int64_t i = begin; i < end; ++i) {
      const double sum = row_squares(cols, static_cast<T>(options.gradient_scale), static_cast<T>(options.epsilon1),
                                     gradient + i * cols, own);
      v_row[i] = static_cast<T>(options.decay * v_row[i] + (1 - options.decay) * sum / static_cast<double>(cols));
    }
    partial[begin / grain] = {0, sum_of_squares((end - begin) * cols, parameter + begin * cols)};
  });
  const int64_t tiles = CeilDivide(rows, grain);
  *sums = {0, 0};
  for (int64_t t = 0; t < tiles; ++t) sums->parameter += partial[t].parameter;
  ParallelForRange(cols, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      double sum = 0;
      for (int64_t t = 0; t < tiles; ++t) sum += columns[t * cols + j];
      v_col[j] = static_cast<T>(options.decay * v_col[j] + (1 - options.decay) * sum / static_cast<double>(rows));
    }
  });
}

}  // namespace

template <typename T>
void AdafactorStep(int64_t count, const AdafactorOptions& options, const T* gradient, T* v, T* parameter) {
  if (count == 0) return;
  const auto unfactored_moments = UnfactoredMomentsOnTarget<T>();
  const auto unfactored_update = UnfactoredUpdateOnTarget<T>();
  const StepSums sums = SumOverTiles(count, [&](int64_t b, int64_t e) {
    return unfactored_moments(e - b, options, gradient + b, parameter + b, v + b);
  });
  const double step = options.gradient_scale * StepSize(options, static_cast<double>(count), sums);
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) {
    unfactored_update(e - b, static_cast<T>(step), gradient + b, v + b, parameter + b);
  });
}

int64_t AdafactorWorkspace(int64_t rows, int64_t cols) {
  return cols * (CeilDivide(rows, RowGrain(rows, cols)) + 1) + rows;
}

template <typename T>
void AdafactorFactoredStep(int64_t rows, int64_t cols, const AdafactorOptions& options, const T* gradient, T* v_row,
                           T* v_col, T* parameter, T* workspace) {
  if (rows == 0 || cols == 0) return;
  const auto row_update_squares = RowUpdateSquaresOnTarget<T>();
  const auto row_update = RowUpdateOnTarget<T>();
  const auto inverse_root = InverseRootOnTarget<T>();
  T* row_factor = workspace;             // √(mean(v_row) / v_row[i]) · gradient_scale
  T* column_factor = row_factor + rows;  // 1 / √v_col[j]
  T* columns = column_factor + cols;     // column sums of each row tile
  StepSums sums;
  FactoredMoments(rows, cols, options, gradient, v_row, v_col, parameter, columns, &sums);

  double mean = 0;
  for (int64_t i = 0; i < rows; ++i) mean += v_row[i];
  mean /= static_cast<double>(rows);
  for (int64_t i = 0; i < rows; ++i) {
    row_factor[i] = static_cast<T>(options.gradient_scale * std::sqrt(mean / static_cast<double>(v_row[i])));
  }
  inverse_root(cols, v_col, column_factor);

  const int64_t grain = RowGrain(rows, cols);
  double partial[kMaxRowTiles];
  ParallelForRange(rows, grain, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      sum += row_update_squares(cols, row_factor[i], gradient + i * cols, column_factor);
    }
    partial[begin / grain] = sum;
  });
  for (int64_t t = 0; t < CeilDivide(rows, grain); ++t) sums.update += partial[t];

  const double step = StepSize(options, static_cast<double>(rows) * static_cast<double>(cols), sums);
  ParallelForRange(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      row_update(cols, static_cast<T>(step * row_factor[i]), gradient + i * cols, column_factor, parameter + i * cols);
    }
  });
}

template <typename T>
void AdamWStep(int64_t count, const AdamWOptions& options, const T* gradient, T* m, T* v, T* parameter) {
  const auto tile = AdamWTileOnTarget<T>();
  const MomentScalars<T> scalars = ScalarsOf<T>(options);
  const T step = static_cast<T>(options.learning_rate / Correction(options, options.beta1));
  const T keep = static_cast<T>(1 - options.learning_rate * options.weight_decay);
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) {
    tile(e - b, scalars, step, keep, gradient + b, m + b, v + b, parameter + b);
  });
}

template <typename T>
void LambStep(int64_t count, const AdamWOptions& options, const T* gradient, T* m, T* v, T* parameter) {
  if (count == 0) return;
  const auto moments = LambMomentsOnTarget<T>();
  const auto update = LambUpdateOnTarget<T>();
  const MomentScalars<T> scalars = ScalarsOf<T>(options);
  const T factor = static_cast<T>(1 / Correction(options, options.beta1));
  const T decay = static_cast<T>(options.weight_decay);
  const StepSums sums = SumOverTiles(count, [&](int64_t b, int64_t e) {
    return moments(e - b, scalars, factor, decay, gradient + b, m + b, v + b, parameter + b);
  });
  const double ratio = sums.parameter > 0 && sums.update > 0 ? std::sqrt(sums.parameter) / std::sqrt(sums.update) : 1;
  const T step = static_cast<T>(options.learning_rate * ratio);
  ParallelForRange(count, kTile, [&](int64_t b, int64_t e) {
    update(e - b, scalars, factor, decay, step, m + b, v + b, parameter + b);
  });
}

CROSSTALK_INSTANTIATE(AdafactorStep)
CROSSTALK_INSTANTIATE(AdafactorFactoredStep)
CROSSTALK_INSTANTIATE(AdamWStep)
CROSSTALK_INSTANTIATE(LambStep)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
