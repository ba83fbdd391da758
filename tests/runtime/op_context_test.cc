#include "crosstalk/runtime/op_context.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/failing_allocations.h"

namespace crosstalk {
namespace op_context_test {

TEST(ContextScopeTest, ReplacesOneFieldOfItsThreadUntilItEnds) {
  const ContextScope products(&OpContext::precision, Precision::kBFloat16);
  {
    const ContextScope no_grad = NoGrad();
    EXPECT_FALSE(CurrentContext().recording);
    EXPECT_EQ(CurrentContext().precision, Precision::kBFloat16);
    const ContextScope exact(&OpContext::precision, Precision::kFloat32);
    EXPECT_FALSE(CurrentContext().recording);
    EXPECT_EQ(CurrentContext().precision, Precision::kFloat32);
  }
  EXPECT_TRUE(CurrentContext().recording);
  EXPECT_EQ(CurrentContext().precision, Precision::kBFloat16);
  const ContextScope no_grad = NoGrad();
  bool elsewhere = false;
  std::thread([&] { elsewhere = CurrentContext().recording; }).join();
  EXPECT_TRUE(elsewhere);
}

TEST(InLayerTest, NamesAreJoinedByDots) {
  EXPECT_EQ(CurrentLayer(), "");
  const ContextScope outer = InLayer("encoder");
  {
    const ContextScope inner = InLayer("block_3");
    EXPECT_EQ(CurrentLayer(), "encoder.block_3");
    const ContextScope no_grad = NoGrad();
    EXPECT_EQ(CurrentLayer(), "encoder.block_3");
  }
  EXPECT_EQ(CurrentLayer(), "encoder");
}

TEST(InLayerTest, OneThatFindsNoMemoryLeavesTheLayerAsItWas) {
  const ContextScope outer = InLayer("encoder");
  testing::FailEachAllocation([] { const ContextScope inner = InLayer("a name that is too long to need no memory"); },
                              [] { EXPECT_EQ(CurrentLayer(), "encoder"); });
  EXPECT_EQ(CurrentLayer(), "encoder");
}

}  // namespace op_context_test
}  // namespace crosstalk
