// The SIMD targets that fuse multiply-adds and those that do not: within each sort, all promise the same bits.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/kernels/simd.h"
#include "gtest/gtest.h"
#include "tests/support/close.h"

namespace crosstalk::kernels {

// Those that this CPU has of one sort (SimdBits: "fma", "no-fma"), the widest vectors first.
inline std::vector<std::string> SimdTargetsOf(const std::string& bits) {
  std::vector<std::string> names;
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    if (SimdBits() == bits) names.push_back(target);
  }
  RestrictSimdTarget("");
  return names;
}
inline std::vector<std::string> FusingSimdTargets() { return SimdTargetsOf("fma"); }

// compute() → std::vector<T>: the same bits on each target of a sort.
template <typename F>
void ExpectSameBitsOnTargetsOf(const std::string& bits, const F& compute, const std::string& what) {
  decltype(compute()) expected;
  for (const std::string& target : SimdTargetsOf(bits)) {
    RestrictSimdTarget(target);
    const auto result = compute();
    if (expected.empty()) expected = result;
    EXPECT_TRUE(testing::SameBits(result, expected)) << target << ", " << what;
  }
  RestrictSimdTarget("");
}
template <typename F>
void ExpectSameBitsOnFusingTargets(const F& compute, const std::string& what) {
  ExpectSameBitsOnTargetsOf("fma", compute, what);
}

}  // namespace crosstalk::kernels
