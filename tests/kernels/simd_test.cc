#include "crosstalk/kernels/simd.h"

#include "crosstalk/kernels/peak.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"

namespace crosstalk::kernels {
namespace {

TEST(SimdTest, EachSupportedTargetCanBeChosen) {
  const auto targets = SupportedSimdTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(SimdTargetName(), targets.front());
  for (const std::string& target : targets) {
    RestrictSimdTarget(target);
    EXPECT_EQ(SimdTargetName(), target);
  }
  RestrictSimdTarget("");
  EXPECT_EQ(SimdTargetName(), targets.front());
  EXPECT_EQ(SupportedSimdTargets(), targets);
}

TEST(SimdTest, AnUnknownTargetIsAUsageErrorThatListsTheKnown) {
  const std::string best = SimdTargetName();
  const std::string message = testing::MessageOf([&] { RestrictSimdTarget("MMX"); });
  EXPECT_NE(message.find(best), std::string::npos) << message;
  EXPECT_EQ(SimdTargetName(), best);
}

TEST(SimdTest, PeakIsPositiveAndWidthMatters) {
  const double best = MeasurePeakGflops(1, 20);
  RestrictSimdTarget(SupportedSimdTargets().back());
  const double narrowest = MeasurePeakGflops(1, 20);
  RestrictSimdTarget("");
  EXPECT_GT(narrowest, 0);
  if (SupportedSimdTargets().size() > 1) {
    EXPECT_GT(best, narrowest);
  }
}

}  // namespace
}  // namespace crosstalk::kernels
