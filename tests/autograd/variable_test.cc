#include "crosstalk/autograd/variable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "crosstalk/autograd/finite_check.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/autograd/recompute.h"
#include "crosstalk/autograd/scopes.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace {

using testing::MessageOf;

using enum Variable::RequiresGrad;

Variable Leaf(const Shape& shape, double value) { return Variable(Tensor::Full(shape, value, DType::kFloat64), kYes); }

TEST(BackwardTest, GradientsOfAValueUsedTwiceAddUp) {
  const Variable x = Leaf({}, 3);
  Backward(Add(Mul(x, x), x));  // d(x² + x) = 2x + 1
  EXPECT_EQ(x.grad().Item(), 7);
}

TEST(BackwardTest, AddsToTheGradientThatIsThere) {
  const Variable x = Leaf({}, 3);
  Backward(Scale(x, 2));
  Backward(Scale(x, 5));
  EXPECT_EQ(x.grad().Item(), 7);
  x.ZeroGrad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(BackwardTest, ADiamondVisitsEachNodeOnce) {
  const Variable x = Leaf({}, 2);
  int visits = 0;
  const auto counted = [&](const Variable& in) {
    return MakeOp("counted", in.value().Clone(), {in}, [&visits](const Tensor& dy, Gradients& gradients) {
      ++visits;
      gradients.Add(0, dy);
    });
  };
  const Variable y = counted(x);
  Backward(Add(counted(y), counted(Mul(y, y))));
  EXPECT_EQ(visits, 3);
  EXPECT_EQ(x.grad().Item(), 5);  // d(y + y²) = 1 + 2·2
}

TEST(BackwardTest, AGraphIsUsedOnce) {
  const Variable x = Leaf({}, 3);
  const Variable y = Mul(x, x);
  Backward(y);
  EXPECT_EQ(MessageOf([&] { Backward(y); }),
            "Backward: the tape behind op mul[] was used up by an earlier Backward; compute the result again");
  const Variable z = Mul(x, x);
  Backward(Scale(z, 2));
  EXPECT_NE(MessageOf([&] { Backward(Scale(z, 3)); }), "");
}

TEST(BackwardTest, MisuseIsExplained) {
  EXPECT_EQ(MessageOf([] { Backward(Variable()); }), "Backward: the output is an undefined Variable");
  EXPECT_EQ(MessageOf([] { Backward(Variable(Tensor::Zeros({}, DType::kFloat32))); }),
            "Backward: the output depends on nothing that requires a gradient");
  EXPECT_EQ(MessageOf([] { Backward(Scale(Leaf({2}, 1), 2)); }),
            "Backward: the output has shape [2], not one element; give a seed of that shape");
  EXPECT_EQ(MessageOf([] { Backward(Scale(Leaf({2}, 1), 2), Tensor::Zeros({3}, DType::kFloat64)); }),
            "Backward: the seed is float64[3], but the output is float64[2]");
}

TEST(BackwardTest, ADeepChainNeedsNoStack) {
  const Variable x = Leaf({}, 1);
  Variable y = x;
  for (int i = 0; i < 100000; ++i) y = AddScalar(y, 1);
  Backward(y);
  EXPECT_EQ(x.grad().Item(), 1);
}

TEST(BackwardTest, ADeepChainIsDestroyedWithoutStack) {
  Variable y = Leaf({}, 1);
  for (int i = 0; i < 100000; ++i) y = AddScalar(y, 1);
  y = Variable();  // a destructor that calls itself for each op of the chain would overflow the stack
  EXPECT_FALSE(y.defined());
}

TEST(BackwardTest, WhatNeedsNoGradientIsNotVisited) {
  const Variable x = Leaf({3, 5}, 1);
  const Variable constant(Tensor::Full({5, 7}, 2, DType::kFloat64));
  bool asked = true;
  const Variable y =
      MakeOp("probe", Tensor::Zeros({}, DType::kFloat64), {constant, x}, [&](const Tensor& dy, Gradients& gradients) {
        asked = gradients.Needs(0);
        gradients.Add(0, dy);  // ignored
        gradients.Add(1, dy.BroadcastTo({3, 5}));
      });
  Backward(y);
  EXPECT_FALSE(asked);
  EXPECT_EQ(x.grad().ToVector<double>(), std::vector<double>(15, 1.0));
}

TEST(BackwardTest, ValuesAreFreedAsSoonAsTheirGradientIsDone) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = held;
  const Variable x = Leaf({}, 1);
  const Variable y = MakeOp("holder", x.value().Clone(), {x},
                            [held](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
  held.reset();
  ASSERT_FALSE(watch.expired());
  Backward(y);
  EXPECT_TRUE(watch.expired());
}

TEST(BackwardTest, TheSeedAndSharedGradientsAreNeverWrittenTo) {
  const Variable x = Leaf({4}, 1);
  const Variable w = Leaf({4}, 1);
  const Tensor seed = Tensor::Full({4}, 1, DType::kFloat64);
  // dy reaches x twice and w once, as the same tensor.
  Backward(Add(Add(x, w), x), seed);
  EXPECT_EQ(seed.ToVector<double>(), std::vector<double>(4, 1.0));
  EXPECT_EQ(x.grad().ToVector<double>(), std::vector<double>(4, 2.0));
  EXPECT_EQ(w.grad().ToVector<double>(), std::vector<double>(4, 1.0));
  EXPECT_TRUE(w.grad().unique());
  EXPECT_TRUE(x.grad().is_contiguous());
}

TEST(BackwardTest, AWrongGradientShapeNamesTheOp) {
  const Variable x = Leaf({4}, 1);
  const Variable y = MakeOp("careless", Tensor::Zeros({}, DType::kFloat64), {x},
                            [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
  EXPECT_THROW(Backward(y), std::logic_error);
}

TEST(BackwardTest, AFailureLeavesNothingBehindForOtherResults) {
  const Variable x = Leaf({4}, 3);
  const Variable shared = Square(x);
  const Variable failing =
      MakeOp("failing", Tensor::Zeros({4}, DType::kFloat64), {shared}, [](const Tensor& dy, Gradients& gradients) {
        gradients.Add(0, dy);
        Fail(ErrorKind::kNumerical, "no gradient");
      });
  EXPECT_EQ(MessageOf([&] { Backward(Sum(failing)); }, ErrorKind::kNumerical), "no gradient");
  Backward(Sum(shared));
  EXPECT_EQ(x.grad().ToVector<double>(), std::vector<double>(4, 6.0));
}

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

TEST(VariableTest, SettersCheckShapeAndLeaf) {
  const Variable x = Leaf({2}, 1);
  EXPECT_EQ(MessageOf([&] { x.SetValue(Tensor::Zeros({3}, DType::kFloat64)); }), "Variable: SetValue needs float64[2]");
  EXPECT_EQ(MessageOf([&] { Scale(x, 2).SetValue(x.value()); }), "Variable: SetValue on the result of an op");
  EXPECT_EQ(MessageOf([&] { Scale(x, 2).grad(); }), "Variable: only a leaf that requires a gradient has grad()");
  EXPECT_EQ(MessageOf([] { Variable(Tensor::Zeros({2}, DType::kInt32), kYes); }),
            "Variable: a int32 tensor cannot require a gradient; only float32 and float64 can");
}

TEST(FiniteCheckTest, TheFirstResultThatIsNotFiniteIsNamedWithItsLayer) {
  const FiniteCheckScope check;
  const LayerScope encoder("encoder");
  const LayerScope block("block_3");
  EXPECT_EQ(CurrentLayer(), "encoder.block_3");
  const Variable x(Tensor::FromValues<double>({3}, {1.0, -1.0, 2.0}), kYes);
  EXPECT_EQ(MessageOf([&] { Log(x); }, ErrorKind::kNumerical),
            "encoder.block_3: the result of op log has nan at [1] of [3]");
}

TEST(FiniteCheckTest, TheFirstGradientThatIsNotFiniteIsNamed) {
  const Variable x(Tensor::FromValues<double>({2}, {1.0, 0.0}), kYes);
  const Variable y = [&] {
    const LayerScope layer("decoder");
    return Sum(Sqrt(x));
  }();
  const FiniteCheckScope check;
  EXPECT_EQ(MessageOf([&] { Backward(y); }, ErrorKind::kNumerical),
            "decoder: the gradient of op sqrt has inf at [1] of [2]");
}

TEST(FiniteCheckTest, AMaskMayWriteMinusInfinity) {
  const FiniteCheckScope check;
  const Variable x(Tensor::FromValues<double>({2}, {1.0, 2.0}), kYes);
  const Tensor mask = Tensor::FromValues<uint8_t>({2}, {0, 1});
  const Variable y = Softmax(Reshape(MaskedFill(x, mask, -HUGE_VAL), {2}));  // and reshape may pass it on
  EXPECT_EQ(y.value().ToVector<double>(), (std::vector<double>{1, 0}));
  Backward(Sum(Square(y)));
}

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

}  // namespace
}  // namespace crosstalk
