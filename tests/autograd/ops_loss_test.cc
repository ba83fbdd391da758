#include "crosstalk/autograd/ops_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace {

using testing::MessageOf;
using testing::RandomTensor;
using enum Variable::RequiresGrad;

const Tensor kTargets = Tensor::FromValues<int32_t>({5}, {8, 0, 3, 0, 5});

TEST(CrossEntropyTest, EqualsItsFormula) {
  const Tensor logits = RandomTensor("logits", {5, 9}, -3, 3);
  for (const bool ignore : {false, true}) {
    CrossEntropyOptions options;
    if (ignore) options.ignore_index = 0;
    options.z_loss = 0.25;
    const CrossEntropyResult result = CrossEntropy(Variable(logits), kTargets, options);
    double nll = 0, loss = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < 5; ++i) {
      const int64_t target = kTargets.ToVector<int32_t>()[static_cast<size_t>(i)];
      if (ignore && target == 0) continue;
      double z = 0;
      for (int64_t c = 0; c < 9; ++c) z += std::exp(logits.At({i, c}));
      const double row = std::log(z) - logits.At({i, target});
      nll += row;
      loss += row + 0.25 * std::log(z) * std::log(z);
      ++count;
    }
    EXPECT_EQ(result.count, count);
    EXPECT_NEAR(result.nll_sum, nll, 1e-13);
    EXPECT_NEAR(result.loss.value().Item(), loss, 1e-13);
  }
}

TEST(CrossEntropyTest, IgnoredRowsHaveNoGradient) {
  const Variable logits(RandomTensor("logits", {5, 9}), kYes);
  CrossEntropyOptions options;
  options.ignore_index = 0;
  options.z_loss = 0.25;
  Backward(CrossEntropy(logits, kTargets, options).loss);
  for (int64_t c = 0; c < 9; ++c) {
    EXPECT_EQ(logits.grad().At({1, c}), 0);
    EXPECT_EQ(logits.grad().At({3, c}), 0);
    EXPECT_NE(logits.grad().At({2, c}), 0);
  }
}

TEST(CrossEntropyTest, TheGradientOverwritesOnlyLogitsThatNobodyHolds) {
  const Variable x(RandomTensor("logits", {5, 9}), kYes);
  const Variable held = Scale(x, 2);
  const std::vector<double> before = held.value().ToVector<double>();
  Backward(CrossEntropy(held, kTargets).loss);
  EXPECT_EQ(held.value().ToVector<double>(), before);
  const Tensor expected = x.grad();
  x.ZeroGrad();
  Backward(CrossEntropy(Scale(x, 2), kTargets).loss);
  EXPECT_EQ(x.grad().ToVector<double>(), expected.ToVector<double>());
}

// 150 rows of 65,537 classes are three chunks: 64, 64 and 22 rows.
TEST(LinearCrossEntropyTest, EqualsTheUnfusedLossOverSeveralChunks) {
  constexpr int64_t kRows = 150, kClasses = 65537, kD = 3;
  const Tensor hidden = RandomTensor("hidden", {kRows, kD}), table = RandomTensor("table", {kClasses, kD});
  std::vector<int32_t> ids(kRows);
  for (int64_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7919 % kClasses);
  const Tensor targets = Tensor::FromValues<int32_t>({kRows}, ids);
  CrossEntropyOptions options;
  options.ignore_index = 0;
  options.z_loss = 0.01;
  const Variable h1(hidden, kYes), t1(table, kYes), h2(hidden, kYes), t2(table, kYes);
  const CrossEntropyResult fused = LinearCrossEntropy(h1, t1, targets, 0.5, options);
  const CrossEntropyResult plain =
      CrossEntropy(Scale(MatMul(h2, t2, kernels::Transpose::kNo, kernels::Transpose::kYes), 0.5), targets, options);
  EXPECT_EQ(fused.count, plain.count);
  EXPECT_EQ(fused.count, kRows - 1);
  // Sums of 150 rows of about 11: relative rounding 150 · 2^-53, and a margin for the exponentials.
  EXPECT_NEAR(fused.nll_sum, plain.nll_sum, 1e-12 * plain.nll_sum);
  EXPECT_NEAR(fused.loss.value().Item(), plain.loss.value().Item(), 1e-12 * plain.loss.value().Item());
  Backward(fused.loss);
  Backward(plain.loss);
  const auto expect_near = [](const Tensor& a, const Tensor& b) {
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      worst = std::max(worst, std::abs(a.data<double>()[i] - b.data<double>()[i]));
      largest = std::max(largest, std::abs(b.data<double>()[i]));
    }
    EXPECT_LE(worst, 1e-12 * largest);
    EXPECT_GT(largest, 0);
  };
  expect_near(h1.grad(), h2.grad());
  expect_near(t1.grad(), t2.grad());
}

TEST(LinearCrossEntropyTest, RowsBeyondTheClassesTakeNoPart) {
  const Tensor hidden = RandomTensor("hidden", {5, 3}), table = RandomTensor("table", {11, 3});
  const Tensor targets = Tensor::FromValues<int32_t>({5}, std::vector<int32_t>{0, 6, 3, 3, 1});
  const CrossEntropyOptions options = {.z_loss = 0.01, .num_classes = 7};
  const Variable h1(hidden, kYes), t1(table, kYes), h2(hidden, kYes), t2(table.Slice(0, 0, 7).Contiguous(), kYes);
  const CrossEntropyResult part = LinearCrossEntropy(h1, t1, targets, 0.5, options);
  const CrossEntropyResult whole = LinearCrossEntropy(h2, t2, targets, 0.5, {.z_loss = 0.01});
  EXPECT_EQ(part.nll_sum, whole.nll_sum);
  Backward(part.loss);
  Backward(whole.loss);
  EXPECT_EQ(h1.grad().ToVector<double>(), h2.grad().ToVector<double>());
  EXPECT_EQ(t1.grad().Slice(0, 0, 7).Contiguous().ToVector<double>(), t2.grad().ToVector<double>());
  for (const double d : t1.grad().Slice(0, 7, 11).Contiguous().ToVector<double>()) EXPECT_EQ(d, 0);
  EXPECT_THROW(LinearCrossEntropy(h1, t2, targets, 0.5, {.num_classes = 8}), Error);
  EXPECT_THROW(LinearCrossEntropy(h1, t1, targets, 0.5, {.num_classes = 6}), Error);
}

TEST(LinearCrossEntropyTest, GivesOnlyTheGradientsThatAreNeeded) {
  const Variable hidden(RandomTensor("hidden", {5, 7}), kYes), table(RandomTensor("table", {9, 7}));
  Backward(LinearCrossEntropy(hidden, table, kTargets, 1).loss);
  EXPECT_TRUE(hidden.grad().defined());
}

TEST(LossErrorTest, MistakesAreNamed) {
  const Variable logits(Tensor::Zeros({5, 4}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] { CrossEntropy(logits, kTargets); }),
            "cross_entropy: target 8 in row 0 is not a class in [0, 4)");
  EXPECT_EQ(MessageOf([&] { CrossEntropy(logits, Tensor::Zeros({3}, DType::kInt32)); }),
            "cross_entropy: targets[rows] = [3], but rows=5");
  EXPECT_EQ(MessageOf([&] { CrossEntropy(logits, logits.value()); }), "cross_entropy: targets must be int32 or int64");
  const Variable table(Tensor::Zeros({9, 7}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] { LinearCrossEntropy(logits, table, kTargets, 1); }),
            "linear_cross_entropy: table[classes, d] = [9, 7] has d=7, but d=4 in hidden[rows, d] = [5, 4]");
}

}  // namespace
}  // namespace crosstalk
