// Integer arithmetic that sizes, tiles, blocks and counts need.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

namespace crosstalk {

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

}  // namespace crosstalk
