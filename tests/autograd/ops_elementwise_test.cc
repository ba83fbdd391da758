#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "crosstalk/autograd/ops.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_elementwise_test {

using testing::MessageOf;
using testing::RandomTensor;
using testing::Strided;

// f of every element, however x is stored.
void ExpectMaps(const char* name, Variable (*op)(const Variable&), double (*f)(double), const Tensor& x) {
  const Tensor y = op(Variable(x)).value();
  ASSERT_EQ(y.shape(), x.shape());
  for (int64_t i = 0; i < x.size(0); ++i) {
    for (int64_t j = 0; j < x.size(1); ++j) {
      // The vector kernels are within a few units in the last place of the C library's.
      const double expected = f(x.At({i, j}));
      EXPECT_NEAR(y.At({i, j}), expected, 1e-14 * std::max(1.0, std::abs(expected)))
          << name << " at " << i << ", " << j;
    }
  }
}

TEST(ElementwiseTest, MapsEqualTheirFormulas) {
  const Tensor wide = RandomTensor("wide", {7, 13}, -4, 4);
  const Tensor positive = RandomTensor("positive", {7, 13}, 0.01, 4);
  for (const Tensor& x : {wide, Strided(wide)}) {
    ExpectMaps(
        "neg", Neg, [](double v) { return -v; }, x);
    ExpectMaps(
        "exp", Exp, [](double v) { return std::exp(v); }, x);
    ExpectMaps(
        "square", Square, [](double v) { return v * v; }, x);
    ExpectMaps(
        "tanh", Tanh, [](double v) { return std::tanh(v); }, x);
    ExpectMaps(
        "sigmoid", Sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, x);
    ExpectMaps(
        "relu", Relu, [](double v) { return v > 0 ? v : 0; }, x);
    ExpectMaps(
        "gelu", Gelu, [](double v) { return v / 2 * (1 + std::erf(v / std::numbers::sqrt2)); }, x);
    ExpectMaps(
        "gelu_tanh", GeluTanh,
        [](double v) {
          const double inner = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
          return v / 2 * (1 + std::tanh(inner));
        },
        x);
  }
  for (const Tensor& x : {positive, Strided(positive)}) {
    ExpectMaps(
        "log", Log, [](double v) { return std::log(v); }, x);
    ExpectMaps(
        "sqrt", Sqrt, [](double v) { return std::sqrt(v); }, x);
  }
}

TEST(ElementwiseTest, BinaryOpsBroadcastLikeLoops) {
  const Tensor full = RandomTensor("full", {3, 5, 7}, 0.5, 2);
  const std::vector<Tensor> others = {full,
                                      Strided(full),
                                      RandomTensor("row", {7}, 0.5, 2),
                                      RandomTensor("column", {5, 1}, 0.5, 2),
                                      RandomTensor("outer", {3, 1, 1}, 0.5, 2),
                                      Strided(RandomTensor("middle", {3, 1, 7}, 0.5, 2)),
                                      RandomTensor("scalar", {}, 0.5, 2)};
  for (const Tensor& a : others) {
    for (const Tensor& b : others) {
      const Variable x(a), y(b);
      const Tensor sum = (x + y).value(), difference = (x - y).value(), product = (x * y).value();
      const Tensor quotient = (x / y).value();
      const Shape shape = sum.shape();
      const Tensor wide_a = a.BroadcastTo(shape).Clone(), wide_b = b.BroadcastTo(shape).Clone();
      for (int64_t i = 0; i < sum.num_elements(); ++i) {
        const double u = wide_a.data<double>()[i], v = wide_b.data<double>()[i];
        ASSERT_EQ(sum.data<double>()[i], u + v) << a.shape() << b.shape();
        ASSERT_EQ(difference.data<double>()[i], u - v) << a.shape() << b.shape();
        ASSERT_EQ(product.data<double>()[i], u * v) << a.shape() << b.shape();
        ASSERT_EQ(quotient.data<double>()[i], u / v) << a.shape() << b.shape();
      }
    }
  }
}

TEST(ElementwiseTest, MaskedFillReplacesWhereTheMaskIsTrue) {
  const Variable x(RandomTensor("x", {2, 3}));
  const Tensor mask = Tensor::FromValues<uint8_t>({3}, {1, 0, 1});
  const Tensor filled = MaskedFill(x, mask, 9).value();
  const Tensor kept = MaskedFillUnless(x, mask, 9).value();
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ(filled.At({i, j}), j == 1 ? x.value().At({i, j}) : 9);
      EXPECT_EQ(kept.At({i, j}), j == 1 ? 9 : x.value().At({i, j}));
    }
  }
}

TEST(ElementwiseTest, MistakesAreNamed) {
  const Variable a(Tensor::Zeros({3, 5}, DType::kFloat32)), b(Tensor::Zeros({4}, DType::kFloat32));
  const Variable c(Tensor::Zeros({3, 5}, DType::kFloat64));
  EXPECT_NE(MessageOf([&] { Add(a, b); }).find("add"), std::string::npos);
  EXPECT_NE(MessageOf([&] { Add(a, b); }).find("[3, 5]"), std::string::npos);
  EXPECT_EQ(MessageOf([&] { Mul(a, c); }),
            "mul: float32[3, 5] and float64[3, 5] have different element types; convert one");
  EXPECT_EQ(MessageOf([&] { GatedGelu(a, b); }), "gated_gelu: gate[3, 5] and x[4] must have the same shape");
  EXPECT_NE(MessageOf([&] { GatedGelu(a, c); }).find("convert one"), std::string::npos);
  EXPECT_EQ(MessageOf([&] { MaskedFill(a, a.value(), 0); }), "masked_fill: the mask is float32[3, 5], not bool");
  EXPECT_EQ(MessageOf([&] {
              MaskedFill(b, Tensor::Zeros({3, 1}, DType::kBool), 0);
            }),
            "masked_fill: a mask of shape [3, 1] does not broadcast to [4]");
}

}  // namespace ops_elementwise_test
}  // namespace crosstalk
