// All SIMD targets promise the same bits.
#pragma once

#include <string>

#include "crosstalk/kernels/simd.h"
#include "gtest/gtest.h"
#include "tests/support/close.h"

namespace crosstalk::kernels {

// compute() → std::vector<T>: the same bits on each target that this CPU has.
template <typename F>
void ExpectSameBitsOnEveryTarget(const F& compute, const std::string& what) {
  decltype(compute()) expected;
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    const auto result = compute();
    if (expected.empty()) expected = result;
    EXPECT_TRUE(testing::SameBits(result, expected)) << target << ", " << what;
  }
  RestrictSimdTarget("");
}

}  // namespace crosstalk::kernels
