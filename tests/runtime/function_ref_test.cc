#include "crosstalk/runtime/function_ref.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

namespace crosstalk {
namespace function_ref_test {

int Apply(FunctionRef<int(int)> f, int x) { return f(x); }

TEST(FunctionRefTest, CallsWhatItWasMadeFrom) {
  int calls = 0;
  const auto add = [&calls](int x) { return x + ++calls; };
  EXPECT_EQ(Apply(add, 10), 11);
  const FunctionRef<int(int)> one(add), other = one;
  EXPECT_EQ(other(10), 12);
  EXPECT_EQ(one(10), 13);
  EXPECT_EQ(Apply([state = 5](int x) mutable { return state += x; }, 2), 7);
  EXPECT_EQ(Apply(std::function<int(int)>(add), 10), 14);
}

TEST(FunctionRefTest, PassesArgumentsAsTheyAre) {
  std::string text = "a";
  const auto append = [](std::string& to) { return to += "b"; };
  const FunctionRef<void(std::string&)> dropping(append);  // the result
  dropping(text);
  EXPECT_EQ(text, "ab");
  const auto take = [](std::unique_ptr<int> owned) { return *owned; };
  const FunctionRef<int(std::unique_ptr<int>)> moved(take);
  EXPECT_EQ(moved(std::make_unique<int>(3)), 3);
}

}  // namespace function_ref_test
}  // namespace crosstalk
