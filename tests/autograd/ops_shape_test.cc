#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_shape_test {

using testing::MessageOf;
using testing::RandomTensor;
using testing::Strided;

TEST(ShapeOpsTest, ConcatPutsPartsBehindEachOther) {
  const Tensor a = RandomTensor("a", {3, 2, 5}), b = Strided(RandomTensor("b", {3, 4, 5}));
  const Tensor y = Concat({Variable(a), Variable(b)}, -2).value();
  ASSERT_EQ(y.shape(), Shape({3, 6, 5}));
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      for (int64_t k = 0; k < 5; ++k) {
        EXPECT_EQ(y.At({i, j, k}), j < 2 ? a.At({i, j, k}) : b.At({i, j - 2, k}));
      }
    }
  }
}

TEST(ShapeOpsTest, ReshapeOfAPermutedTensorKeepsRowMajorOrder) {
  const Tensor a = RandomTensor("a", {3, 5, 7});
  const Variable y = Reshape(Permute(Variable(a), {2, 0, 1}), {-1, 5});
  ASSERT_EQ(y.shape(), Shape({21, 5}));
  for (int64_t i = 0; i < 21; ++i) {
    for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(y.value().At({i, j}), a.At({i % 3, j, i / 3}));
  }
}

TEST(ShapeOpsTest, ConcatOfShapesThatDoNotFitIsNamed) {
  const Variable a(Tensor::Zeros({3, 5}, DType::kFloat32)), b(Tensor::Zeros({4, 7}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] {
              Concat({a, b}, 1);
            }),
            "concat: float32[4, 7] does not fit float32[3, 5] along dimension 1");
  EXPECT_EQ(MessageOf([&] { Concat({}, 1); }), "concat: no tensors");
}

TEST(EmbeddingTest, LooksUpRows) {
  const Tensor table = Strided(RandomTensor("table", {5, 7}));
  const Tensor ids = Tensor::FromValues<int64_t>({2, 3}, {4, 0, 1, 1, 3, 4});
  const Tensor y = Embedding(Variable(table), ids).value();
  ASSERT_EQ(y.shape(), Shape({2, 3, 7}));
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t k = 0; k < 7; ++k) EXPECT_EQ(y.At({i / 3, i % 3, k}), table.At({ids.ToVector<int64_t>()[i], k}));
  }
}

TEST(TakeTest, PutsTheIndicesWhereTheDimensionWas) {
  const Tensor x = RandomTensor("x", {3, 5, 7});
  const Tensor ids = Tensor::FromValues<int32_t>({2, 2}, {4, 0, 1, 4});
  const Tensor y = Take(Variable(x), 1, ids).value();
  ASSERT_EQ(y.shape(), Shape({3, 2, 2, 7}));
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t k = 0; k < 7; ++k) {
        EXPECT_EQ(y.At({i, j / 2, j % 2, k}), x.At({i, ids.ToVector<int32_t>()[j], k}));
      }
    }
  }
}

TEST(TakeTest, TakesAlongTheLastDimension) {
  const Tensor x = RandomTensor("x", {3, 7, 5});
  const Tensor ids = Tensor::FromValues<int32_t>({2}, {4, 1});
  const Tensor y = Take(Variable(x), -1, ids).value();
  ASSERT_EQ(y.shape(), Shape({3, 7, 2}));
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t k = 0; k < 7; ++k) {
      EXPECT_EQ(y.At({i, k, 0}), x.At({i, k, 4}));
      EXPECT_EQ(y.At({i, k, 1}), x.At({i, k, 1}));
    }
  }
}

TEST(GatherTest, PicksAlongTheDimension) {
  const Tensor x = RandomTensor("x", {3, 5});
  const Tensor index = Tensor::FromValues<int32_t>({2, 3}, {4, 0, 1, 1, 1, 3});
  const Tensor y = Gather(Variable(x), 1, index).value();
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(y.At({i / 3, i % 3}), x.At({i / 3, index.ToVector<int32_t>()[static_cast<size_t>(i)]}));
  }
}

TEST(EmbeddingPaddingTest, ALookUpOfPaddingGivesItsRowNoGradient) {
  const Variable table = Variable(Tensor::Full({4, 3}, 2.0, DType::kFloat64), Variable::RequiresGrad::kYes);
  const Tensor ids = Tensor::FromValues<int32_t>({5}, {1, 3, 1, 0, 3});
  const Variable y = Embedding(table, ids, 1);
  EXPECT_EQ(y.value().At({0, 2}), 2.0);
  Backward(Sum(y));
  EXPECT_EQ(table.grad().ToVector<double>(), (std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2}));
}

TEST(IndexErrorTest, AnIndexOutOfRangeIsNamedWithItsPlace) {
  const Variable table(Tensor::Zeros({5, 7}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] {
              Embedding(table, Tensor::FromValues<int32_t>({3}, {0, 5, 1}));
            }),
            "embedding: index 5 at position 1 of ids[3] is not in [0, 5)");
  EXPECT_EQ(MessageOf([&] { Embedding(table, Tensor::FromValues<int64_t>({1}, {-1})); }),
            "embedding: index -1 at position 0 of ids[1] is not in [0, 5)");
  EXPECT_EQ(MessageOf([&] { Embedding(table, table.value()); }), "embedding: indices must be int32 or int64");
  EXPECT_EQ(MessageOf([&] { Gather(table, 0, Tensor::Zeros({3}, DType::kInt32)); }),
            "gather: index[3] and x[5, 7] must have the same rank");
  EXPECT_EQ(MessageOf([&] {
              Gather(table, 0, Tensor::Zeros({3, 8}, DType::kInt32));
            }),
            "gather: index[3, 8] is larger than x[5, 7] in dimension 1");
  const Variable endless(Tensor::Zeros({1}, DType::kFloat32).BroadcastTo({3'000'000'000}));
  EXPECT_EQ(MessageOf([&] { Gather(endless, 0, Tensor::Full({1}, 2'999'999'999.0, DType::kInt64)); }),
            "gather: a dimension of 3000000000 is too long to be looked up; at most 2147483648 are");
}

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

}  // namespace ops_shape_test
}  // namespace crosstalk
