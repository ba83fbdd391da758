#include "crosstalk/autograd/precision.h"

#include <vector>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops_loss.h"
#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/autograd/ops_reduce.h"
#include "crosstalk/autograd/recompute.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/runtime/random.h"
#include "gtest/gtest.h"
#include "tests/support/close.h"

namespace crosstalk {
namespace {

Tensor Random(const Shape& shape, uint32_t stream) {
  const Tensor x = Tensor::Empty(shape, DType::kFloat32);
  FillNormal(x, RandomKey{11, stream, 0}, 0, 1);
  return x;
}

Tensor Rounded(const Tensor& x) {
  std::vector<uint16_t> halves(static_cast<size_t>(x.num_elements()));
  kernels::RoundToBFloat16(x.num_elements(), x.data<float>(), halves.data());
  const Tensor y = Tensor::Empty(x.shape(), DType::kFloat32);
  kernels::WidenBFloat16(x.num_elements(), halves.data(), y.data<float>());
  return y;
}

std::vector<float> Values(const Tensor& x) {
  const Tensor dense = x.Contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.num_elements()};
}
std::vector<double> Doubles(const Tensor& x) {
  const std::vector<float> values = Values(x);
  return {values.begin(), values.end()};
}

Variable Leaf(const Tensor& x) { return Variable(x, Variable::RequiresGrad::kYes); }

// Sums of up to 31 products of size 1 in float, in two orders.
constexpr double kSums = 31 * 31 * 0x1p-24;

TEST(PrecisionTest, ProductsAndTheirGradientsAreOfRoundedOperands) {
  const Tensor a = Random({13, 31}, 1), b = Random({31, 17}, 2), dy = Random({13, 17}, 3);
  const Variable in_a = Leaf(a), in_b = Leaf(b);
  Variable y;
  {
    const PrecisionScope scope(Precision::kBFloat16);
    EXPECT_EQ(CurrentPrecision(), Precision::kBFloat16);
    y = MatMul(in_a, in_b);
  }
  EXPECT_EQ(CurrentPrecision(), Precision::kFloat32);
  Backward(y, dy);  // outside of the scope

  const Variable exact_a(Rounded(a)), exact_b(Rounded(b)), exact_dy(Rounded(dy));
  EXPECT_TRUE(testing::AllClose(Values(y.value()), Doubles(MatMul(exact_a, exact_b).value()), {kSums, 0}));
  EXPECT_TRUE(testing::AllClose(
      Values(in_a.grad()),
      Doubles(MatMul(exact_dy, exact_b, kernels::Transpose::kNo, kernels::Transpose::kYes).value()), {kSums, 0}));
  EXPECT_TRUE(testing::AllClose(
      Values(in_b.grad()),
      Doubles(MatMul(exact_a, exact_dy, kernels::Transpose::kYes, kernels::Transpose::kNo).value()), {kSums, 0}));
}

// matmul_add, einsum as matrix products and as interleaved small ones, and the product inside of the loss.
TEST(PrecisionTest, EveryOpThatMultipliesMatricesRounds) {
  const Tensor x = Random({24, 31}, 1), w = Random({31, 19}, 2), bias = Random({19}, 3);
  const Tensor p = Random({5, 31, 64}, 4), q = Random({31, 7, 64}, 5);
  const Tensor targets = Tensor::Zeros({24}, DType::kInt32);
  const Tensor table = Random({19, 31}, 6);
  const auto results = [&](bool rounded) {
    const auto in = [&](const Tensor& t) { return Variable(rounded ? Rounded(t) : t); };
    std::vector<Tensor> all = {
        MatMulAdd(in(x), in(w), Variable(bias)).value(),
        Einsum("y[j, i] = einsum(x[i, k], w[k, j])", {in(x), in(w)}).value(),
        Einsum("y[i, j, b] = einsum(p[i, k, b], q[k, j, b])", {in(p), in(q)}).value(),
    };
    return all;
  };
  const std::vector<Tensor> plain = results(false), exact = results(true);
  const PrecisionScope scope(Precision::kBFloat16);
  const std::vector<Tensor> rounded = results(false);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(testing::AllClose(Values(rounded[i]), Doubles(exact[i]), {kSums, 0})) << i;
    EXPECT_FALSE(testing::AllClose(Values(rounded[i]), Doubles(plain[i]), {kSums, 0})) << i << " is not rounded";
  }
}

TEST(PrecisionTest, WhatIsRecomputedIsRoundedAgain) {
  const Tensor a = Random({9, 31}, 1), b = Random({31, 9}, 2);
  const auto gradient = [&](bool recompute) {
    const Variable in_a = Leaf(a), in_b = Leaf(b);
    Variable y;
    {
      const PrecisionScope scope(Precision::kBFloat16);
      const auto twice = [&](const std::vector<Variable>& in) { return MatMul(MatMul(in[0], in[1]), in[0]); };
      y = recompute ? Recompute(twice, {in_a, in_b}) : twice({in_a, in_b});
    }
    Backward(y, Random({9, 31}, 3));
    return Values(in_a.grad());
  };
  EXPECT_TRUE(testing::SameBits(gradient(true), gradient(false)));
}

TEST(PrecisionTest, DoubleIsNotRounded) {
  const Variable a(Random({3, 31}, 1).To(DType::kFloat64)), b(Random({31, 5}, 2).To(DType::kFloat64));
  const Tensor plain = MatMul(a, b).value();
  const PrecisionScope scope(Precision::kBFloat16);
  const Tensor y = MatMul(a, b).value();
  for (int64_t i = 0; i < y.num_elements(); ++i) EXPECT_EQ(y.data<double>()[i], plain.data<double>()[i]);
}

}  // namespace
}  // namespace crosstalk
