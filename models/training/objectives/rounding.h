// Rounding that the host program's rounding mode does not change: for counts of tokens.
#pragma once

#include <cmath>
#include <cstdint>

namespace crosstalk {

inline int64_t RoundHalfToEven(double x) {
  const double low = std::floor(x);
  const double part = x - low;
  const auto n = static_cast<int64_t>(low);
  if (part != 0.5) return part < 0.5 ? n : n + 1;
  return n % 2 == 0 ? n : n + 1;
}

}  // namespace crosstalk
