#include "crosstalk/runtime/math.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>

namespace crosstalk {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// log 2 = kLn2High + kLn2Low. The first has 40 significant bits: its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fefa2p-1;
constexpr double kLn2Low = 0x1.9ef35793c7673p-41;

// Σ_i c[i] x^i.
template <size_t kTerms>
double Polynomial(const double (&c)[kTerms], double x) {
  double sum = c[kTerms - 1];
  for (size_t i = kTerms - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// x = 2^exponent · (1 + f), 1 + f in [√½, √2), for finite x > 0.
struct RootSplit {
  double exponent, f;
};
RootSplit SplitAtRoot(double x) {
  const bool subnormal = x < std::numeric_limits<double>::min();
  const auto bits = std::bit_cast<int64_t>(subnormal ? x * 0x1p54 : x);
  const int64_t exponent = (bits - std::bit_cast<int64_t>(0x1.6a09e667f3bcdp-1)) >> 52;  // √½
  const double m = std::bit_cast<double>(bits - (exponent << 52));
  return {static_cast<double>(subnormal ? exponent - 54 : exponent), m - 1};
}

// 2^n, for -1022 ≤ n ≤ 1023.
double PowerOfTwo(int64_t n) { return std::bit_cast<double>((n + 1023) << 52); }

// A sum of two doubles that do not overlap: about 106 bits. Dekker 1971 and Knuth: the sum and the product of two
// doubles, exactly, without a fused multiply-add, which not every processor has.
struct DoubleDouble {
  double high, low;
};
DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b, shifted = sum - a;
  return {sum, (a - (sum - shifted)) + (b - shifted)};
}
DoubleDouble TwoProduct(double a, double b) {  // |a|, |b| < 2^969
  constexpr double kSplitter = 0x1p27 + 1;
  const double big_a = kSplitter * a, big_b = kSplitter * b;
  const double a_high = big_a - (big_a - a), b_high = big_b - (big_b - b);
  const double a_low = a - a_high, b_low = b - b_high;
  const double product = a * b;
  return {product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)};
}
DoubleDouble Times(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = TwoProduct(a.high, b.high);
  return TwoSum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

// log x for finite x > 0, off by less than 2^-65 of it: with s = f / (2 + f) and t = s² < 0.0295,
//   log(1 + f) = 2 artanh s = 2s · (1 + t/3 + t² · (1/5 + t/7 + …)),
// where the first two terms need all digits. Of the series, what follows t^13/27 is below 2^-73.
DoubleDouble PreciseLog(double x) {
  constexpr double kRest[] = {1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15,
                              1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27};
  constexpr DoubleDouble kThird = {0x1.5555555555555p-2, 0x1.5555555555555p-56};
  const auto [exponent, f] = SplitAtRoot(x);
  const DoubleDouble divisor = TwoSum(2, f);
  const double quotient = f / divisor.high;
  const DoubleDouble product = TwoProduct(quotient, divisor.high);
  const double remainder = ((f - product.high) - product.low) - quotient * divisor.low;
  const DoubleDouble s = TwoSum(quotient, remainder / divisor.high);
  const DoubleDouble t = Times(s, s);
  const DoubleDouble third = Times(t, kThird);
  const DoubleDouble rest = TwoSum(third.high, third.low + t.high * t.high * Polynomial(kRest, t.high));
  DoubleDouble series = TwoSum(1, rest.high);
  series.low += rest.low;
  const DoubleDouble mantissa = Times({2 * s.high, 2 * s.low}, series);
  const DoubleDouble sum = TwoSum(exponent * kLn2High, mantissa.high);
  return TwoSum(sum.high, sum.low + (exponent * kLn2Low + mantissa.low));
}

}  // namespace

// x = n log 2 + r, |r| ≤ log(2)/2; e^r = 1 + r + r²/2 + r³ · P(r), P minimax for that range (relative error of e^r
// 2^-64, by Remez's algorithm).
double Exp(double x) {
  constexpr double kP[] = {0.16666666666666683702,   0.041666666666666700025,   0.0083333333333168061481,
                           0.0013888888888864979015, 0.00019841269896952367841, 0.000024801587365471289097,
                           2.7557234302343370615e-6, 2.7557238374324470991e-7,  2.5112227333039188844e-8,
                           2.0925767747014911995e-9};
  if (!(x > -746)) return x <= -746 ? 0 : x;  // NaN stays
  if (x > 710) return kInfinity;
  constexpr double kRounder = 0x1.8p52;  // adding it leaves whole numbers
  const double n = (x * 1.4426950408889634074 + kRounder) - kRounder;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double y = 1 + (r + r * r * (0.5 + r * Polynomial(kP, r)));
  const auto whole = static_cast<int64_t>(n), half = whole / 2;
  return y * PowerOfTwo(half) * PowerOfTwo(whole - half);
}

// x = 2^k · (1 + f); with s = f / (2 + f), log(1 + f) = 2 artanh s = 2s + s³ · R(s²), R minimax for s² ≤ 0.0295
// (relative error 2^-66, by Remez's algorithm). As 2s = f - s·f = f - f²/2 + s·f²/2, f alone is not rounded.
double Log(double x) {
  constexpr double kR[] = {0.66666666666666660933, 0.40000000000006287022, 0.28571428569072958012,
                           0.22222222648754031429, 0.18181775508093162047, 0.15387097674553601092,
                           0.13249961409446990872, 0.13252761013740555749};
  if (!(x > 0)) return x == 0 ? -kInfinity : kNaN;
  if (x == kInfinity) return x;
  const auto [k, f] = SplitAtRoot(x);
  const double s = f / (2 + f), square = s * s, half = 0.5 * f * f;
  return k * kLn2High - ((half - (s * (half + square * Polynomial(kR, square)) + k * kLn2Low)) - f);
}

double Pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (std::isnan(y) || !(x >= 0)) return kNaN;
  if (x == 0 || x == kInfinity) return (x == 0) == (y < 0) ? kInfinity : 0;
  const DoubleDouble log = PreciseLog(x);
  if (!(std::abs(y * log.high) < 800)) return (y > 0) == (log.high > 0) ? kInfinity : 0;
  const DoubleDouble product = Times({y, 0}, log);
  const double power = Exp(product.high);
  return power == kInfinity ? power : power + power * product.low;
}

// By the nearest quarter turn, which leaves |πf| ≤ π/4: Taylor's series of cos or sin, to terms below 2^-60.
double CosPi(double x) {
  constexpr double kCos[] = {1,
                             -1.0 / 2,
                             1.0 / 24,
                             -1.0 / 720,
                             1.0 / 40320,
                             -1.0 / 3628800,
                             1.0 / 479001600,
                             -1.0 / 87178291200,
                             1.0 / 20922789888000};
  constexpr double kSin[] = {1,
                             -1.0 / 6,
                             1.0 / 120,
                             -1.0 / 5040,
                             1.0 / 362880,
                             -1.0 / 39916800,
                             1.0 / 6227020800,
                             -1.0 / 1307674368000,
                             1.0 / 355687428096000};
  if (!std::isfinite(x)) return kNaN;
  const double turn = std::fmod(std::abs(x), 2);  // exact, as what follows
  const double quarters = std::floor(2 * turn + 0.5);
  const double y = 3.14159265358979323846 * (turn - 0.5 * quarters), square = y * y;
  switch (static_cast<int>(quarters)) {
    case 1:
      return 0 - y * Polynomial(kSin, square);
    case 2:
      return -Polynomial(kCos, square);
    case 3:
      return y * Polynomial(kSin, square);
    default:
      return Polynomial(kCos, square);
  }
}

// Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution" (Applied Statistics 37, 1988), PPND16:
// rational functions of (p - ½)² in the middle, and of √(-log p) in the tails.
double InverseNormal(double p) {
  constexpr double kA[] = {3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
                           45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727};
  constexpr double kB[] = {1,
                           42.313330701600911252,
                           687.18700749205790830,
                           5394.1960214247511077,
                           21213.794301586595867,
                           39307.895800092710610,
                           28729.085735721942674,
                           5226.4952788528545610};
  constexpr double kC[] = {1.42343711074968357734,   4.63033784615654529590,    5.76949722146069140550,
                           3.64784832476320460504,   1.27045825245236838258,    0.241780725177450611770,
                           0.0227238449892691845833, 0.000774545014278341407640};
  constexpr double kD[] = {1,
                           2.05319162663775882187,
                           1.67638483018380384940,
                           0.689767334985100004550,
                           0.148103976427480074590,
                           0.0151986665636164571966,
                           0.000547593808499534494600,
                           1.05075007164441684324e-9};
  constexpr double kE[] = {6.65790464350110377720,      5.46378491116411436990,   1.78482653991729133580,
                           0.296560571828504891230,     0.0265321895265761230930, 0.00124266094738807843860,
                           0.0000271155556874348757815, 2.01033439929228813265e-7};
  constexpr double kF[] = {1,
                           0.599832206555887937690,
                           0.136929880922735805310,
                           0.0148753612908506148525,
                           0.000786869131145613259100,
                           0.0000184631831751005468180,
                           1.42151175831644588870e-7,
                           2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  const double tail = q < 0 ? p : 1 - p;
  if (!(tail > 0)) return tail == 0 ? (q < 0 ? -kInfinity : kInfinity) : kNaN;
  const double r = std::sqrt(-Log(tail));
  const double x =
      r <= 5 ? Polynomial(kC, r - 1.6) / Polynomial(kD, r - 1.6) : Polynomial(kE, r - 5) / Polynomial(kF, r - 5);
  return q < 0 ? -x : x;
}

}  // namespace crosstalk
