#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_reduce_test {

using testing::MessageOf;
using testing::RandomTensor;
using testing::Strided;

// f(accumulated, value) over the dimensions in `dims`, all kept.
Tensor ReduceByLoops(const Tensor& x, const std::vector<int>& dims, double start, double (*f)(double, double)) {
  Shape shape = x.shape();
  for (const int dim : dims) shape[dim < 0 ? dim + x.rank() : dim] = 1;
  const Tensor y = Tensor::Full(shape, start, DType::kFloat64);
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      for (int64_t k = 0; k < x.size(2); ++k) {
        const int64_t at = ((i % shape[0]) * shape[1] + j % shape[1]) * shape[2] + k % shape[2];
        y.data<double>()[at] = f(y.data<double>()[at], x.At({i, j, k}));
      }
    }
  }
  return y;
}

void ExpectNear(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  const std::vector<double> a = actual.ToVector<double>(), b = expected.ToVector<double>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-13) << "element " << i;  // ~100 additions of ~1
}

TEST(ReduceTest, SumsMeansAndMaximaEqualLoopsOverAnyDimensions) {
  const Tensor contiguous = RandomTensor("x", {3, 5, 7});
  const std::vector<std::vector<int>> all_dims = {{0}, {1}, {2}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {-1}, {-1, 0}};
  for (const Tensor& x : {contiguous, Strided(contiguous)}) {
    for (const std::vector<int>& dims : all_dims) {
      const Tensor sum = ReduceByLoops(x, dims, 0, [](double a, double b) { return a + b; });
      ExpectNear(Sum(Variable(x), dims, KeepDims::kYes).value(), sum);
      const double count = static_cast<double>(x.num_elements() / sum.num_elements());
      ExpectNear(Mean(Variable(x), dims, KeepDims::kYes).value(), math::Scale(sum, 1 / count));
      const Tensor max = ReduceByLoops(x, dims, -9, [](double a, double b) { return a > b ? a : b; });
      ExpectNear(Max(Variable(x), dims, KeepDims::kYes).value(), max);
      const Tensor dropped = Sum(Variable(x), dims).value();
      EXPECT_EQ(dropped.rank(), 3 - static_cast<int>(dims.size()));
      EXPECT_EQ(dropped.ToVector<double>(), Sum(Variable(x), dims, KeepDims::kYes).value().ToVector<double>());
    }
  }
}

TEST(SoftmaxTest, EqualsItsFormulaOverEveryDimension) {
  const Tensor x = RandomTensor("x", {3, 5, 7}, -5, 5);
  for (const int dim : {0, 1, 2, -1}) {
    const Tensor exps = math::Contiguous(x).Clone();
    for (int64_t i = 0; i < exps.num_elements(); ++i) exps.data<double>()[i] = std::exp(exps.data<double>()[i]);
    const Tensor sums = ReduceByLoops(exps, {dim}, 0, [](double a, double b) { return a + b; });
    ExpectNear(Softmax(Variable(x), dim).value(), math::Div(exps, sums));
    const Tensor logs = sums.Clone();
    for (int64_t i = 0; i < logs.num_elements(); ++i) logs.data<double>()[i] = std::log(sums.data<double>()[i]);
    ExpectNear(LogSumExp(Variable(x), dim, KeepDims::kYes).value(), logs);
    ExpectNear(LogSoftmax(Variable(x), dim).value(), math::Sub(x, logs));
  }
}

// Of 1e8 a float has no digits after the point, and double of 1e17 neither.
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

TEST(ReduceTest, WrongDimensionsAreNamed) {
  const Variable x(Tensor::Zeros({3, 5}, DType::kFloat32));
  const auto message = [&](const std::vector<int>& dims) { return MessageOf([&] { Sum(x, dims); }); };
  EXPECT_EQ(message({2}), "sum: dimension 2 of a tensor of shape [3, 5]");
  EXPECT_EQ(message({1, -1}), "sum: dimension -1 is named twice for shape [3, 5]");
  EXPECT_THROW(Max(Variable(Tensor::Zeros({0}, DType::kFloat32))), Error);
}

}  // namespace ops_reduce_test
}  // namespace crosstalk
