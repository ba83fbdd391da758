#include "crosstalk/autograd/tape.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace tape_test {

using testing::Leaf;
using testing::MessageOf;

TEST(NoGradTest, RecordsNothing) {
  const Variable x = Leaf({}, 3);
  {
    const ContextScope no_grad = NoGrad();
    EXPECT_FALSE(Mul(x, x).requires_grad());
  }
  EXPECT_TRUE(Mul(x, x).requires_grad());
  EXPECT_FALSE(Mul(x, x).Detach().requires_grad());
}

// dA[8, 8] is a sum over 10,000 columns, which the fastest order cuts into slices.
TEST(BackwardTest, KeepsTheOrderOfSumsOfTheForwardPass) {
  const Tensor a = Tensor::Empty({8, 8}, DType::kFloat32), b = Tensor::Empty({8, 10'000}, DType::kFloat32);
  FillNormal(a, {.seed = 1}, 0, 1);
  FillNormal(b, {.seed = 2}, 0, 1);
  const auto gradient = [&](SumOrder forward, SumOrder backward) {
    const Variable A(a, Variable::RequiresGrad::kYes);
    Variable y;
    {
      const ContextScope scope(&OpContext::sum_order, forward);
      y = MatMul(A, Variable(b));
    }
    const ContextScope scope(&OpContext::sum_order, backward);
    Backward(y, b);
    return A.grad().ToVector<float>();
  };
  const std::vector<float> invariant = gradient(SumOrder::kBatchInvariant, SumOrder::kBatchInvariant);
  const std::vector<float> fastest = gradient(SumOrder::kFastest, SumOrder::kFastest);
  EXPECT_NE(invariant, fastest);
  EXPECT_EQ(gradient(SumOrder::kBatchInvariant, SumOrder::kFastest), invariant);
  EXPECT_EQ(gradient(SumOrder::kFastest, SumOrder::kBatchInvariant), fastest);
}

// The number of each leaf and its gradient when it was said to be done.
std::vector<std::pair<size_t, double>> DoneLeaves(const Variable& output, const std::vector<Variable>& leaves) {
  std::vector<std::pair<size_t, double>> done;
  Backward(output, leaves, [&](size_t i) { done.emplace_back(i, leaves[i].grad().Item()); });
  return done;
}

TEST(BackwardTest, TellsOfALeafOnceNothingIsAddedToItsGradient) {
  using Done = std::vector<std::pair<size_t, double>>;
  const Variable a = Leaf({}, 2), b = Leaf({}, 3), c = Leaf({}, 5), unused = Leaf({}, 7);
  // (a·b + a)·c + c: c comes first, b before a, whose two uses both count.
  EXPECT_EQ(DoneLeaves(Add(Mul(Add(Mul(a, b), a), c), c), {a, unused, b, c}), (Done{{3, 9}, {0, 20}, {2, 10}}));
  for (const Variable& leaf : {a, b, c}) leaf.ZeroGrad();
  int others = 0;  // that no gradient is there for yet, when c is done
  Backward(Mul(Mul(a, b), c), std::vector<Variable>{a, b, c},
           [&](size_t i) { others += i == 2 && !a.grad().defined() && !b.grad().defined(); });
  EXPECT_EQ(others, 1);
}

TEST(BackwardTest, LeavesThatAnOpCapturesAreDoneAtTheEnd) {
  const Variable a = Leaf({}, 2), b = Leaf({}, 3);
  const auto hidden = [&](const std::vector<Variable>& inputs) { return Mul(inputs[0], b); };
  // b + b·(a·b) = b + a·b², of which the second b is reached within Recompute, after the first.
  const auto done = DoneLeaves(Add(b, Mul(b, Recompute(hidden, {a}))), {a, b});
  ASSERT_EQ(done.size(), 2u);
  for (const auto& [leaf, gradient] : done) EXPECT_EQ(gradient, leaf == 0 ? 9 : 13) << leaf;
}

TEST(BackwardTest, ADiamondVisitsEachNodeOnceAndAddsToTheGradientThatIsThere) {
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
  Backward(Scale(x, 3));
  EXPECT_EQ(x.grad().Item(), 8);
  x.ZeroGrad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(BackwardTest, MisuseIsExplained) {
  const Variable x = Leaf({}, 3), used = Mul(x, x), shared = Mul(x, x), two = Scale(Leaf({2}, 1), 2),
                 leaf = Leaf({2}, 1);
  Backward(used);
  Backward(Scale(shared, 2));
  testing::ExpectRefused(
      {{"a graph twice",
        [&] { Backward(used); },
        {"Backward: the tape of op mul[] was used up by an earlier Backward; compute the result again"}},
       {"a part of one", [&] { Backward(Scale(shared, 3)); }, {"used up"}},
       {"nothing", [] { Backward(Variable()); }, {"Backward: the output is an undefined Variable"}},
       {"a constant",
        [] { Backward(Variable(Tensor::Zeros({}, DType::kFloat32))); },
        {"Backward: the output depends on nothing that requires a gradient"}},
       {"no seed",
        [&] { Backward(two); },
        {"Backward: the output has shape [2], not one element; give a seed of that shape"}},
       {"a seed",
        [&] { Backward(two, Tensor::Zeros({3}, DType::kFloat64)); },
        {"Backward: the seed is float64[3], but the output is float64[2]"}},
       {"a value",
        [&] { leaf.SetValue(Tensor::Zeros({3}, DType::kFloat64)); },
        {"Variable: SetValue needs float64[2]"}},
       {"a result's value", [&] { two.SetValue(leaf.value()); }, {"Variable: SetValue on the result of an op"}},
       {"a result's gradient", [&] { two.grad(); }, {"Variable: only a leaf that requires a gradient has grad()"}},
       {"integers",
        [] { Variable(Tensor::Zeros({2}, DType::kInt32), Variable::RequiresGrad::kYes); },
        {"a int32 tensor cannot require a gradient; only float32, float64 and bfloat16 can"}},
       {"a leaf that is a result", [&] { LeafGradients(std::vector<Variable>{two}); }, {"result of an op"}},
       {"a captured result",
        [&] {
          const Variable outside = Square(x);
          Backward(Recompute([outside](const std::vector<Variable>& in) { return Mul(in[0], outside); }, {x}));
        },
        {"recompute: the function captured the result of op square from outside; pass it as an input"}}});
}

// A destructor that calls itself for each op of the chain would overflow the stack, too.
TEST(BackwardTest, ADeepChainNeedsNoStack) {
  const Variable x = Leaf({}, 1);
  Variable y = x, unused = x;
  for (int i = 0; i < 100000; ++i) y = AddScalar(y, 1), unused = AddScalar(unused, 1);
  Backward(y);
  EXPECT_EQ(x.grad().Item(), 1);
  unused = Variable();
  EXPECT_FALSE(unused.defined());
}

// An exception that is on its way when memory is out destroys results: a destructor that needs some would end the
// program.
TEST(BackwardTest, ATapeIsDestroyedWithoutMemory) {
  Variable y = Leaf({2}, 1);
  for (int i = 0; i < 10; ++i) y = Mul(AddScalar(y, 1), y);
  const testing::FailingAllocations failing(0);
  y = Variable();
  EXPECT_FALSE(y.defined());
}

TEST(BackwardTest, ABackwardThatFoundNoMemoryCanBeDoneAgain) {
  const Variable x = Leaf({2}, 3);
  const auto times = [&](const auto& f) {
    const auto backward = [&] {
      x.ZeroGrad();
      Backward(Sum(f(x)));
    };
    return testing::FailEachAllocation(backward, [] {});
  };
  EXPECT_GT(times([](const Variable& v) { return Mul(v, AddScalar(v, 1)); }), 10);
  EXPECT_EQ(x.grad().At({0}), 7);  // d/dx x (x + 1)
  times([](const Variable& v) { return v; });
  EXPECT_TRUE(x.grad().unique() && x.grad().is_contiguous()) << "the leaf was not visited";
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

TEST(BackwardTest, WhatAnOpHoldsIsFreedAsSoonAsItsGradientIsDoneAndAtOnceWithinRecompute) {
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = held;
  const Variable x = Leaf({}, 1);
  const auto holder = [&held](const std::vector<Variable>& in) {
    return MakeOp("holder", in[0].value().Clone(), in,
                  [kept = held](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
  };
  const Variable hidden = Recompute(holder, {x});
  EXPECT_EQ(watch.use_count(), 1);
  const Variable y = holder({x});
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

// Gradients apart from the leaves': the same bits, for several threads at once, and the leaves' own stay as they are.

Variable RampLeaf(const Shape& shape, double first,
                  Variable::RequiresGrad requires_grad = Variable::RequiresGrad::kYes) {
  Tensor value = Tensor::Empty(shape, DType::kFloat32);
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    value.data<float>()[i] = static_cast<float>(first + 0.37 * static_cast<double>(i));
  }
  return Variable(value, requires_grad);
}

struct Net {
  Variable w = RampLeaf({3, 5}, -1), v = RampLeaf({5, 2}, 0.5),
           frozen = RampLeaf({3, 5}, 2, Variable::RequiresGrad::kNo);
  std::vector<Variable> leaves() const { return {w, v, frozen, w}; }
  // w twice, once recomputed.
  Variable Loss(double x) const {
    const Variable input = RampLeaf({4, 3}, x, Variable::RequiresGrad::kNo);
    const Variable hidden =
        Recompute([this](const std::vector<Variable>& in) { return Tanh(MatMul(in[0], Mul(w, frozen))); }, {input});
    return Sum(Tanh(MatMul(Add(hidden, MatMul(input, w)), v)));
  }
};

TEST(LeafGradientsTest, AddUpToThoseOfTheLeavesWhichKeepTheirOwn) {
  const Net net;
  const auto twice = [&] {
    Backward(net.Loss(0.1));
    Backward(net.Loss(0.7));
  };
  twice();
  const std::vector<float> dw = net.w.grad().ToVector<float>(), dv = net.v.grad().ToVector<float>();
  for (const bool both : {true, false}) {
    SCOPED_TRACE(both);
    net.v.ZeroGrad();
    const std::vector<float> before = net.w.grad().ToVector<float>();
    LeafGradients own(both ? net.leaves() : std::vector<Variable>{net.w});
    {
      const ContextScope apart(&OpContext::leaf_gradients, &own);
      twice();
    }
    EXPECT_EQ(net.w.grad().ToVector<float>(), before);
    EXPECT_EQ(net.v.grad().defined(), !both);
    EXPECT_TRUE(both || net.v.grad().ToVector<float>() == dv);
    Backward(net.Loss(0.7));  // with the leaves' own again
    EXPECT_EQ(own.Take(0).ToVector<float>(), dw);
    EXPECT_FALSE(own.Take(0).defined()) << "it was taken";
    if (!both) continue;
    EXPECT_EQ(own.Take(1).ToVector<float>(), dv);
    EXPECT_FALSE(own.Take(2).defined()) << "it requires none";
    EXPECT_FALSE(own.Take(3).defined()) << "leaf 0 again, which was taken";
  }
}

TEST(LeafGradientsTest, ThreadsComputeBesideEachOther) {
  const Net net;
  constexpr int kThreads = 4, kTimes = 50;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kThreads; ++i) {
    net.w.ZeroGrad();
    Backward(net.Loss(i));
    expected.push_back(net.w.grad().ToVector<float>());
  }
  std::vector<int> same(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      LeafGradients own(net.leaves());
      const ContextScope apart(&OpContext::leaf_gradients, &own);
      for (int time = 0; time < kTimes; ++time) {
        Backward(net.Loss(i));
        same[static_cast<size_t>(i)] += own.Take(0).ToVector<float>() == expected[static_cast<size_t>(i)];
        own.Take(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, std::vector<int>(kThreads, kTimes));
}

using enum Variable::RequiresGrad;

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

TEST(FiniteCheckTest, TheFirstResultOrGradientThatIsNotFiniteIsNamedWithItsLayer) {
  const Variable x(Tensor::FromValues<double>({3}, {1.0, -1.0, 2.0}), kYes);
  const Variable zero(Tensor::FromValues<double>({2}, {1.0, 0.0}), kYes);
  const ContextScope encoder = InLayer("encoder");
  const Variable y = [&] {
    const ContextScope layer = InLayer("block_3");
    return Sum(Sqrt(zero));
  }();
  const ContextScope check(&OpContext::finite_checks, true);
  testing::ExpectRefused(
      {{"a result", [&] { Log(x); }, {"encoder: the result of op log has nan at [1] of [3]"}},
       {"a gradient", [&] { Backward(y); }, {"encoder.block_3: the gradient of op sqrt has inf at [1] of [2]"}}},
      ErrorKind::kNumerical);
}

TEST(FiniteCheckTest, AMaskMayWriteMinusInfinity) {
  const ContextScope check(&OpContext::finite_checks, true);
  const Variable x(Tensor::FromValues<double>({2}, {1.0, 2.0}), kYes);
  const Tensor mask = Tensor::FromValues<uint8_t>({2}, {0, 1});
  const Variable y = Softmax(Reshape(MaskedFill(x, mask, -HUGE_VAL), {2}));  // and reshape may pass it on
  EXPECT_EQ(y.value().ToVector<double>(), (std::vector<double>{1, 0}));
  Backward(Sum(Square(y)));
}

}  // namespace tape_test
}  // namespace crosstalk
