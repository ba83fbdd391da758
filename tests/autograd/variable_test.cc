#include "crosstalk/autograd/variable.h"

#include <gtest/gtest.h>

#include "crosstalk/autograd/ops.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace variable_test {

using enum Variable::RequiresGrad;
using testing::Leaf;
using testing::MessageOf;

TEST(VariableTest, SettersCheckShapeAndLeaf) {
  const Variable x = Leaf({2}, 1);
  EXPECT_EQ(MessageOf([&] { x.SetValue(Tensor::Zeros({3}, DType::kFloat64)); }), "Variable: SetValue needs float64[2]");
  EXPECT_EQ(MessageOf([&] { Scale(x, 2).SetValue(x.value()); }), "Variable: SetValue on the result of an op");
  EXPECT_EQ(MessageOf([&] { Scale(x, 2).grad(); }), "Variable: only a leaf that requires a gradient has grad()");
  EXPECT_EQ(MessageOf([] { Variable(Tensor::Zeros({2}, DType::kInt32), kYes); }),
            "Variable: a int32 tensor cannot require a gradient; only float32, float64 and bfloat16 can");
}

}  // namespace variable_test
}  // namespace crosstalk
