#include <gtest/gtest.h>

#include <cmath>

#include "crosstalk/autograd/ops.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace ops_norm_test {

using testing::MessageOf;
using testing::RandomTensor;
using testing::Strided;

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

}  // namespace ops_norm_test
}  // namespace crosstalk
