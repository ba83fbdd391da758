#include <gtest/gtest.h>

#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_index_test {

using testing::MessageOf;
using testing::RandomTensor;
using testing::Strided;

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

}  // namespace ops_index_test
}  // namespace crosstalk
