#include <gtest/gtest.h>

#include "crosstalk/autograd/ops.h"
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

}  // namespace ops_shape_test
}  // namespace crosstalk
