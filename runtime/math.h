// Integer arithmetic that sizes, tiles, blocks and counts need, and the elementary functions, whose bits are the same
// on every machine.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

namespace crosstalk {

// Integer arithmetic that sizes, tiles, blocks and counts need.

// ⌈a / b⌉ for a ≥ 0, b > 0.
template <std::integral T>
constexpr T CeilDivide(T a, T b) {
  return a / b + (a % b != 0);
}

// The least multiple of `to` that is ≥ a, for a ≥ 0, to > 0.
template <std::integral T>
constexpr T RoundUp(T a, T to) {
  return CeilDivide(a, to) * to;
}

// Counts of elements, bytes and multiplications are sums of products of sizes, none negative. One that does not fit is
// kTooMany, and so is any sum or product with it: who shows or allocates a count refuses that value.
inline constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();

constexpr int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kTooMany : sum;
}

constexpr int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kTooMany : product;
}

template <std::same_as<int64_t>... More>
constexpr int64_t SaturatingProduct(int64_t a, int64_t b, int64_t c, More... more) {
  return SaturatingProduct(SaturatingProduct(a, b), c, more...);
}

// Elementary functions of one double whose bits are the same with every C library, compiler and processor: +, -, ×, ÷
// and √ of IEEE 754 alone, each rounded once. Whatever decides a number of a run takes them from here; the C library's
// differ between its versions. Vectors have their own (kernels/functions-inl.h).

// e^x, within 1 ulp. Infinity above 709.78, 0 below -745.13.
double Exp(double x);

// log x, within 1 ulp. log 0 = -infinity; NaN below.
double Log(double x);

// x^y for x ≥ 0, within 1.5 ulp (2 where the result is subnormal); NaN for x < 0. x^0 = 1^y = 1, also where the other
// is NaN.
double Pow(double x, double y);

// cos(πx), within 2.5 ulp; exact where it is 0 or ±1.
double CosPi(double x);

// The x with Φ(x) = p, the normal distribution's function: within 1e-15 · max(1, |x|). -infinity at 0, infinity at 1,
// NaN outside.
double InverseNormal(double p);

}  // namespace crosstalk
