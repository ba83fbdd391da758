#include "crosstalk/kernels/bfloat16.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/dtype.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace bfloat16_test {

float FloatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
uint32_t BitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// What rounding promises, number by number: the file format's rounding, except for subnormal numbers.
uint16_t Expected(float x) {
  if (std::fabs(x) < 0x1p-126f) return std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return static_cast<uint16_t>((BitsOf(x) >> 16) | 0x40);
  return Narrow(HalfFormat::kBFloat16, x);
}

CROSSTALK_KERNEL_TEST(BFloat16Test);

TEST_P(BFloat16Test, RoundsToTheNearestAndOfTwoAsNearToTheEven) {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {  // every bfloat16, and what lies around and between two of them
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      x.push_back(FloatOf(upper << 16 | lower));
    }
  }
  std::vector<uint16_t> y(x.size());
  RoundToBFloat16(static_cast<int64_t>(x.size()), x.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], Expected(x[i])) << std::hex << BitsOf(x[i]);
}

TEST_P(BFloat16Test, WidensToTheSameValue) {
  std::vector<uint16_t> x(0x10000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
  std::vector<float> y(x.size());
  WidenBFloat16(static_cast<int64_t>(x.size()), x.data(), y.data());
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(BitsOf(y[i]), uint32_t{x[i]} << 16);
}

TEST_P(BFloat16Test, EveryLengthAndStartTouchesItsOwnElementsAlone) {
  for (int64_t count = 0; count < 70; ++count) {
    for (int64_t start = 0; start < 3; ++start) {
      std::vector<float> x(static_cast<size_t>(start + count), 3.14159f);  // no element after the last to be read
      std::vector<uint16_t> y(static_cast<size_t>(start + count + 1), 0x1234);
      RoundToBFloat16(count, x.data() + start, y.data() + start);
      std::vector<float> back(static_cast<size_t>(start + count + 1), -1.0f);
      WidenBFloat16(count, y.data() + start, back.data() + start);
      for (int64_t i = 0; i < start + count + 1; ++i) {
        const bool inside = i >= start && i < start + count;
        ASSERT_EQ(y[static_cast<size_t>(i)], inside ? 0x4049 : 0x1234) << count << ", " << start << ", " << i;
        ASSERT_EQ(back[static_cast<size_t>(i)], inside ? 3.140625f : -1.0f) << count << ", " << start << ", " << i;
      }
    }
  }
}

TEST(BFloat16UnitTest, TheWidenedUnitIsEverywhereAndOthersAreRefused) {
  const std::string best = BFloat16UnitName();
  EXPECT_EQ(SupportedBFloat16Units().back(), "widened");
  RestrictBFloat16Unit("widened");
  EXPECT_EQ(BFloat16UnitInUse(), BFloat16Unit::kWidened);
  EXPECT_ANY_THROW(RestrictBFloat16Unit("tensor-core"));
  EXPECT_EQ(BFloat16UnitInUse(), BFloat16Unit::kWidened);
  RestrictBFloat16Unit("");
  EXPECT_EQ(BFloat16UnitName(), best);
}

}  // namespace bfloat16_test
}  // namespace crosstalk::kernels
