#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/reference/elementwise.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace dropout_test {

CROSSTALK_KERNEL_TEST(DropoutTest);

// The same mask as Uniform(key, index) < rate, bit for bit, on every target.
template <typename T>
void CheckDropout() {
  const RandomKey key{0x123456789abcdef0, StreamId("site"), 42};
  for (const double rate : {0.0, 0.1, 0.5, 1 - 1e-7}) {
    for (int64_t n = 0; n <= 3 * kMaxLength; ++n) {
      const std::vector<T> x = RandomValues<T>(n, "x");
      Guarded<T> in(x), out(n);
      std::vector<T> expected(n);
      reference::Dropout(n, rate, key, x.data(), expected.data());
      Dropout(n, rate, key, in.data(), out.data());
      ASSERT_TRUE(SameBits(out.values(), expected)) << "n=" << n << " rate=" << rate;
      ASSERT_TRUE(out.GuardsIntact());
    }
  }
}
TEST_P(DropoutTest, MatchesTheReferenceFloat) { CheckDropout<float>(); }
TEST_P(DropoutTest, MatchesTheReferenceDouble) { CheckDropout<double>(); }

// The number kept of n = 100,000 is binomial: 5 standard deviations are 475.
TEST_P(DropoutTest, KeepsTheShareItShould) {
  const int64_t n = 100000;
  const std::vector<float> ones(n, 1.0f);
  std::vector<float> y(n);
  Dropout(n, 0.1, {1, 2, 3}, ones.data(), y.data());
  int64_t kept = 0;
  for (const float v : y) kept += v != 0;
  EXPECT_NEAR(static_cast<double>(kept), 90000, 475);
}

TEST_P(DropoutTest, SameBitsOnAnyThreads) {
  const std::vector<float> x = RandomValues<float>(50001, "x");
  ExpectSameBitsOnAnyThreads([&] {
    std::vector<float> y(x.size());
    Dropout<float>(static_cast<int64_t>(x.size()), 0.3, {1, 2, 3}, x.data(), y.data());
    return y;
  });
}

}  // namespace dropout_test
}  // namespace crosstalk::kernels
