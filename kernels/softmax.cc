#include <algorithm>

#include "crosstalk/kernels/rows.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/softmax.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/functions-inl.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

CROSSTALK_BEGIN_TARGET

// If the reduced dimension is not the last, a tile is at most this many neighbouring columns, whose elements are
// `stride` apart.
constexpr int64_t kSoftmaxColumns = 128;

template <typename T>
constexpr T kNone = -std::numeric_limits<T>::infinity();

// y = e^(x - shift); the sum is returned.
template <typename T>
double RowExpSum(int64_t n, const T* x, T shift, T* y) {
  const Tag<T> d;
  const auto m = hn::Set(d, shift);
  return SumVectors<T>(n, [&](auto at) HWY_ATTR {
    const auto e = ExpFull(d, hn::Sub(at.Load(x), m));
    at.Store(e, y);
    return e;
  });
}

template <typename T>
void SoftmaxRow(int64_t n, const T* x, T* y) {
  const T max = MaxOf(n, x);
  if (max <= T(kHiddenLogit)) {
    std::fill_n(y, n, T(0));
    return;
  }
  const double sum = RowExpSum(n, x, max, y);
  const Tag<T> d;
  const auto factor = hn::Set(d, static_cast<T>(1 / sum));
  Map1(n, y, y, [&](auto v) HWY_ATTR { return hn::Mul(v, factor); });
}

template <typename T>
void SoftmaxRowGradient(int64_t n, const T* y, const T* dy, T* dx) {
  const Tag<T> d;
  const double dot = SumVectors<T>(n, [&](auto at) HWY_ATTR { return hn::Mul(at.Load(y), at.Load(dy)); });
  const auto mean = hn::Set(d, static_cast<T>(dot));
  Map2(n, y, dy, dx, [&](auto v, auto g) HWY_ATTR { return hn::Mul(v, hn::Sub(g, mean)); });
}

template <typename T>
MaxAndLogSumExp<T> LogSumExpOfRow(int64_t n, const T* x) {
  const T max = MaxOf(n, x);
  if (max == kNone<T>) return {max, max};
  const Tag<T> d;
  const auto m = hn::Set(d, max);
  const double sum = SumVectors<T>(n, [&](auto at) HWY_ATTR { return ExpFull(d, hn::Sub(at.Load(x), m)); });
  return {max, static_cast<T>(static_cast<double>(max) + Log(sum))};
}

template <typename T>
void RowScaledExp(int64_t n, const T* x, T shift, T scale, T* y) {
  const Tag<T> d;
  if (shift == kNone<T>) {
    std::fill_n(y, n, T(0));
    return;
  }
  const auto m = hn::Set(d, shift);
  const auto s = hn::Set(d, scale);
  Map1(n, x, y, [&](auto v) HWY_ATTR { return hn::Mul(s, ExpFull(d, hn::Sub(v, m))); });
}

// max[j] = max_r x[r · stride + j]; NaN if the column holds one.
template <typename T>
void ColumnsMax(int64_t n, int64_t cols, int64_t stride, const T* x, T* max) {
  std::fill_n(max, cols, kNone<T>);
  for (int64_t r = 0; r < n; ++r) {
    Map2(cols, max, x + r * stride, max, [&](auto m, auto v) HWY_ATTR {
      const auto larger = hn::IfThenElse(hn::Gt(v, m), v, m);
      return hn::IfThenElse(hn::IsNaN(v), v, larger);
    });
  }
}

// A maximum up to `hidden` becomes 0, so that e^(x - shift) is 0 in a column of nothing else, and not NaN.
template <typename T>
void FiniteShift(int64_t cols, T hidden, const T* max, T* shift) {
  for (int64_t j = 0; j < cols; ++j) shift[j] = max[j] <= hidden ? T(0) : max[j];
}

// y = e^(x - shift) and its column sums, in blocks of rows.
template <typename T>
void ColumnsExpSum(int64_t n, int64_t cols, int64_t stride, const T* x, const T* shift, T* y, int64_t stride_y,
                   T* sum) {
  const Tag<T> d;
  HWY_ALIGN T block[kSoftmaxColumns];
  std::fill_n(sum, cols, T(0));
  std::fill_n(block, cols, T(0));
  for (int64_t r = 0; r < n; ++r) {
    T* row = y + r * stride_y;
    Map2(cols, x + r * stride, shift, row, [&](auto v, auto m) HWY_ATTR { return ExpFull(d, hn::Sub(v, m)); });
    Map2(cols, block, row, block, [](auto s, auto v) HWY_ATTR { return hn::Add(s, v); });
    if (r % 64 == 63 || r + 1 == n) {
      Map2(cols, sum, block, sum, [](auto s, auto v) HWY_ATTR { return hn::Add(s, v); });
      std::fill_n(block, cols, T(0));
    }
  }
}

template <typename T>
void SoftmaxColumns(int64_t n, int64_t cols, int64_t stride, const T* x, T* y) {
  HWY_ALIGN T shift[kSoftmaxColumns];
  HWY_ALIGN T sum[kSoftmaxColumns];
  ColumnsMax(n, cols, stride, x, shift);
  FiniteShift(cols, T(kHiddenLogit), shift, shift);
  ColumnsExpSum(n, cols, stride, x, shift, y, stride, sum);
  for (int64_t j = 0; j < cols; ++j) sum[j] = sum[j] == T(0) ? T(0) : 1 / sum[j];
  for (int64_t r = 0; r < n; ++r) {
    Map2(cols, y + r * stride, sum, y + r * stride, [](auto v, auto s) HWY_ATTR { return hn::Mul(v, s); });
  }
}

template <typename T>
void SoftmaxColumnsGradient(int64_t n, int64_t cols, int64_t stride, const T* y, const T* dy, T* dx) {
  HWY_ALIGN T dot[kSoftmaxColumns];
  HWY_ALIGN T block[kSoftmaxColumns];
  HWY_ALIGN T product[kSoftmaxColumns];
  std::fill_n(dot, cols, T(0));
  std::fill_n(block, cols, T(0));
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  for (int64_t r = 0; r < n; ++r) {
    Map2(cols, y + r * stride, dy + r * stride, product, [](auto v, auto g) HWY_ATTR { return hn::Mul(v, g); });
    Map2(cols, block, product, block, add);
    if (r % 64 == 63 || r + 1 == n) {
      Map2(cols, dot, block, dot, add);
      std::fill_n(block, cols, T(0));
    }
  }
  for (int64_t r = 0; r < n; ++r) {
    Map2(cols, dy + r * stride, dot, product, [](auto g, auto s) HWY_ATTR { return hn::Sub(g, s); });
    Map2(cols, y + r * stride, product, dx + r * stride, [](auto v, auto g) HWY_ATTR { return hn::Mul(v, g); });
  }
}

template <typename T>
void ColumnsLogSumExp(int64_t n, int64_t cols, int64_t stride, const T* x, T* result) {
  HWY_ALIGN T shift[kSoftmaxColumns];
  HWY_ALIGN T sum[kSoftmaxColumns];
  HWY_ALIGN T row[kSoftmaxColumns];
  ColumnsMax(n, cols, stride, x, shift);
  FiniteShift(cols, kNone<T>, shift, shift);
  ColumnsExpSum(n, cols, stride, x, shift, row, 0, sum);
  for (int64_t j = 0; j < cols; ++j) {
    result[j] = static_cast<T>(static_cast<double>(shift[j]) + Log(static_cast<double>(sum[j])));
  }
}

template <typename T>
void ColumnsScaledExp(int64_t n, int64_t cols, int64_t stride, const T* x, const T* shift, const T* scale, T* y) {
  const Tag<T> d;
  HWY_ALIGN T finite[kSoftmaxColumns];
  FiniteShift(cols, kNone<T>, shift, finite);
  for (int64_t r = 0; r < n; ++r) {
    T* row = y + r * stride;
    Map2(cols, x + r * stride, finite, row, [&](auto v, auto m) HWY_ATTR { return ExpFull(d, hn::Sub(v, m)); });
    Map2(cols, row, scale, row, [](auto v, auto s) HWY_ATTR { return hn::Mul(v, s); });
  }
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(SoftmaxRow)
CROSSTALK_DISPATCH(SoftmaxRowGradient)
CROSSTALK_DISPATCH(LogSumExpOfRow)
CROSSTALK_DISPATCH(RowScaledExp)
CROSSTALK_DISPATCH(SoftmaxColumns)
CROSSTALK_DISPATCH(SoftmaxColumnsGradient)
CROSSTALK_DISPATCH(ColumnsLogSumExp)
CROSSTALK_DISPATCH(ColumnsScaledExp)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

using HWY_NAMESPACE::kSoftmaxColumns;

// Calls row(o) for inner = 1, or columns(element offset, column offset, cols) for bundles of columns; tiles by shape.
template <typename Row, typename Columns>
void ForGroups(int64_t outer, int64_t reduced, int64_t inner, const Row& row, const Columns& columns) {
  constexpr int64_t kTile = 8192;  // elements
  const int64_t chunks = inner == 1 ? 1 : CeilDivide(inner, kSoftmaxColumns);
  const int64_t work = std::max<int64_t>(1, reduced * std::min(inner, kSoftmaxColumns));
  ParallelForRange(outer * chunks, std::max<int64_t>(1, kTile / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (inner == 1) {
        row(i);
        continue;
      }
      const int64_t o = i / chunks;
      const int64_t first = i % chunks * kSoftmaxColumns;
      columns(o * reduced * inner + first, o * inner + first, std::min(kSoftmaxColumns, inner - first));
    }
  });
}

}  // namespace

template <typename T>
void Softmax(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  const auto row = SoftmaxRowOnTarget<T>();
  const auto columns = SoftmaxColumnsOnTarget<T>();
  ForGroups(
      outer, reduced, inner, [&](int64_t o) { row(reduced, x + o * reduced, y + o * reduced); },
      [&](int64_t at, int64_t, int64_t cols) { columns(reduced, cols, inner, x + at, y + at); });
}

template <typename T>
void SoftmaxGradient(int64_t outer, int64_t reduced, int64_t inner, const T* y, const T* dy, T* dx) {
  const auto row = SoftmaxRowGradientOnTarget<T>();
  const auto columns = SoftmaxColumnsGradientOnTarget<T>();
  ForGroups(
      outer, reduced, inner, [&](int64_t o) { row(reduced, y + o * reduced, dy + o * reduced, dx + o * reduced); },
      [&](int64_t at, int64_t, int64_t cols) { columns(reduced, cols, inner, y + at, dy + at, dx + at); });
}

template <typename T>
void LogSumExp(int64_t outer, int64_t reduced, int64_t inner, const T* x, T* y) {
  const auto row = LogSumExpOfRowOnTarget<T>();
  const auto columns = ColumnsLogSumExpOnTarget<T>();
  ForGroups(
      outer, reduced, inner, [&](int64_t o) { y[o] = row(reduced, x + o * reduced).log_sum_exp; },
      [&](int64_t at, int64_t column, int64_t cols) { columns(reduced, cols, inner, x + at, y + column); });
}

template <typename T>
MaxAndLogSumExp<T> RowLogSumExp(int64_t n, const T* x) {
  return LogSumExpOfRowOnTarget<T>()(n, x);
}

template <typename T>
MaxAndExpSum<T> FindMaxAndExpSum(int64_t reduced, int64_t stride, const T* x) {
  T max = x[0];
  for (int64_t r = 1; r < reduced; ++r) max = std::max(max, x[r * stride]);
  double sum = 0;
  for (int64_t r = 0; r < reduced; ++r) sum += Exp(static_cast<double>(x[r * stride]) - static_cast<double>(max));
  return {max, sum};
}

template <typename T>
void LogSumExpGradient(int64_t outer, int64_t reduced, int64_t inner, const T* x, const T* y, const T* dy, T* dx) {
  const auto row = RowScaledExpOnTarget<T>();
  const auto columns = ColumnsScaledExpOnTarget<T>();
  // dx = scale · e^(x - shift)
  const auto separate = [&](const T* first, T& shift, T& scale) {
    if (!IsCoarseLogSumExp(shift)) return;
    const auto [max, sum] = FindMaxAndExpSum(reduced, inner, first);
    shift = max;
    scale = static_cast<T>(scale / sum);
  };
  ForGroups(
      outer, reduced, inner,
      [&](int64_t o) {
        T shift = y[o], scale = dy[o];
        separate(x + o * reduced, shift, scale);
        row(reduced, x + o * reduced, shift, scale, dx + o * reduced);
      },
      [&](int64_t at, int64_t column, int64_t cols) {
        T shift[kSoftmaxColumns], scale[kSoftmaxColumns];
        for (int64_t j = 0; j < cols; ++j) {
          shift[j] = y[column + j];
          scale[j] = dy[column + j];
          separate(x + at + j, shift[j], scale[j]);
        }
        columns(reduced, cols, inner, x + at, shift, scale, dx + at);
      });
}

CROSSTALK_INSTANTIATE(Softmax)
CROSSTALK_INSTANTIATE(SoftmaxGradient)
CROSSTALK_INSTANTIATE(LogSumExp)
CROSSTALK_INSTANTIATE(RowLogSumExp)
CROSSTALK_INSTANTIATE(FindMaxAndExpSum)
CROSSTALK_INSTANTIATE(LogSumExpGradient)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
