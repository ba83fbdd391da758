#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace finite_check_test {

using enum Variable::RequiresGrad;
using testing::MessageOf;

TEST(FiniteCheckTest, TheFirstResultThatIsNotFiniteIsNamedWithItsLayer) {
  const ContextScope check(&OpContext::finite_checks, true);
  const ContextScope encoder = InLayer("encoder");
  const ContextScope block = InLayer("block_3");
  EXPECT_EQ(CurrentLayer(), "encoder.block_3");
  const Variable x(Tensor::FromValues<double>({3}, {1.0, -1.0, 2.0}), kYes);
  EXPECT_EQ(MessageOf([&] { Log(x); }, ErrorKind::kNumerical),
            "encoder.block_3: the result of op log has nan at [1] of [3]");
}

TEST(FiniteCheckTest, TheFirstGradientThatIsNotFiniteIsNamed) {
  const Variable x(Tensor::FromValues<double>({2}, {1.0, 0.0}), kYes);
  const Variable y = [&] {
    const ContextScope layer = InLayer("decoder");
    return Sum(Sqrt(x));
  }();
  const ContextScope check(&OpContext::finite_checks, true);
  EXPECT_EQ(MessageOf([&] { Backward(y); }, ErrorKind::kNumerical),
            "decoder: the gradient of op sqrt has inf at [1] of [2]");
}

TEST(FiniteCheckTest, AMaskMayWriteMinusInfinity) {
  const ContextScope check(&OpContext::finite_checks, true);
  const Variable x(Tensor::FromValues<double>({2}, {1.0, 2.0}), kYes);
  const Tensor mask = Tensor::FromValues<uint8_t>({2}, {0, 1});
  const Variable y = Softmax(Reshape(MaskedFill(x, mask, -HUGE_VAL), {2}));  // and reshape may pass it on
  EXPECT_EQ(y.value().ToVector<double>(), (std::vector<double>{1, 0}));
  Backward(Sum(Square(y)));
}

}  // namespace finite_check_test
}  // namespace crosstalk
