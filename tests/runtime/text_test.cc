#include "crosstalk/runtime/text.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace {

TEST(TextTest, JoinInvertsSplit) {
  for (const char* text : {"", "a", "a,,b", ","}) EXPECT_EQ(Join(Split(text, ','), ","), text);
  EXPECT_EQ(Split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
}

TEST(TextTest, TheNearestNameIsTheOneWithTheFewestEdits) {
  const std::vector<std::string> names = {"multihead", "talking", "bilinear"};
  EXPECT_EQ(NearestName("taking", names), "talking");
  EXPECT_EQ(NearestName("bilinaer", names), "bilinear");
  EXPECT_EQ(NearestName("xyz", names), "");
  EXPECT_EQ(NearestName("talking", {}), "");
}

TEST(TextTest, DidYouMeanSaysNothingWhereNothingIsNear) {
  EXPECT_EQ(DidYouMean("tlaking", {"talking"}), "; did you mean \"talking\"?");
  EXPECT_EQ(DidYouMean("x", {"talking"}), "");
}

}  // namespace
}  // namespace crosstalk
