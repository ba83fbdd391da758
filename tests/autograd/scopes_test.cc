#include "crosstalk/autograd/scopes.h"

#include <gtest/gtest.h>

#include "crosstalk/autograd/ops_elementwise.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace scopes_test {

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

TEST(LayerScopeTest, NamesAreJoinedByDots) {
  EXPECT_EQ(CurrentLayer(), "");
  const LayerScope outer("encoder");
  {
    const LayerScope inner("block_3");
    EXPECT_EQ(CurrentLayer(), "encoder.block_3");
    const internal::AbsoluteLayerScope absolute("decoder.block_1");
    EXPECT_EQ(CurrentLayer(), "decoder.block_1");
    const LayerScope within("attention");
    EXPECT_EQ(CurrentLayer(), "decoder.block_1.attention");
  }
  EXPECT_EQ(CurrentLayer(), "encoder");
}

TEST(LayerScopeTest, OneThatFindsNoMemoryLeavesTheLayerAsItWas) {
  const LayerScope outer("encoder");
  testing::FailEachAllocation([] { const LayerScope inner("a name that is too long to need no memory"); },
                              [] { EXPECT_EQ(CurrentLayer(), "encoder"); });
  EXPECT_EQ(CurrentLayer(), "encoder");
}

}  // namespace scopes_test
}  // namespace crosstalk
