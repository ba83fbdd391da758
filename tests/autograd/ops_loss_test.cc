#include <gtest/gtest.h>

#include <cmath>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_loss_test {

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
    int64_t count = 0, correct = 0;
    for (int64_t i = 0; i < 5; ++i) {
      const int64_t target = kTargets.ToVector<int32_t>()[static_cast<size_t>(i)];
      if (ignore && target == 0) continue;
      double z = 0;
      bool largest = true;
      for (int64_t c = 0; c < 9; ++c) {
        z += std::exp(logits.At({i, c}));
        largest = largest && (c == target || logits.At({i, c}) < logits.At({i, target}));
      }
      correct += largest ? 1 : 0;
      const double row = std::log(z) - logits.At({i, target});
      nll += row;
      loss += row + 0.25 * std::log(z) * std::log(z);
      ++count;
    }
    EXPECT_EQ(result.count, count);
    EXPECT_EQ(result.correct, correct);
    EXPECT_NEAR(result.nll_sum, nll, 1e-13);
    EXPECT_NEAR(result.loss.value().Item(), loss, 1e-13);
  }
}

TEST(CrossEntropyTest, CountsRowsWhoseTargetIsLargest) {
  const Tensor logits = Tensor::FromValues<double>({4, 3}, {5, 1, 0, 1, 7, 7, 2, 1, 9, 4, 4, 4});
  const auto correct = [&](std::vector<int32_t> targets) {
    return CrossEntropy(Variable(logits), Tensor::FromValues<int32_t>({4}, targets), {.ignore_index = 2}).correct;
  };
  EXPECT_EQ(correct({0, 1, 2, 0}), 3);  // the third row is not counted
  EXPECT_EQ(correct({0, 0, 0, 1}), 1);  // of equal logits the first class is the largest
  EXPECT_EQ(correct({1, 0, 0, 1}), 0);
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
void ExpectTheUnfusedLoss(DType dtype, bool with_bias) {
  constexpr int64_t kRows = 150, kClasses = 65537, kD = 3;
  const Tensor hidden = RandomTensor("hidden", {kRows, kD}).To(dtype);
  const Tensor table = RandomTensor("table", {kClasses, kD}).To(dtype);
  const Tensor bias = RandomTensor("bias", {kClasses}, -0.1, 0.1).To(dtype);
  std::vector<int32_t> ids(kRows);
  for (int64_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7919 % kClasses);
  const Tensor targets = Tensor::FromValues<int32_t>({kRows}, ids);
  CrossEntropyOptions options;
  options.ignore_index = 0;
  options.z_loss = 0.01;
  const Variable h1(hidden, kYes), t1(table, kYes), h2(hidden, kYes), t2(table, kYes), b1(bias, kYes), b2(bias, kYes);
  const CrossEntropyResult fused = LinearCrossEntropy(h1, t1, targets, 0.5, options, with_bias ? b1 : Variable());
  Variable logits = Scale(MatMul(h2, t2, kernels::Transpose::kNo, kernels::Transpose::kYes), 0.5);
  if (with_bias) logits = Add(logits, b2);
  const CrossEntropyResult plain = CrossEntropy(logits, targets, options);
  EXPECT_EQ(fused.count, plain.count);
  EXPECT_EQ(fused.count, kRows - 1);
  EXPECT_EQ(fused.correct, plain.correct);
  // Sums of 150 rows of about 11: relative rounding 150 · 2^-53, and a margin for the exponentials; in float a few
  // roundings of 2^-24.
  const double bound = dtype == DType::kFloat64 ? 1e-12 : 1e-5;
  EXPECT_NEAR(fused.nll_sum, plain.nll_sum, bound * plain.nll_sum);
  EXPECT_NEAR(fused.loss.value().Item(), plain.loss.value().Item(), bound * plain.loss.value().Item());
  Backward(fused.loss);
  Backward(plain.loss);
  const auto expect_near = [bound](const Tensor& of_fused, const Tensor& of_plain) {
    const std::vector<double> a = of_fused.To(DType::kFloat64).ToVector<double>();
    const std::vector<double> b = of_plain.To(DType::kFloat64).ToVector<double>();
    double worst = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(a[i] - b[i]));
      largest = std::max(largest, std::abs(b[i]));
    }
    EXPECT_LE(worst, bound * largest);
    EXPECT_GT(largest, 0);
  };
  expect_near(h1.grad(), h2.grad());
  expect_near(t1.grad(), t2.grad());
  if (with_bias) expect_near(b1.grad(), b2.grad());
}
TEST(LinearCrossEntropyTest, EqualsTheUnfusedLossOverSeveralChunks) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    ExpectTheUnfusedLoss(dtype, false);
    ExpectTheUnfusedLoss(dtype, true);
  }
}

TEST(LinearCrossEntropyTest, SameBitsOnAnyThreads) {
  const Variable hidden(RandomTensor("hidden", {150, 7}).To(DType::kFloat32), kYes);
  const Variable table(RandomTensor("table", {3001, 7}).To(DType::kFloat32), kYes);
  const Variable bias(RandomTensor("bias", {3000}).To(DType::kFloat32), kYes);
  const Tensor targets = Tensor::Full({150}, 17, DType::kInt32);
  const auto compute = [&] {
    for (const Variable* one : {&hidden, &table, &bias}) one->ZeroGrad();
    Backward(LinearCrossEntropy(hidden, table, targets, 0.5, {.z_loss = 0.1, .num_classes = 3000}, bias).loss);
    std::vector<float> all;
    for (const Variable* one : {&hidden, &table, &bias}) {
      const std::vector<float> part = one->grad().ToVector<float>();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  const ThreadsScope one_thread(1);
  const std::vector<float> expected = compute();
  for (const int threads : {2, 3, 5, 8}) {
    const ThreadsScope scope(threads);
    EXPECT_EQ(compute(), expected) << threads << " threads";
  }
}

TEST(LinearCrossEntropyTest, RowsBeyondTheClassesTakeNoPart) {
  const Tensor hidden = RandomTensor("hidden", {5, 3}), table = RandomTensor("table", {11, 3});
  const Tensor targets = Tensor::FromValues<int32_t>({5}, std::vector<int32_t>{0, 6, 3, 3, 1});
  const CrossEntropyOptions options = {.z_loss = 0.01, .num_classes = 7};
  const Variable h1(hidden, kYes), t1(table, kYes), h2(hidden, kYes), t2(table.Slice(0, 0, 7).Contiguous(), kYes);
  const Tensor bias = RandomTensor("bias", {7});
  const Variable b1(bias, kYes), b2(bias, kYes);
  const CrossEntropyResult part = LinearCrossEntropy(h1, t1, targets, 0.5, options, b1);
  const CrossEntropyResult whole = LinearCrossEntropy(h2, t2, targets, 0.5, {.z_loss = 0.01}, b2);
  EXPECT_EQ(part.nll_sum, whole.nll_sum);
  Backward(part.loss);
  Backward(whole.loss);
  EXPECT_EQ(h1.grad().ToVector<double>(), h2.grad().ToVector<double>());
  EXPECT_EQ(b1.grad().ToVector<double>(), b2.grad().ToVector<double>());
  EXPECT_EQ(t1.grad().Slice(0, 0, 7).Contiguous().ToVector<double>(), t2.grad().ToVector<double>());
  for (const double d : t1.grad().Slice(0, 7, 11).Contiguous().ToVector<double>()) EXPECT_EQ(d, 0);
  EXPECT_THROW(LinearCrossEntropy(h1, t2, targets, 0.5, {.num_classes = 8}), Error);
  EXPECT_THROW(LinearCrossEntropy(h1, t1, targets, 0.5, {.num_classes = 6}), Error);
}

// The memory of a gradient that nothing is written to may have been another's.
TEST(LinearCrossEntropyTest, NoRowsGiveGradientsOfZero) {
  const Variable hidden(Tensor::Zeros({0, 3}, DType::kFloat64), kYes), table(RandomTensor("table", {11, 3}), kYes);
  const CrossEntropyResult loss = LinearCrossEntropy(hidden, table, Tensor::Zeros({0}, DType::kInt32), 1);
  EXPECT_EQ(loss.count, 0);
  Tensor::Full({11, 3}, 7, DType::kFloat64);
  Backward(loss.loss);
  EXPECT_EQ(table.grad().ToVector<double>(), std::vector<double>(33, 0));
}

TEST(LinearCrossEntropyTest, GivesOnlyTheGradientsThatAreNeeded) {
  const Variable hidden(RandomTensor("hidden", {5, 7}), kYes), table(RandomTensor("table", {9, 7}));
  Backward(LinearCrossEntropy(hidden, table, kTargets, 1).loss);
  EXPECT_TRUE(hidden.grad().defined());
  const Variable fixed(hidden.value()), bias(RandomTensor("bias", {9}), kYes);
  Backward(LinearCrossEntropy(fixed, table, kTargets, 1, {}, bias).loss);
  EXPECT_TRUE(bias.grad().defined());
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
  const Variable hidden(Tensor::Zeros({5, 7}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] { LinearCrossEntropy(hidden, table, kTargets, 1, {}, logits); }),
            "linear_cross_entropy: bias is float32[5, 4], but must be float32[9], an element a class");
}

}  // namespace ops_loss_test
}  // namespace crosstalk
