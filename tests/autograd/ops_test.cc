// What definitions_test.cc cannot say of the ops: extremes, what only some inputs need, what is counted, and mistakes.
#include "crosstalk/autograd/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/close.h"
#include "tests/support/grad_cases.h"
#include "tests/support/kernel_test.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_test {

using testing::RandomTensor;
using enum Variable::RequiresGrad;

const Tensor kTargets = Tensor::FromValues<int32_t>({5}, {8, 0, 3, 0, 5});

TEST(EmbeddingPaddingTest, ALookUpOfPaddingGivesItsRowNoGradient) {
  const Variable table = Variable(Tensor::Full({4, 3}, 2.0, DType::kFloat64), Variable::RequiresGrad::kYes);
  const Tensor ids = Tensor::FromValues<int32_t>({5}, {1, 3, 1, 0, 3});
  const Variable y = Embedding(table, ids, 1);
  EXPECT_EQ(y.value().At({0, 2}), 2.0);
  Backward(Sum(y));
  EXPECT_EQ(table.grad().ToVector<double>(), (std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2}));
}

// A float of 1e8 has no digits after the point, and neither has a double of 1e17.
TEST(SoftmaxTest, LogSoftmaxKeepsItsDigitsAtAnyMagnitude) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const double size : {1.0, 1e4, 1e8, 1e17, 1e30}) {
      const Variable x(Tensor::FromValues<double>({2, 2}, {size, size, -size, -size}).To(dtype),
                       Variable::RequiresGrad::kYes);
      const Variable y = LogSoftmax(x);
      for (const double value : y.value().To(DType::kFloat64).ToVector<double>()) {
        EXPECT_NEAR(value, -std::log(2.0), 1e-6) << size;
      }
      Backward(y, Tensor::FromValues<double>({2, 2}, {1, 0, 0, 2}).To(dtype));
      const std::vector<double> dx = x.grad().To(DType::kFloat64).ToVector<double>();
      const std::vector<double> expected = {0.5, -0.5, -1, 1};
      for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(dx[i], expected[i], 1e-6) << size;
    }
  }
}

TEST(SoftmaxTest, AWhollyMaskedRowGivesZerosAndZeroGradients) {
  const double inf = std::numeric_limits<double>::infinity();
  const Variable x(Tensor::FromValues<double>({2, 3}, {-inf, -inf, -inf, 1, -inf, 1}), Variable::RequiresGrad::kYes);
  const Variable y = Softmax(x);
  EXPECT_EQ(y.value().ToVector<double>(), (std::vector<double>{0, 0, 0, 0.5, 0, 0.5}));
  Backward(y, RandomTensor("dy", {2, 3}));
  const std::vector<double> dx = x.grad().ToVector<double>();
  for (const int i : {0, 1, 2, 4}) EXPECT_EQ(dx[static_cast<size_t>(i)], 0) << i;
  EXPECT_TRUE(std::isfinite(dx[3]) && std::isfinite(dx[5]));
}

const RandomKey kKey = {3, 5, 7};

TEST(DropoutTest, ElementIIsDecidedByTheKeyAndI) {
  const Tensor x = testing::RandomTensor("x", {5, 13}, 1, 2);
  const Tensor y = Dropout(Variable(x), 0.3, kKey).value();
  int64_t dropped = 0;
  for (int64_t i = 0; i < 65; ++i) {
    const bool drop = static_cast<double>(Uniform(kKey, static_cast<uint64_t>(i))) < 0.3;
    dropped += drop;
    EXPECT_NEAR(y.data<double>()[i], drop ? 0 : x.data<double>()[i] / 0.7, 1e-15 * 4) << i;
  }
  EXPECT_GT(dropped, 8);  // of 65, expected 19.5, standard deviation 3.7
  EXPECT_LT(dropped, 31);
  EXPECT_TRUE(Dropout(Variable(x), 0, kKey).value().SharesStorageWith(x));
}

TEST(GradientsTest, OnlyThoseThatAreNeededAreGiven) {
  const Variable a(RandomTensor("a", {5, 7})), b(RandomTensor("b", {9, 7})), bias(RandomTensor("bias", {9}), kYes);
  Backward(MatMulAdd(a, Variable(b.value().Transpose(0, 1)), bias), RandomTensor("dy", {5, 9}));
  EXPECT_TRUE(bias.grad().defined());
  const Variable hidden(a.value(), kYes), other_bias(bias.value(), kYes);
  Backward(LinearCrossEntropy(hidden, b, kTargets, 1).loss);
  EXPECT_TRUE(hidden.grad().defined());
  Backward(LinearCrossEntropy(a, b, kTargets, 1, {}, other_bias).loss);
  EXPECT_TRUE(other_bias.grad().defined());
}

TEST(CrossEntropyTest, CountsRowsWhoseTargetIsLargest) {
  const Tensor logits = Tensor::FromValues<double>({4, 3}, {5, 1, 0, 1, 7, 7, 2, 1, 9, 4, 4, 4});
  const auto result = [&](std::vector<int32_t> targets) {
    return CrossEntropy(Variable(logits), Tensor::FromValues<int32_t>({4}, targets), {.ignore_index = 2, .z_loss = 1});
  };
  EXPECT_EQ(result({0, 1, 2, 0}).correct, 3);  // the third row is not counted
  EXPECT_EQ(result({0, 1, 2, 0}).count, 3);
  EXPECT_EQ(result({0, 0, 0, 1}).correct, 1);  // of equal logits the first class is the largest
  EXPECT_EQ(result({1, 0, 0, 1}).correct, 0);
  EXPECT_EQ(result({1, 0, 0, 1}).count, 4);
  EXPECT_NEAR(result({2, 2, 2, 1}).nll_sum, std::log(3.0), 1e-15);  // without the z-loss
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
  std::vector<int32_t> ids(kRows);
  for (int64_t i = 0; i < kRows; ++i) ids[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7919 % kClasses);
  const Tensor targets = Tensor::FromValues<int32_t>({kRows}, ids);
  const CrossEntropyOptions options = {.ignore_index = 0, .z_loss = 0.01};
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    // Sums of 150 rows of about 11: relative rounding 150 · 2^-53, and a margin for the exponentials; in float a few
    // roundings of 2^-24.
    const double bound = dtype == DType::kFloat64 ? 1e-12 : 1e-5;
    for (const bool with_bias : {false, true}) {
      std::vector<CrossEntropyResult> results;
      std::vector<std::vector<Variable>> leaves;
      for (const bool fused : {true, false}) {
        const Variable hidden(RandomTensor("hidden", {kRows, kD}).To(dtype), kYes),
            table(RandomTensor("table", {kClasses, kD}).To(dtype), kYes),
            bias = with_bias ? Variable(RandomTensor("bias", {kClasses}, -0.1, 0.1).To(dtype), kYes) : Variable();
        Variable logits;
        if (!fused) logits = Scale(MatMul(hidden, table, kernels::Transpose::kNo, kernels::Transpose::kYes), 0.5);
        if (!fused && with_bias) logits = Add(logits, bias);
        results.push_back(fused ? LinearCrossEntropy(hidden, table, targets, 0.5, options, bias)
                                : CrossEntropy(logits, targets, options));
        Backward(results.back().loss);
        leaves.push_back({hidden, table});
        if (with_bias) leaves.back().push_back(bias);
      }
      EXPECT_EQ(results[0].count, kRows - 1);
      EXPECT_EQ(results[0].count, results[1].count);
      EXPECT_EQ(results[0].correct, results[1].correct);
      EXPECT_NEAR(results[0].nll_sum, results[1].nll_sum, bound * results[1].nll_sum);
      const double loss = results[1].loss.value().Item();
      EXPECT_NEAR(results[0].loss.value().Item(), loss, bound * loss);
      for (size_t i = 0; i < leaves[0].size(); ++i) {
        const auto gradient = [i](const auto& of) {
          return of[i].grad().To(DType::kFloat64).template ToVector<double>();
        };
        EXPECT_TRUE(testing::CloseToLargest(gradient(leaves[0]), gradient(leaves[1]), bound)) << i;
      }
    }
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
  kernels::ExpectSameBitsOnAnyThreads(compute);
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

TEST(MistakesTest, AreNamed) {
  const auto zeros = [](auto... sizes) { return Variable(Tensor::Zeros({sizes...}, DType::kFloat32)); };
  const auto doubles = [](auto... sizes) { return Variable(Tensor::Zeros({sizes...}, DType::kFloat64)); };
  const auto index = [](auto... sizes) { return Tensor::Zeros({sizes...}, DType::kInt32); };
  const auto ints = [](auto... values) {
    return Tensor::FromValues<int64_t>({sizeof...(values)}, std::vector<int64_t>{values...});
  };
  const Variable a = zeros(3, 5), four = zeros(4), table = zeros(5, 7), logits = zeros(5, 4), wide = zeros(9, 7);
  const Variable endless(Tensor::Zeros({1}, DType::kFloat32).BroadcastTo({3'000'000'000}));
  const Tensor mask = Tensor::Zeros({3, 1}, DType::kBool);
  const std::vector<Variable> parts = {a, zeros(4, 7)}, no_parts;
  const std::vector<int> outside = {2}, twice = {1, -1};
  const CrossEntropyOptions ten{.num_classes = 10}, eight{.num_classes = 8};
  testing::ExpectRefused({
      {"add", [&] { Add(a, four); }, {"add", "[3, 5]"}},
      {"mul",
       [&] { Mul(a, doubles(3, 5)); },
       {"mul: float32[3, 5] and float64[3, 5] have different element types; convert one"}},
      {"gated shapes", [&] { GatedGelu(a, four); }, {"gated_gelu: gate[3, 5] and x[4] must have the same shape"}},
      {"gated types", [&] { GatedGelu(a, doubles(3, 5)); }, {"convert one"}},
      {"no mask", [&] { MaskedFill(a, a.value(), 0); }, {"masked_fill: the mask is float32[3, 5], not bool"}},
      {"mask", [&] { MaskedFill(four, mask, 0); }, {"a mask of shape [3, 1] does not broadcast to [4]"}},
      {"concat", [&] { Concat(parts, 1); }, {"concat: float32[4, 7] does not fit float32[3, 5] along dimension 1"}},
      {"no parts", [&] { Concat(no_parts, 1); }, {"concat: no tensors"}},
      {"embedding",
       [&] { Embedding(table, ints(0, 5, 1)); },
       {"embedding: index 5 at position 1 of ids[3] is not in [0, 5)"}},
      {"negative", [&] { Embedding(table, ints(-1)); }, {"index -1 at position 0 of ids[1] is not in [0, 5)"}},
      {"ids", [&] { Embedding(table, table.value()); }, {"embedding: indices must be int32 or int64"}},
      {"gather rank", [&] { Gather(table, 0, index(3)); }, {"gather: index[3] and x[5, 7] must have the same rank"}},
      {"gather", [&] { Gather(table, 0, index(3, 8)); }, {"gather: index[3, 8] is larger than x[5, 7] in dimension 1"}},
      {"endless",
       [&] { Gather(endless, 0, ints(2'999'999'999)); },
       {"gather: a dimension of 3000000000 is too long to be looked up; at most 2147483648 are"}},
      {"sum", [&] { Sum(a, outside); }, {"sum: dimension 2 of a tensor of shape [3, 5]"}},
      {"twice", [&] { Sum(a, twice); }, {"sum: dimension -1 is named twice for shape [3, 5]"}},
      {"max of nothing", [&] { Max(zeros(0)); }, {"max"}},
      {"matmul", [&] { MatMul(table, wide); }, {"matmul: A[5, 7] has k=7, but k=9 in B[9, 7]"}},
      {"transposed",
       [&] { MatMul(table, wide, kernels::Transpose::kYes); },
       {"matmul: A[5, 7] transposed has k=5, but k=9 in B[9, 7]"}},
      {"bias",
       [&] { MatMulAdd(table, zeros(7, 3), four); },
       {"matmul_add: bias[n] = [4] has n=4, but n=3 in B[k, n] = [7, 3]"}},
      {"types",
       [&] { MatMulAdd(table, zeros(7, 3), doubles(3)); },
       {"matmul_add: A is float32, B is float32 and the bias is float64; convert them to one"}},
      {"rms", [&] { RmsNorm(a, four, 1e-6); }, {"rms_norm: scale[d] = [4] does not fit x[…, d] = [3, 5]"}},
      {"layer", [&] { LayerNorm(a, four, four, 1e-6); }, {"layer_norm: scale[d] = [4] does not fit x[…, d] = [3, 5]"}},
      {"norm type", [&] { RmsNorm(a, doubles(5), 1e-6); }, {"rms_norm: scale is float64, but x is float32"}},
      {"dropout of all", [&] { Dropout(a, 1, kKey); }, {"dropout"}},
      {"less than none", [&] { Dropout(a, -0.1, kKey); }, {"dropout"}},
      {"class", [&] { CrossEntropy(logits, kTargets); }, {"cross_entropy: target 8 in row 0 is not a class in [0, 4)"}},
      {"rows", [&] { CrossEntropy(logits, index(3)); }, {"cross_entropy: targets[rows] = [3], but rows=5"}},
      {"targets", [&] { CrossEntropy(logits, logits.value()); }, {"cross_entropy: targets must be int32 or int64"}},
      {"d",
       [&] { LinearCrossEntropy(logits, wide, kTargets, 1); },
       {"linear_cross_entropy: table[classes, d] = [9, 7] has d=7, but d=4 in hidden[rows, d] = [5, 4]"}},
      {"loss bias",
       [&] { LinearCrossEntropy(table, wide, kTargets, 1, {}, logits); },
       {"linear_cross_entropy: bias is float32[5, 4], but must be float32[9], an element a class"}},
      {"keys before",
       [&] { ConvolveHeads(zeros(2, 3, 5, 7), zeros(1, 4, 3), -1); },
       {"head convolution: left=-1 is not one of the 4 keys of a filter"}},
      {"keys after", [&] { ConvolveHeads(zeros(2, 3, 5, 7), zeros(1, 4, 3), 4); }, {"left=4 is not one of the 4 keys"}},
      {"many classes", [&] { LinearCrossEntropy(table, wide, kTargets, 0.5, ten); }, {"10"}},
      {"few classes", [&] { LinearCrossEntropy(table, wide, kTargets, 0.5, eight); }, {"8"}},
  });
}

}  // namespace ops_test
}  // namespace crosstalk
