#include "crosstalk/kernels/simd.h"

#include <cctype>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/peak.h"
#include "gtest/gtest.h"
#include "hwy/detect_targets.h"
#include "tests/support/messages.h"

namespace crosstalk::kernels {
namespace simd_test {

TEST(SimdTest, EachSupportedTargetCanBeChosenInAnyCase) {
  const auto targets = SupportedSimdTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(SimdTargetName(), targets.front());
  for (const std::string& exact : targets) {
    std::string name = exact;
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    for (const std::string& given : {exact, name}) {
      RestrictSimdTarget(given);
      EXPECT_EQ(SimdTargetName(), exact);
      EXPECT_EQ(SupportedSimdTargets(), targets);  // however it is restricted
      EXPECT_GT(MeasurePeakGflops(1, 20), 0) << exact;
    }
  }
  RestrictSimdTarget("");
  EXPECT_EQ(SimdTargetName(), targets.front());
}

// Each is chosen in the Makefile, whatever Highway has.
TEST(SimdTest, KernelsAreCompiledForTheChosenTargets) {
#if defined(__x86_64__)
  EXPECT_EQ(HWY_TARGETS, HWY_AVX2 | HWY_AVX3);
#else
  EXPECT_EQ(HWY_TARGETS, HWY_STATIC_TARGET);
#endif
}

// -1·1 + (1 + e)·(1 - e) is -e² after one rounding of the second product's sum, and 0 after two.
TEST(SimdTest, EveryTargetFusesMultiplyAdds) {
  constexpr float e = 0x1p-13f;
  const float a[] = {-1, 1 + e}, b[] = {1, 1 - e};
  for (const std::string& target : SupportedSimdTargets()) {
    RestrictSimdTarget(target);
    float c = 0;
    GemmArguments<float> g;
    g.m = g.n = 1, g.k = 2;
    g.a = {a, 2};
    g.b = {b, 1};
    g.c = &c, g.ldc = 1;
    Gemm(g);
    EXPECT_EQ(c, -e * e) << target;
  }
  RestrictSimdTarget("");
}

TEST(SimdTest, AnUnknownTargetIsAUsageErrorThatListsTheKnown) {
  const std::string best = SimdTargetName();
  testing::ExpectError([&] { RestrictSimdTarget("MMX"); }, ErrorKind::kUsage, {best});
  EXPECT_EQ(SimdTargetName(), best);
}

TEST(SimdTest, EachUnitsPeakOfBFloat16IsPositive) {
  std::vector<std::string> units = SupportedBFloat16Units();
  units.push_back("tiles");  // measures what stands in for them if there are none
  for (const std::string& unit : units) {
    RestrictBFloat16Unit(unit);
    EXPECT_GT(MeasureBFloat16PeakGflops(1, 20), 0) << unit;
  }
  RestrictBFloat16Unit("");
}

}  // namespace simd_test
}  // namespace crosstalk::kernels
