#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace recompute_test {

using enum Variable::RequiresGrad;
using testing::Leaf;
using testing::MessageOf;

TEST(RecomputeTest, GivesTheSameValueAndGradients) {
  const Tensor values = Tensor::FromValues<double>({2, 3}, {0.1, -0.2, 0.3, 0.4, -0.5, 0.6});
  const auto run = [&](bool recompute) {
    const Variable x(values.Clone(), kYes);
    const Variable w(Tensor::FromValues<double>({3, 2}, {1, 2, 3, 4, 5, 6}), kYes);
    const auto layer = [w](const std::vector<Variable>& in) { return Tanh(MatMul(in[0], w)); };
    const Variable y = recompute ? Recompute(layer, {Scale(x, 2)}) : layer({Scale(x, 2)});
    Backward(Sum(Square(y)));
    return std::vector<std::vector<double>>{y.value().ToVector<double>(), x.grad().ToVector<double>(),
                                            w.grad().ToVector<double>()};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(RecomputeTest, CapturedLeavesAloneReceiveGradients) {
  const Variable x(Tensor::Full({2}, 3, DType::kFloat64));
  const Variable w = Leaf({2}, 2);
  const Variable y = Recompute([w](const std::vector<Variable>& in) { return Mul(in[0], w); }, {x});
  EXPECT_TRUE(y.requires_grad());
  Backward(Sum(y));
  EXPECT_EQ(w.grad().ToVector<double>(), (std::vector<double>{3, 3}));
  EXPECT_FALSE(Recompute([](const std::vector<Variable>& in) { return Square(in[0]); }, {x}).requires_grad());
}

TEST(RecomputeTest, Nests) {
  const Variable x = Leaf({}, 2);
  const auto inner = [](const std::vector<Variable>& in) { return Square(in[0]); };
  const auto outer = [&](const std::vector<Variable>& in) { return Mul(Recompute(inner, in), in[0]); };
  Backward(Recompute(outer, {x}));  // x³
  EXPECT_EQ(x.grad().Item(), 12);
}

TEST(RecomputeTest, ACapturedResultIsRefused) {
  const Variable x = Leaf({}, 2);
  const Variable outside = Square(x);
  const Variable y = Recompute([outside](const std::vector<Variable>& in) { return Mul(in[0], outside); }, {x});
  EXPECT_EQ(MessageOf([&] { Backward(y); }),
            "recompute: the function captured the result of op square from outside; pass it as an input (only leaves "
            "may be captured)");
}

TEST(RecomputeTest, HoldsNothingOfItsInside) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = held;
  const Variable x = Leaf({}, 2);
  const auto probe = [&held](const std::vector<Variable>& in) {
    return MakeOp("probe", in[0].value().Clone(), in,
                  [kept = held](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
  };
  const Variable y = Recompute(probe, {x});
  EXPECT_EQ(watch.use_count(), 1);
}

}  // namespace recompute_test
}  // namespace crosstalk
