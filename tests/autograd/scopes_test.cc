#include "crosstalk/autograd/scopes.h"

#include <gtest/gtest.h>

#include "crosstalk/autograd/ops_elementwise.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace {

using testing::Leaf;

TEST(NoGradScopeTest, RecordsNothing) {
  const Variable x = Leaf({}, 3);
  {
    const NoGradScope scope;
    EXPECT_FALSE(GradEnabled());
    EXPECT_FALSE(Mul(x, x).requires_grad());
  }
  EXPECT_TRUE(GradEnabled());
  EXPECT_TRUE(Mul(x, x).requires_grad());
  EXPECT_FALSE(Mul(x, x).Detach().requires_grad());
}

}  // namespace
}  // namespace crosstalk
