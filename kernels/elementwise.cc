#include "crosstalk/kernels/elementwise.h"

#include <algorithm>

#define HWY_TARGET_INCLUDE "crosstalk/kernels/elementwise.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/copy.h"
#include "crosstalk/kernels/functions-inl.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "crosstalk/kernels/simd-inl.h"
#include "crosstalk/kernels/targets.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/parallel.h"

#ifndef CROSSTALK_KERNELS_ELEMENTWISE_SHARED_
#define CROSSTALK_KERNELS_ELEMENTWISE_SHARED_
namespace crosstalk::kernels {

// How the two operands of a row y[n] = a ∘ b advance: a vector, or one element for the whole row.
enum class RowForm { kVectorVector, kVectorScalar, kScalarVector };

}  // namespace crosstalk::kernels
#endif

CROSSTALK_BEGIN_TARGET

// Φ and φ, the distribution and the density of the normal distribution.
template <class D>
struct Normal {
  hn::Vec<D> distribution, density;
};

// float: φ(x) = e^(-x²/2) / √(2π), and with a = |x| and u = (a - 4) / (a + 4)
//   Φ(-a) = e^(-a²/2) · G(u) / (a + 4),
// G of degree 9 fitted by Chebyshev interpolation for a ≤ 14 (error 1.2e-8 relative), beyond which e^(-a²/2) is 0. The
// tails lose as many digits as the rounding of a²/2.
template <class D>
HWY_INLINE Normal<D> NormalOf(D d, hn::Vec<D> x, float /*lane*/) {
  constexpr float kG[] = {0.7552851383f,    -0.6078966183f, 0.3871366841f,   -0.1865226849f,   0.06040668873f,
                          -0.007529250703f, -0.0035261837f, 0.001572317879f, 0.0002012617303f, -0.0001201844011f};
  const auto set = [d](float v) HWY_ATTR { return hn::Set(d, v); };
  const auto e = ExpFull(d, hn::Mul(hn::Mul(x, x), set(-0.5f)));
  const auto a = hn::Min(hn::Abs(x), set(14));
  const auto r = hn::Div(set(1), hn::Add(a, set(4)));
  const auto u = hn::Mul(hn::Sub(a, set(4)), r);
  const auto tail = hn::Mul(hn::Mul(PolynomialInHalves(d, kG, u), r), e);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(set(1), tail)), hn::Mul(e, set(0.39894228040143268f))};
}

// double: erfc(t) = e^(-t²) / (1 + 2t) · G(u), u = (t - 3.75) / (t + 3.75), after Shepherd and Laframboise, "Chebyshev
// Approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞" (Mathematics of Computation 36, 1981); G is a polynomial of
// degree 22 fitted by Chebyshev interpolation for t ≤ 28 (error 1.5e-17). e^(-x²/2) is e^(-a²/2) · e^(-(x-a)(x+a)/2), a
// being the upper half of x's digits, whose square is exact. Both tails are within 8 ulp while they are
// normal numbers.
template <class D>
HWY_INLINE Normal<D> NormalOf(D d, hn::Vec<D> x, double /*lane*/) {
  constexpr double kG[] = {
      1.2375126308378275812,      -0.1402405985855466808,     0.0035854154854637791401,    0.082276738490112036917,
      -0.10880393014171235923,    0.092304321161531155582,    -0.058693398590309412464,    0.028362277400457722541,
      -0.0097465795534318736618,  0.001755626017152003847,    0.00029371366631088616011,   -0.0002901549652957092613,
      0.000051648913469599861933, 0.000022387259638230134348, -0.000011442990926805438262, -9.8016667558585775116e-7,
      1.7481190468391964279e-6,   -4.8158396216728490214e-8,  -2.5261465267715504725e-7,   1.5996335215573707836e-8,
      3.2850835562333159093e-8,   -8.7821257348035202373e-10, -2.4108215365422330404e-9};
  const auto set = [d](double v) HWY_ATTR { return hn::Set(d, v); };
  const hn::RebindToUnsigned<D> du;
  const auto magnitude = hn::Min(hn::Abs(x), set(39));  // Φ(-39) is 0
  const auto t = hn::Mul(magnitude, set(0.70710678118654752440));
  const auto u = hn::Div(hn::Sub(t, set(3.75)), hn::Add(t, set(3.75)));
  const auto upper = hn::And(magnitude, hn::BitCast(d, hn::Set(du, ~uint64_t{0x7ffffff})));
  const auto lower = hn::Mul(hn::Sub(magnitude, upper), hn::Add(magnitude, upper));
  const auto e = hn::Mul(ExpFull(d, hn::Mul(hn::Mul(upper, upper), set(-0.5))), ExpFull(d, hn::Mul(lower, set(-0.5))));
  const auto scaled = hn::Div(Polynomial(d, kG, u), hn::MulAdd(set(2), t, set(1)));
  const auto tail = hn::Mul(hn::Mul(scaled, set(0.5)), e);
  const auto distribution = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(set(1), tail));
  return {hn::IfThenElse(hn::IsNaN(x), x, distribution),
          hn::Mul(ExpFull(d, hn::Mul(hn::Mul(x, x), set(-0.5))), set(0.39894228040143268))};
}

// An activation and its derivative.
template <class D>
struct ValueAndSlope {
  hn::Vec<D> value, slope;
};

// x · Φ(x); Φ(x) + x · φ(x).
template <class D>
HWY_INLINE ValueAndSlope<D> Gelu(D d, hn::Vec<D> x) {
  const auto normal = NormalOf(d, x, hn::TFromD<D>());
  return {hn::Mul(x, normal.distribution), hn::MulAdd(x, normal.density, normal.distribution)};
}

// u = √(2/π) (x + 0.044715 x³); x/2 · (1 + tanh u) = x · sigmoid(2u).
template <class D>
HWY_INLINE hn::Vec<D> GeluTanhArgument(D d, hn::Vec<D> x) {  // 2u
  using T = hn::TFromD<D>;
  const auto c1 = hn::Set(d, T(2 * 0.79788456080286536));
  const auto c3 = hn::Set(d, T(2 * 0.79788456080286536 * 0.044715));
  return hn::Mul(x, hn::MulAdd(hn::Mul(x, x), c3, c1));
}
// With s = sigmoid(2u): x · s; s + x · s (1 - s) · (2u)′. Beyond ±100 s is 0 or 1 and the slope of u of no effect; at
// 100 it is finite.
template <class D>
HWY_INLINE ValueAndSlope<D> GeluTanh(D d, hn::Vec<D> x) {
  using T = hn::TFromD<D>;
  const auto c1 = hn::Set(d, T(2 * 0.79788456080286536));
  const auto c3 = hn::Set(d, T(3 * 2 * 0.79788456080286536 * 0.044715));
  const auto s = Sigmoid(d, GeluTanhArgument(d, x));
  const auto near = hn::Clamp(x, hn::Set(d, T(-100)), hn::Set(d, T(100)));
  const auto slope = hn::MulAdd(hn::Mul(near, near), c3, c1);
  const auto ds = hn::Mul(s, hn::Sub(hn::Set(d, T(1)), s));
  return {hn::Mul(x, s), hn::MulAdd(hn::Mul(x, ds), slope, s)};
}

template <typename T>
void UnaryTile(UnaryOp f, int64_t n, const T* x, T* y) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  switch (f) {
    case UnaryOp::kExp:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return ExpFull(d, v); });
    case UnaryOp::kLog:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return LogFull(d, v); });
    case UnaryOp::kSqrt:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return hn::Sqrt(v); });
    case UnaryOp::kSquare:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return hn::Mul(v, v); });
    case UnaryOp::kTanh:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return TanhFull(d, v); });
    case UnaryOp::kSigmoid:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return Sigmoid(d, v); });
    case UnaryOp::kGelu:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return Gelu(d, v).value; });
    case UnaryOp::kGeluTanh:
      return Map1(n, x, y, [&](V v) HWY_ATTR { return GeluTanh(d, v).value; });
  }
}

template <typename T>
void UnaryGradientTile(UnaryOp f, int64_t n, const T* x, const T* y, const T* dy, T* dx) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  const V one = hn::Set(d, T(1));
  const V two = hn::Set(d, T(2));
  const V half = hn::Set(d, T(0.5));
  switch (f) {
    case UnaryOp::kExp:
      return Map2(n, y, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Mul(g, v); });
    case UnaryOp::kLog:
      return Map2(n, x, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Div(g, v); });
    case UnaryOp::kSqrt:  // 1 / (2y)
      return Map2(n, y, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Div(hn::Mul(g, half), v); });
    case UnaryOp::kSquare:
      return Map2(n, x, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Mul(g, hn::Mul(two, v)); });
    case UnaryOp::kTanh:  // 1 - y²
      return Map2(n, y, dy, dx,
                  [&](V v, V g) HWY_ATTR { return hn::Mul(g, hn::Mul(hn::Sub(one, v), hn::Add(one, v))); });
    case UnaryOp::kSigmoid:  // y (1 - y)
      return Map2(n, y, dy, dx, [&](V v, V g) HWY_ATTR { return hn::Mul(g, hn::Mul(v, hn::Sub(one, v))); });
    case UnaryOp::kGelu:
    case UnaryOp::kGeluTanh:
      return;  // Activation
  }
}

template <typename T>
void ActivationTile(UnaryOp f, int64_t n, const T* x, T* y, T* slope) {
  const Tag<T> d;
  const auto store = [&](const auto& of) HWY_ATTR {
    ForPlaces<T>(n, [&](auto at) HWY_ATTR {
      const auto both = of(at.Load(x));
      at.Store(both.value, y);
      at.Store(both.slope, slope);
    });
  };
  using V = hn::Vec<Tag<T>>;
  if (f == UnaryOp::kGelu) {
    store([&](V v) HWY_ATTR { return Gelu(d, v); });
  } else {
    store([&](V v) HWY_ATTR { return GeluTanh(d, v); });
  }
}

template <typename T>
void AffineTile(int64_t n, T scale, T shift, const T* x, T* y) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  const V a = hn::Set(d, scale);
  const V b = hn::Set(d, shift);
  Map1(n, x, y, [&](V v) HWY_ATTR { return hn::MulAdd(a, v, b); });
}

template <typename T>
void AxpyTile(int64_t n, T scale, const T* x, T* y) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  const V a = hn::Set(d, scale);
  Map2(n, x, y, y, [&](V v, V sum) HWY_ATTR { return hn::MulAdd(a, v, sum); });
}

template <typename T, class F>
HWY_INLINE void BinaryRow(RowForm form, int64_t n, const T* a, const T* b, T* y, F f) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  switch (form) {
    case RowForm::kVectorVector:
      return Map2(n, a, b, y, f);
    case RowForm::kVectorScalar: {
      const V s = hn::Set(d, *b);
      return Map1(n, a, y, [&](V v) HWY_ATTR { return f(v, s); });
    }
    case RowForm::kScalarVector: {
      const V s = hn::Set(d, *a);
      return Map1(n, b, y, [&](V v) HWY_ATTR { return f(s, v); });
    }
  }
}

template <typename T>
void BinaryTile(BinaryOp op, RowForm form, int64_t n, const T* a, const T* b, T* y) {
  using V = hn::Vec<Tag<T>>;
  switch (op) {
    case BinaryOp::kAdd:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Add(u, v); });
    case BinaryOp::kSub:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Sub(u, v); });
    case BinaryOp::kMul:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Mul(u, v); });
    case BinaryOp::kDiv:
      return BinaryRow(form, n, a, b, y, [](V u, V v) HWY_ATTR { return hn::Div(u, v); });
  }
}

CROSSTALK_END_TARGET

CROSSTALK_DISPATCH(UnaryTile)
CROSSTALK_DISPATCH(UnaryGradientTile)
CROSSTALK_DISPATCH(ActivationTile)
CROSSTALK_DISPATCH(AffineTile)
CROSSTALK_DISPATCH(AxpyTile)
CROSSTALK_DISPATCH(BinaryTile)

#if HWY_ONCE
namespace crosstalk::kernels {
namespace {

// Elements a tile: large enough that handing it out costs nothing beside its work, small enough for the L2 cache.
constexpr int64_t kLightTile = 8192;  // copies and single operations
constexpr int64_t kHeavyTile = 8192;  // exponentials and the like

int64_t TileOf(UnaryOp f) {
  switch (f) {
    case UnaryOp::kExp:
    case UnaryOp::kLog:
    case UnaryOp::kTanh:
    case UnaryOp::kSigmoid:
    case UnaryOp::kGelu:
    case UnaryOp::kGeluTanh:
      return kHeavyTile;
    default:
      return kLightTile;
  }
}

// Runs body(begin_offsets, begin in y, count) over all elements of the loop nest, whose operand 0 is y, contiguous,
// in pieces of rows of about kLightTile elements.
template <int kOperands, typename Body>
void ForRowPieces(const StridedLoop<kOperands>& loop, const Body& body) {
  const int64_t inner = loop.inner();
  const int64_t rows = loop.rows();
  if (inner == 0 || rows == 0) return;
  const int64_t pieces = CeilDivide(inner, kLightTile);                  // a row's
  const int64_t rows_a_tile = std::max<int64_t>(1, kLightTile / inner);  // 1 where pieces > 1
  ParallelForRange(rows * pieces, rows_a_tile, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / pieces;
      const int64_t first = i % pieces * kLightTile;
      body(loop.RowOffsets(row), row * inner + first, first, std::min(kLightTile, inner - first));
    }
  });
}

}  // namespace

bool IsActivation(UnaryOp f) { return f == UnaryOp::kGelu || f == UnaryOp::kGeluTanh; }

bool GradientReadsOutput(UnaryOp f) {
  switch (f) {
    case UnaryOp::kExp:
    case UnaryOp::kSqrt:
    case UnaryOp::kTanh:
    case UnaryOp::kSigmoid:
      return true;
    default:
      return false;
  }
}

template <typename T>
void Unary(UnaryOp f, int64_t count, const T* x, T* y) {
  const auto unary = UnaryTileOnTarget<T>();
  ParallelForRange(count, TileOf(f), [&](int64_t b, int64_t e) { unary(f, e - b, x + b, y + b); });
}

template <typename T>
void UnaryGradient(UnaryOp f, int64_t count, const T* x, const T* y, const T* dy, T* dx) {
  CROSSTALK_CHECK(!IsActivation(f), "unary gradient: an activation's is dy times the slope that Activation gives");
  const auto gradient = UnaryGradientTileOnTarget<T>();
  ParallelForRange(count, TileOf(f), [&](int64_t b, int64_t e) {
    gradient(f, e - b, x == nullptr ? x : x + b, y == nullptr ? y : y + b, dy + b, dx + b);
  });
}

template <typename T>
void Activation(UnaryOp f, int64_t count, const T* x, T* y, T* slope) {
  CROSSTALK_CHECK(IsActivation(f), "activation: of another function UnaryGradient is the gradient");
  const auto activation = ActivationTileOnTarget<T>();
  ParallelForRange(count, TileOf(f), [&](int64_t b, int64_t e) { activation(f, e - b, x + b, y + b, slope + b); });
}

template <typename T>
void Affine(int64_t count, T scale, T shift, const T* x, T* y) {
  const auto affine = AffineTileOnTarget<T>();
  ParallelForRange(count, kLightTile, [&](int64_t b, int64_t e) { affine(e - b, scale, shift, x + b, y + b); });
}

template <typename T>
void Axpy(int64_t count, T scale, const T* x, T* y) {
  const auto axpy = AxpyTileOnTarget<T>();
  ParallelForRange(count, kLightTile, [&](int64_t b, int64_t e) { axpy(e - b, scale, x + b, y + b); });
}

template <typename T>
void Binary(BinaryOp op, int64_t count, const T* a, const T* b, T* y) {
  const auto binary = BinaryTileOnTarget<T>();
  ParallelForRange(count, kLightTile, [&](int64_t begin, int64_t end) {
    binary(op, RowForm::kVectorVector, end - begin, a + begin, b + begin, y + begin);
  });
}

template <typename T>
void Binary(BinaryOp op, const Shape& shape, const T* a, const Strides& strides_a, const T* b, const Strides& strides_b,
            T* y) {
  const auto binary = BinaryTileOnTarget<T>();
  const auto loop = MergeDimensions<2>(shape, {&strides_a, &strides_b});
  const int64_t step_a = loop.stride[0][loop.rank - 1];
  const int64_t step_b = loop.stride[1][loop.rank - 1];
  const bool single = loop.inner() == 1;
  ForRowPieces(loop, [&](const std::array<int64_t, 2>& offsets, int64_t out, int64_t first, int64_t n) {
    const T* row_a = a + offsets[0] + first * step_a;
    const T* row_b = b + offsets[1] + first * step_b;
    if (single || (step_a == 1 && step_b == 1)) {
      binary(op, RowForm::kVectorVector, n, row_a, row_b, y + out);
    } else if (step_a == 1 && step_b == 0) {
      binary(op, RowForm::kVectorScalar, n, row_a, row_b, y + out);
    } else if (step_a == 0 && step_b == 1) {
      binary(op, RowForm::kScalarVector, n, row_a, row_b, y + out);
    } else {
      for (int64_t i = 0; i < n; ++i) y[out + i] = reference::Binary(op, row_a[i * step_a], row_b[i * step_b]);
    }
  });
}

template <typename T>
void MaskedFill(const Shape& shape, const T* x, const Strides& strides_x, const uint8_t* mask,
                const Strides& strides_mask, T value, T* y) {
  const auto loop = MergeDimensions<2>(shape, {&strides_x, &strides_mask});
  const int64_t step_x = loop.stride[0][loop.rank - 1];
  const int64_t step_mask = loop.stride[1][loop.rank - 1];
  ForRowPieces(loop, [&](const std::array<int64_t, 2>& offsets, int64_t out, int64_t first, int64_t n) {
    const T* row = x + offsets[0] + first * step_x;
    const uint8_t* row_mask = mask + offsets[1] + first * step_mask;
    if (step_x == 1 && step_mask == 1) {
      for (int64_t i = 0; i < n; ++i) y[out + i] = row_mask[i] != 0 ? value : row[i];
    } else {
      for (int64_t i = 0; i < n; ++i) y[out + i] = row_mask[i * step_mask] != 0 ? value : row[i * step_x];
    }
  });
}

CROSSTALK_INSTANTIATE(Unary)
CROSSTALK_INSTANTIATE(UnaryGradient)
CROSSTALK_INSTANTIATE(Activation)
CROSSTALK_INSTANTIATE(Affine)
CROSSTALK_INSTANTIATE(Axpy)
CROSSTALK_INSTANTIATE(MaskedFill)
#define CROSSTALK_INSTANTIATE_BINARY(T) \
  template void Binary(BinaryOp, int64_t, const T*, const T*, T*); \
  template void Binary(BinaryOp, const Shape&, const T*, const Strides&, const T*, const Strides&, T*);
CROSSTALK_INSTANTIATE_BINARY(float)
CROSSTALK_INSTANTIATE_BINARY(double)

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
