#include "crosstalk/autograd/grad_check.h"

#include <gtest/gtest.h>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace grad_check_test {

using testing::RandomTensor;

// y = x0 · x1 with a gradient of x1 that is wrong at one element.
Variable WrongAt(const std::vector<Variable>& in, int64_t element) {
  const Tensor a = in[0].value(), b = in[1].value();
  return MakeOp("wrong", math::Mul(a, b), in, [a, b, element](const Tensor& dy, Gradients& gradients) {
    gradients.Add(0, math::Mul(dy, b));
    const Tensor db = math::Mul(dy, a);
    db.data<double>()[element] += 0.5;
    gradients.Add(1, db);
  });
}

TEST(GradCheckTest, ReportsTheWorstPlaceAndBothValues) {
  const GradCheckReport report =
      GradCheck([](const auto& in) { return WrongAt(in, 11); }, {RandomTensor("a", {3, 5}), RandomTensor("b", {3, 5})});
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.worst_input, 1);
  EXPECT_EQ(report.worst_index, (std::vector<int64_t>{2, 1}));
  EXPECT_NEAR(report.analytic - report.numeric, 0.5, 1e-8);
  EXPECT_EQ(report.checked, 30);
  EXPECT_NE(ToString(report).find("worst at input 1 [2, 1]: analytic "), std::string::npos) << report;
}

TEST(GradCheckTest, LargeInputsAreCheckedAlongDirections) {
  const std::vector<Tensor> inputs = {RandomTensor("a", {30, 50}), RandomTensor("b", {30, 50})};
  const GradCheckReport wrong = GradCheck([](const auto& in) { return WrongAt(in, 700); }, inputs);
  EXPECT_FALSE(wrong.ok);
  EXPECT_EQ(wrong.worst_element, -1);
  const GradCheckReport right = GradCheck([](const auto& in) { return Mul(in[0], in[1]); }, inputs);
  EXPECT_TRUE(right.ok) << right;
  EXPECT_EQ(right.checked, 8);
}

TEST(GradCheckTest, AMissingGradientFails) {
  const GradCheckReport report =
      GradCheck([](const auto& in) { return Square(in[0]); }, {RandomTensor("a", {3}), RandomTensor("b", {5})});
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.message, "input 1[5] received no gradient");
  EXPECT_FALSE(GradCheck([](const auto& in) { return in[0].Detach(); }, {RandomTensor("a", {3})}).ok);
}

TEST(GradCheckTest, FloatInputsAreRefused) {
  EXPECT_THROW(GradCheck([](const auto& in) { return in[0]; }, {Tensor::Zeros({3}, DType::kFloat32)}), Error);
}

}  // namespace grad_check_test
}  // namespace crosstalk
