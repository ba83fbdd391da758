// Gradients apart from the leaves': the same bits, for several threads at once, and the leaves' own stay as they are.
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace leaf_gradients_test {

Variable Leaf(const Shape& shape, double first, Variable::RequiresGrad requires_grad = Variable::RequiresGrad::kYes) {
  Tensor value = Tensor::Empty(shape, DType::kFloat32);
  for (int64_t i = 0; i < value.num_elements(); ++i) {
    value.data<float>()[i] = static_cast<float>(first + 0.37 * static_cast<double>(i));
  }
  return Variable(value, requires_grad);
}

struct Net {
  Variable w = Leaf({3, 5}, -1), v = Leaf({5, 2}, 0.5), frozen = Leaf({3, 5}, 2, Variable::RequiresGrad::kNo);
  std::vector<Variable> leaves() const { return {w, v, frozen, w}; }
  // w twice, once recomputed.
  Variable Loss(double x) const {
    const Variable input = Leaf({4, 3}, x, Variable::RequiresGrad::kNo);
    const Variable hidden =
        Recompute([this](const std::vector<Variable>& in) { return Tanh(MatMul(in[0], Mul(w, frozen))); }, {input});
    return Sum(Tanh(MatMul(Add(hidden, MatMul(input, w)), v)));
  }
};

TEST(LeafGradientsTest, TheyAreThoseOfTheLeaves) {
  const Net net;
  Backward(net.Loss(0.1));
  const std::vector<float> dw = net.w.grad().ToVector<float>(), dv = net.v.grad().ToVector<float>();
  LeafGradients own(net.leaves());
  {
    const ContextScope apart(&OpContext::leaf_gradients, &own);
    Backward(net.Loss(0.1));
  }
  EXPECT_EQ(net.w.grad().ToVector<float>(), dw) << "the leaf's own stays as it is";
  EXPECT_EQ(own.Take(0).ToVector<float>(), dw);
  EXPECT_EQ(own.Take(1).ToVector<float>(), dv);
  EXPECT_FALSE(own.Take(2).defined()) << "it requires none";
  EXPECT_FALSE(own.Take(3).defined()) << "leaf 0 again, which was taken";
}

TEST(LeafGradientsTest, OtherLeavesKeepTheirs) {
  const Net net;
  LeafGradients own(std::vector<Variable>{net.w});
  const ContextScope apart(&OpContext::leaf_gradients, &own);
  Backward(net.Loss(0.1));
  EXPECT_FALSE(net.w.grad().defined());
  EXPECT_TRUE(net.v.grad().defined());
  EXPECT_TRUE(own.Take(0).defined());
}

TEST(LeafGradientsTest, TwoBackwardsAddUp) {
  const Net net;
  Backward(net.Loss(0.1));
  Backward(net.Loss(0.7));
  LeafGradients own(net.leaves());
  {
    const ContextScope apart(&OpContext::leaf_gradients, &own);
    Backward(net.Loss(0.1));
    Backward(net.Loss(0.7));
  }
  EXPECT_EQ(own.Take(0).ToVector<float>(), net.w.grad().ToVector<float>());
  Backward(net.Loss(0.7));  // with the leaves' own again
  EXPECT_FALSE(own.Take(0).defined());
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

TEST(LeafGradientsTest, AResultIsNoLeaf) {
  const Net net;
  EXPECT_NE(testing::MessageOf([&] { LeafGradients(std::vector<Variable>{net.Loss(1)}); }).find("result of an op"),
            std::string::npos);
}

}  // namespace leaf_gradients_test
}  // namespace crosstalk
