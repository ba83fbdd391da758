#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/close.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_layer_test {

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

// In values and gradients, for few rows and many, of one block of k and of two. Small products may be added up in
// another order there: sums of k products of size 1, and of n or rows in the gradients.
TEST(MatMulAddTest, EqualsAProductAndAnAddition) {
  struct Sizes {
    int64_t rows, k, n;
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    for (const Sizes& s : {Sizes{5, 7, 3}, Sizes{61, 800, 37}, Sizes{100, 64, 513}, Sizes{0, 3, 2}, Sizes{3, 0, 2}}) {
      const auto run = [&](bool fused) {
        const auto leaf = [&](const char* name, const Shape& shape) {
          return Variable(RandomTensor(name, shape).To(dtype), Variable::RequiresGrad::kYes);
        };
        const Variable a = leaf("a", {s.rows, s.k}), b = leaf("b", {s.k, s.n}), bias = leaf("bias", {s.n});
        const Variable y = fused ? MatMulAdd(a, b, bias) : Add(MatMul(a, b), bias);
        Backward(y, RandomTensor("dy", {s.rows, s.n}).To(dtype));
        std::vector<Tensor> results = {y.value(), a.grad(), b.grad(), bias.grad()};
        for (Tensor& result : results) result = result.To(DType::kFloat64).Contiguous();
        return results;
      };
      const std::vector<Tensor> fused = run(true), plain = run(false);
      for (size_t i = 0; i < plain.size(); ++i) {
        const std::vector<double> x = fused[i].ToVector<double>(), y = plain[i].ToVector<double>();
        ASSERT_EQ(x.size(), y.size());
        const double terms = static_cast<double>(std::max({s.rows, s.k, s.n}) + 2);
        const double bound = terms * (dtype == DType::kFloat32 ? 0x1p-22 : 0x1p-51);
        for (size_t j = 0; j < y.size(); ++j) {
          ASSERT_NEAR(x[j], y[j], bound) << "result " << i << " of " << s.rows << " " << s.k << " " << s.n << " "
                                         << dtype;
        }
      }
    }
  }
}

TEST(MatMulAddTest, GivesOnlyTheGradientsThatAreNeeded) {
  const Variable a(RandomTensor("a", {5, 7})), b(RandomTensor("b", {7, 3}));
  const Variable bias(RandomTensor("bias", {3}), Variable::RequiresGrad::kYes);
  Backward(MatMulAdd(a, b, bias), RandomTensor("dy", {5, 3}));
  EXPECT_TRUE(bias.grad().defined());
}

// Leading dimensions are rows, and an input of several products has the sum of their gradients, whether a product adds
// its own within itself or not.
TEST(MatMulAddTest, LeadingDimensionsAreRows) {
  const Tensor a = RandomTensor("a", {2, 5, 7}), b = RandomTensor("b", {7, 3}), bias = RandomTensor("bias", {3});
  const Tensor dy = RandomTensor("dy", {2, 5, 3});
  const auto run = [&](bool flat) {
    const Variable x(a, Variable::RequiresGrad::kYes), w(b, Variable::RequiresGrad::kYes);
    const auto product = [&](const Variable& weight) {
      return flat ? Reshape(MatMulAdd(Reshape(x, {10, 7}), weight, Variable(bias)), {2, 5, 3})
                  : MatMulAdd(x, weight, Variable(bias));
    };
    const Variable y = Add(Add(product(w), product(w)), Add(MatMul(x, w), product(w)));
    Backward(y, dy);
    std::vector<Tensor> results = {y.value(), x.grad(), w.grad()};
    for (Tensor& result : results) result = result.To(DType::kFloat64).Contiguous();
    return results;
  };
  const std::vector<Tensor> flat = run(true), whole = run(false);
  for (size_t i = 0; i < flat.size(); ++i) {
    EXPECT_TRUE(testing::AllClose(whole[i].ToVector<double>(), flat[i].ToVector<double>(), {1e-5, 0})) << i;
  }
}

TEST(MatMulAddTest, MistakesAreNamed) {
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::Zeros(shape, DType::kFloat32)); };
  EXPECT_EQ(MessageOf([&] {
              MatMulAdd(zeros({5, 7}), zeros({7, 3}), zeros({4}));
            }),
            "matmul_add: bias[n] = [4] has n=4, but n=3 in B[k, n] = [7, 3]");
  EXPECT_EQ(MessageOf([&] {
              MatMulAdd(zeros({5, 7}), zeros({7, 3}), Variable(Tensor::Zeros({3}, DType::kFloat64)));
            }),
            "matmul_add: A is float32, B is float32 and the bias is float64; convert them to one");
}

TEST(MatMulTest, CountsItsMultiplications) {
  int64_t multiplications = 0;
  const ContextScope scope(&OpContext::shapes_only, true);
  const ContextScope counted(&OpContext::multiplications, &multiplications);
  const auto zeros = [](const Shape& shape) { return Variable(Tensor::Zeros(shape, DType::kFloat32)); };
  MatMul(zeros({2, 3, 5}), zeros({2, 5, 7}));
  EXPECT_EQ(multiplications, 2 * 3 * 5 * 7);
  MatMul(zeros({5, 3}), zeros({2, 7, 5}), Transpose::kYes, Transpose::kYes);
  EXPECT_EQ(multiplications, 2 * (2 * 3 * 5 * 7));
  MatMulAdd(zeros({3, 5}), zeros({5, 7}), zeros({7}));
  EXPECT_EQ(multiplications, 2 * (2 * 3 * 5 * 7) + 3 * 5 * 7);
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

TEST(NormTest, EqualTheirFormulas) {
  const Tensor x = RandomTensor("x", {3, 5, 7}), scale = RandomTensor("scale", {7}), bias = RandomTensor("bias", {7});
  for (const Tensor& input : {x, Strided(x)}) {
    const Tensor rms = RmsNorm(Variable(input), Variable(scale), 0.01).value();
    const Tensor layer = LayerNorm(Variable(input), Variable(scale), Variable(bias), 0.01).value();
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < 7; ++k) {
          sum += x.At({i, j, k});
          squares += x.At({i, j, k}) * x.At({i, j, k});
        }
        const double mean = sum / 7, variance = squares / 7 - mean * mean;
        for (int64_t k = 0; k < 7; ++k) {
          const double expected_rms = x.At({i, j, k}) / std::sqrt(squares / 7 + 0.01) * scale.At({k});
          const double expected_layer =
              (x.At({i, j, k}) - mean) / std::sqrt(variance + 0.01) * scale.At({k}) + bias.At({k});
          // Some ten roundings of numbers near 1, and the cancellation in this test's own variance.
          EXPECT_NEAR(rms.At({i, j, k}), expected_rms, 1e-13);
          EXPECT_NEAR(layer.At({i, j, k}), expected_layer, 1e-13);
        }
      }
    }
  }
}

TEST(NormTest, ShapesThatDoNotFitAreNamed) {
  const Variable x(Tensor::Zeros({3, 5}, DType::kFloat32)), scale(Tensor::Zeros({4}, DType::kFloat32));
  EXPECT_EQ(MessageOf([&] { RmsNorm(x, scale, 1e-6); }), "rms_norm: scale[d] = [4] does not fit x[…, d] = [3, 5]");
  EXPECT_EQ(MessageOf([&] { LayerNorm(x, scale, scale, 1e-6); }),
            "layer_norm: scale[d] = [4] does not fit x[…, d] = [3, 5]");
  EXPECT_EQ(MessageOf([&] { RmsNorm(x, Variable(Tensor::Zeros({5}, DType::kFloat64)), 1e-6); }),
            "rms_norm: scale is float64, but x is float32");
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
}

TEST(DropoutTest, TheGradientDropsTheSameElements) {
  const Variable x(testing::RandomTensor("x", {5, 13}, 1, 2), Variable::RequiresGrad::kYes);
  const Variable y = Dropout(x, 0.5, kKey);
  Backward(y, Tensor::Full({5, 13}, 1, DType::kFloat64));
  for (int64_t i = 0; i < 65; ++i) EXPECT_EQ(x.grad().data<double>()[i] == 0, y.value().data<double>()[i] == 0) << i;
}

TEST(DropoutTest, RateZeroIsTheInputAndOneIsRefused) {
  const Variable x(testing::RandomTensor("x", {3}));
  EXPECT_TRUE(Dropout(x, 0, kKey).value().SharesStorageWith(x.value()));
  EXPECT_THROW(Dropout(x, 1, kKey), Error);
  EXPECT_THROW(Dropout(x, -0.1, kKey), Error);
}

}  // namespace ops_layer_test
}  // namespace crosstalk
