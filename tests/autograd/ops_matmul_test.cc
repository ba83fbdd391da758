#include "crosstalk/autograd/ops_matmul.h"

#include <gtest/gtest.h>

#include "crosstalk/runtime/shapes_only.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace {

using kernels::Transpose;
using testing::MessageOf;
using testing::RandomTensor;
using testing::Strided;

TEST(MatMulTest, EqualsLoopsForEveryTransposeBatchAndStride) {
  for (const bool flip_a : {false, true}) {
    for (const bool flip_b : {false, true}) {
      for (const bool strided : {false, true}) {
        // A[3, 1, 5, 7] · B[11, 7, 9] = C[3, 11, 5, 9]
        Tensor a = RandomTensor("a", flip_a ? Shape{3, 1, 7, 5} : Shape{3, 1, 5, 7});
        Tensor b = RandomTensor("b", flip_b ? Shape{11, 9, 7} : Shape{11, 7, 9});
        if (strided) {
          a = Strided(a);
          b = Strided(b);
        }
        const Tensor c = MatMul(Variable(a), Variable(b), flip_a ? Transpose::kYes : Transpose::kNo,
                                flip_b ? Transpose::kYes : Transpose::kNo)
                             .value();
        ASSERT_EQ(c.shape(), Shape({3, 11, 5, 9}));
        for (int64_t p = 0; p < 3; ++p) {
          for (int64_t q = 0; q < 11; ++q) {
            for (int64_t i = 0; i < 5; ++i) {
              for (int64_t j = 0; j < 9; ++j) {
                double sum = 0;
                for (int64_t k = 0; k < 7; ++k) {
                  sum +=
                      (flip_a ? a.At({p, 0, k, i}) : a.At({p, 0, i, k})) * (flip_b ? b.At({q, j, k}) : b.At({q, k, j}));
                }
                // 7 products below 1: 7 · 2^-53 and a margin.
                ASSERT_NEAR(c.At({p, q, i, j}), sum, 1e-14);
              }
            }
          }
        }
      }
    }
  }
}

TEST(MatMulTest, CountsItsMultiplications) {
  const ShapesOnlyScope scope;
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::Zeros(shape, DType::kFloat32)); };
  MatMul(zeros({2, 3, 5}), zeros({2, 5, 7}));
  EXPECT_EQ(scope.Multiplications(), 2 * 3 * 5 * 7);
  MatMul(zeros({5, 3}), zeros({2, 7, 5}), Transpose::kYes, Transpose::kYes);
  EXPECT_EQ(scope.Multiplications(), 2 * (2 * 3 * 5 * 7));
}

TEST(MatMulTest, LeadingDimensionsOfOneStay) {
  const Tensor a = RandomTensor("a", {1, 1, 5, 7}), b = RandomTensor("b", {1, 7, 9});
  const Tensor c = MatMul(Variable(a), Variable(b)).value();
  ASSERT_EQ(c.shape(), Shape({1, 1, 5, 9}));
  const Tensor plain = MatMul(Variable(a.Reshape({5, 7})), Variable(b.Reshape({7, 9}))).value();
  EXPECT_EQ(c.ToVector<double>(), plain.ToVector<double>());
}

TEST(MatMulTest, SizesThatDifferAreNamed) {
  const Variable a(Tensor::Zeros({5, 7}, DType::kFloat32)), b(Tensor::Zeros({9, 3}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] { MatMul(a, b); }), "matmul: A[5, 7] has k=7, but k=9 in B[9, 3]");
  EXPECT_EQ(MessageOf([&] { MatMul(a, b, Transpose::kYes); }),
            "matmul: A[5, 7] transposed has k=5, but k=9 in B[9, 3]");
}

}  // namespace
}  // namespace crosstalk
