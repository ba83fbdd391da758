// The SIMD targets that fuse multiply-adds: the ones that promise the same bits as each other.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/kernels/simd.h"
#include "gtest/gtest.h"
#include "tests/support/close.h"

namespace crosstalk::kernels {

// Those that this CPU has, the widest vectors first.
inline std::vector<std::string> FusingSimdTargets() {
  std::vector<std::string> names;
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    if (SimdBits() == "fma") names.push_back(target);
  }
  RestrictSimdTarget("");
  return names;
}

// compute() → std::vector<T>: the same bits on each of them.
template <typename F>
void ExpectSameBitsOnFusingTargets(const F& compute, const std::string& what) {
  decltype(compute()) expected;
  for (const std::string& target : FusingSimdTargets()) {
    RestrictSimdTarget(target);
    const auto result = compute();
    if (expected.empty()) expected = result;
    EXPECT_TRUE(testing::SameBits(result, expected)) << target << ", " << what;
  }
  RestrictSimdTarget("");
}

}  // namespace crosstalk::kernels
