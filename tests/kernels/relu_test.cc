#include "crosstalk/kernels/elementwise.h"
#include "tests/support/kernel_test.h"

namespace crosstalk::kernels {
namespace relu_test {

CROSSTALK_KERNEL_TEST(ReluTest);

template <typename T>
void CheckAgainstItsDefinition(int64_t n) {
  std::vector<T> x = RandomValues<T>(n, "x");
  const T nan = std::numeric_limits<T>::quiet_NaN(), tiny = std::numeric_limits<T>::denorm_min();
  const T special[] = {nan, 0, -T(0), tiny, -tiny, std::numeric_limits<T>::infinity()};
  for (int64_t i = 0; i < n; i += 5) x[i] = special[i / 5 % std::size(special)];
  const std::vector<T> dy = RandomValues<T>(n, "dy");
  Guarded<T> in(x), out(n), grad_in(dy), grad_out(n);
  Guarded<uint8_t> positive(SignBytes(n));
  Relu(n, in.data(), out.data(), positive.data());
  ReluGradient(n, positive.data(), grad_in.data(), grad_out.data());
  const std::vector<T> results = out.values(), gradients = grad_out.values();
  for (int64_t i = 0; i < n; ++i) {
    const T y = results[i];
    ASSERT_TRUE(std::isnan(x[i]) ? std::isnan(y) : y == (x[i] > 0 ? x[i] : 0)) << x[i] << " at " << i << " of " << n;
    ASSERT_EQ(gradients[i], x[i] > 0 ? dy[i] : 0) << x[i] << " at " << i << " of " << n;
  }
  ASSERT_TRUE(out.GuardsIntact() && grad_out.GuardsIntact() && positive.GuardsIntact()) << n;
}

TEST_P(ReluTest, ValuesAndGradientsAreTheDefinitionsForEveryRemainder) {
  for (int64_t n = 0; n <= kMaxLength; ++n) {
    CheckAgainstItsDefinition<float>(n);
    CheckAgainstItsDefinition<double>(n);
  }
}

TEST_P(ReluTest, ALongArrayIsCutBetweenBytesOfSigns) {
  CheckAgainstItsDefinition<float>(100003);
  CheckAgainstItsDefinition<double>(70001);
}

TEST_P(ReluTest, InPlaceIsTheSame) {
  const std::vector<float> x = RandomValues<float>(67, "x");
  std::vector<float> apart(67), in_place = x;
  std::vector<uint8_t> positive(SignBytes(67)), again(SignBytes(67));
  Relu<float>(67, x.data(), apart.data(), positive.data());
  Relu<float>(67, in_place.data(), in_place.data(), again.data());
  EXPECT_EQ(in_place, apart);
  EXPECT_EQ(positive, again);
}

}  // namespace relu_test
}  // namespace crosstalk::kernels
