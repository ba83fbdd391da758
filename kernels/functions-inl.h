// e^x, log x, tanh x, the sigmoid and GELU on vectors of float and double, over the whole range: ours, so that their
// bits are those of this file whatever Highway's version, and the same on every target that fuses multiply-adds.
// Compiled once per target.
#if defined(CROSSTALK_KERNELS_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_KERNELS_FUNCTIONS_INL_H_
#undef CROSSTALK_KERNELS_FUNCTIONS_INL_H_
#else
#define CROSSTALK_KERNELS_FUNCTIONS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "crosstalk/kernels/simd-inl.h"

CROSSTALK_BEGIN_TARGET

// Σ_i c[i] x^i by Horner's rule.
template <class D, size_t kTerms, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V Polynomial(D d, const T (&c)[kTerms], V x) {
  V sum = hn::Set(d, c[kTerms - 1]);
  CROSSTALK_UNROLL for (size_t i = kTerms - 1; i > 0; --i) sum = hn::MulAdd(sum, x, hn::Set(d, c[i - 1]));
  return sum;
}

// The two halves of a polynomial, of even and of odd powers, side by side: half the latency.
template <class D, size_t kTerms, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V PolynomialInHalves(D d, const T (&c)[kTerms], V x) {
  static_assert(kTerms % 2 == 0);
  const V square = hn::Mul(x, x);
  V even = hn::Set(d, c[kTerms - 2]), odd = hn::Set(d, c[kTerms - 1]);
  CROSSTALK_UNROLL for (size_t i = kTerms - 2; i > 0; i -= 2) {
    even = hn::MulAdd(even, square, hn::Set(d, c[i - 2]));
    odd = hn::MulAdd(odd, square, hn::Set(d, c[i - 1]));
  }
  return hn::MulAdd(odd, x, even);
}

template <class T>
struct ExponentBits;
template <>
struct ExponentBits<float> {
  static constexpr int kMantissa = 23;
  static constexpr float kRounder = 0x1.8p23f, kBias = 127;  // adding the first leaves whole numbers
};
template <>
struct ExponentBits<double> {
  static constexpr int kMantissa = 52;
  static constexpr double kRounder = 0x1.8p52, kBias = 1023;
};

// 2^n for whole n whose power is a normal number: n + bias, in the last bits of the sum, becomes the exponent.
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V PowerOfTwo(D d, V n) {
  using Bits = ExponentBits<T>;
  const hn::RebindToUnsigned<D> du;
  const V sum = hn::Add(n, hn::Set(d, Bits::kRounder + Bits::kBias));
  return hn::BitCast(d, hn::ShiftLeft<Bits::kMantissa>(hn::BitCast(du, sum)));
}

// e^x = 2^n · (1 + p), for |x| ≤ 800 (float: 110): x = n·log 2 + r with |r| ≤ log(2)/2, p = r + r² · (1/2 + r·P(r)). P
// is minimax for that range: relative error of e^x 2^-28 in float, 2^-57 in double (Remez's algorithm).
template <class D>
struct ReducedExponential {
  hn::Vec<D> n, p;
};
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE ReducedExponential<D> ReduceExponential(D d, V x) {
  const V rounder = hn::Set(d, ExponentBits<T>::kRounder);
  const V n = hn::Sub(hn::MulAdd(x, hn::Set(d, static_cast<T>(1.4426950408889634074)), rounder), rounder);
  if constexpr (sizeof(T) == 4) {
    // n · (the first part of log 2) is exact.
    constexpr float kQ[] = {0.5f, 0.166665203571f, 0.04166638597f, 0.00836875768436f, 0.00139420945368f};
    V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
    r = hn::NegMulAdd(n, hn::Set(d, 1.42860682030941723e-6f), r);
    const V square = hn::Mul(r, r);
    const V low = hn::MulAdd(hn::Set(d, kQ[1]), r, hn::Set(d, kQ[0]));
    const V high = hn::MulAdd(hn::Set(d, kQ[4]), square, hn::MulAdd(hn::Set(d, kQ[3]), r, hn::Set(d, kQ[2])));
    return {n, hn::MulAdd(hn::MulAdd(high, square, low), square, r)};
  } else {
    constexpr double kQ[] = {0.5,
                             0.16666666666666686416,
                             0.041666666666602639549,
                             0.0083333333333139146297,
                             0.0013888888927337185733,
                             0.00019841269904953590115,
                             0.000024801507998204773797,
                             2.755722602148319741e-6,
                             2.7625459724807925416e-7,
                             2.511511976403285691e-8};
    V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e42fefa2p-1), x);
    r = hn::NegMulAdd(n, hn::Set(d, 0x1.9ef35793c7673p-41), r);
    return {n, hn::MulAdd(PolynomialInHalves(d, kQ, r), hn::Mul(r, r), r)};
  }
}

// y · 2^n, rounded once: by AVX-512's instruction, or in two steps, as 2^n itself may be beyond the exponents; the
// first of them is exact.
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V TimesPowerOfTwo(D d, V y, V n) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    if constexpr (sizeof(T) == 4) {
      return V{_mm512_scalef_ps(y.raw, n.raw)};
    } else {
      return V{_mm512_scalef_pd(y.raw, n.raw)};
    }
  }
#endif
  const V rounder = hn::Set(d, ExponentBits<T>::kRounder);
  const V half = hn::Sub(hn::MulAdd(n, hn::Set(d, T(0.5)), rounder), rounder);
  return hn::Mul(hn::Mul(y, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
}

// e^x, within 1.1 ulp; NaN stays NaN, overflow gives infinity, x below the range of subnormals gives 0. The attention
// has a shorter one, Exponential in attention/elements-inl.h: float, x ≤ 88, accurate relative to e^0 only.
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V ExpFull(D d, V x) {
  constexpr T kLow = sizeof(T) == 4 ? -104 : -746, kHigh = sizeof(T) == 4 ? 104 : 710;
  const auto [n, p] = ReduceExponential(d, hn::Min(hn::Max(x, hn::Set(d, kLow)), hn::Set(d, kHigh)));
  const V y = TimesPowerOfTwo(d, hn::Add(p, hn::Set(d, T(1))), n);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// log x, within 1 ulp; log 0 = -infinity, NaN below. x = 2^k · (1 + f), 1 + f in [√½, √2); with s = f / (2 + f),
// log(1 + f) = 2 artanh s = 2s + s³·R(s²) = f - f²/2 + s · (f²/2 + s²·R), where f is not rounded. R is minimax for
// s² ≤ 0.0295: relative error 2^-30 in float, 2^-59 in double (Remez's algorithm).
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V LogFull(D d, V x) {
  constexpr bool kFloat = sizeof(T) == 4;
  constexpr int kMantissa = ExponentBits<T>::kMantissa;
  const hn::RebindToSigned<D> di;
  const V zero = hn::Zero(d);
  const V infinity = hn::Set(d, std::numeric_limits<T>::infinity());
  const auto subnormal = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  const auto bits = hn::BitCast(di, hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, T(0x1p54))), x));
  const auto root_half = hn::BitCast(di, hn::Set(d, static_cast<T>(0x1.6a09e667f3bcdp-1)));
  const auto exponent = hn::ShiftRight<kMantissa>(hn::Sub(bits, root_half));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<kMantissa>(exponent))), hn::Set(d, T(1)));
  V k = hn::ConvertTo(d, exponent);
  k = hn::IfThenElse(subnormal, hn::Sub(k, hn::Set(d, T(54))), k);

  const V s = hn::Div(f, hn::Add(hn::Set(d, T(2)), f));
  const V square = hn::Mul(s, s);
  const V half = hn::Mul(hn::Mul(hn::Set(d, T(0.5)), f), f);
  V r;
  if constexpr (kFloat) {
    constexpr float kR[] = {0.666667767115f, 0.399774961833f, 0.298730596799f};
    r = Polynomial(d, kR, square);
  } else {
    constexpr double kR[] = {0.6666666666666734891,  0.39999999999411113539, 0.28571428743259299371,
                             0.22222198476224612737, 0.18183569732552245155, 0.15313903309495016663,
                             0.14797508217555186181};
    r = Polynomial(d, kR, square);
  }
  const V ln2_high = hn::Set(d, static_cast<T>(kFloat ? 0x1.62e4p-1 : 0x1.62e42fefa2p-1));
  const V ln2_low = hn::Set(d, static_cast<T>(kFloat ? 1.42860682030941723e-6 : 0x1.9ef35793c7673p-41));
  const V correction = hn::MulAdd(s, hn::MulAdd(square, r, half), hn::Mul(k, ln2_low));
  V y = hn::MulSub(k, ln2_high, hn::Sub(hn::Sub(half, correction), f));
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  return hn::IfThenElse(hn::Ge(x, zero), y, hn::Set(d, std::numeric_limits<T>::quiet_NaN()));
}

// tanh x = (e^2|x| - 1) / (e^2|x| + 1) with x's sign, within 4 ulp; 1 from 20 on (float: 10).
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V TanhFull(D d, V x) {
  const V one = hn::Set(d, T(1));
  const V magnitude = hn::Min(hn::Abs(x), hn::Set(d, T(sizeof(T) == 4 ? 10 : 20)));
  const auto [n, p] = ReduceExponential(d, hn::Add(magnitude, magnitude));
  // Where n = 0, 1 is not added only to be subtracted.
  const V beyond_one = hn::IfThenElse(hn::Eq(n, hn::Zero(d)), p, hn::Sub(TimesPowerOfTwo(d, hn::Add(p, one), n), one));
  const V y = hn::Div(beyond_one, hn::Add(beyond_one, hn::Set(d, T(2))));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

// 1 / (1 + e^-x).
template <class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, T(1));
  return hn::Div(one, hn::Add(one, ExpFull(d, hn::Neg(x))));
}

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

CROSSTALK_END_TARGET

#endif
