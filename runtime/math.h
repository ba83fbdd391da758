// Integer arithmetic that sizes, tiles and blocks need.
#pragma once

#include <concepts>

namespace crosstalk {

// ⌈a / b⌉ for a ≥ 0, b > 0.
template <std::integral T>
constexpr T CeilDivide(T a, T b) {
  return (a + b - 1) / b;
}

// The least multiple of `to` that is ≥ a, for a ≥ 0, to > 0.
template <std::integral T>
constexpr T RoundUp(T a, T to) {
  return CeilDivide(a, to) * to;
}

}  // namespace crosstalk
