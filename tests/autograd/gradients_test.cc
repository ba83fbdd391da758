// Every op of the table in tests/support/grad_cases.cc: its gradients against central differences in double, float
// against double, and the same bits on any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/close.h"
#include "tests/support/grad_cases.h"
#include "tests/support/messages.h"

namespace crosstalk {
namespace gradients_test {

using testing::GradCase;
using testing::GradCases;

// Value and all gradients of the case's op, its inputs converted to `dtype`.
std::vector<Tensor> Evaluate(const GradCase& grad_case, DType dtype) {
  std::vector<Variable> leaves;
  for (const Tensor& input : grad_case.inputs) leaves.emplace_back(input.To(dtype), Variable::RequiresGrad::kYes);
  const Variable y = grad_case.function(leaves);
  std::vector<Tensor> results = {y.value().Clone()};
  Backward(y, testing::RandomTensor("seed of " + grad_case.name, y.shape()).To(dtype));
  for (const Variable& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

// One thread unless a test says otherwise: these tensors are too small for more, and there are thousands of calls.
class GradientsTest : public ::testing::TestWithParam<size_t> {
 private:
  const ThreadsScope one_thread_{1};
};

TEST_P(GradientsTest, AgreeWithCentralDifferences) {
  const GradCase& grad_case = GradCases()[GetParam()];
  const GradCheckReport report = GradCheck(grad_case.function, grad_case.inputs);
  EXPECT_TRUE(report.ok) << grad_case.name << ": " << report;
}

TEST_P(GradientsTest, FloatAgreesWithDouble) {
  const GradCase& grad_case = GradCases()[GetParam()];
  const std::vector<Tensor> exact = Evaluate(grad_case, DType::kFloat64);
  const std::vector<Tensor> rounded = Evaluate(grad_case, DType::kFloat32);
  for (size_t i = 0; i < exact.size(); ++i) {
    const std::vector<double> a = exact[i].ToVector<double>();
    double largest = 1;
    for (const double value : a) largest = std::max(largest, std::abs(value));
    // At most some 40 roundings of 2^-24 in a row, each of a number up to ~10 times the largest result.
    EXPECT_TRUE(testing::AllClose(rounded[i].ToVector<float>(), a, {40 * 10 * 0x1p-24 * largest, 0}))
        << grad_case.name << " result " << i;
  }
}

TEST_P(GradientsTest, BitsDoNotDependOnThreads) {
  const GradCase& grad_case = GradCases()[GetParam()];
  const std::vector<Tensor> expected = Evaluate(grad_case, DType::kFloat32);
  for (const int threads : {2, 3, 8}) {
    const ThreadsScope scope(threads);
    const std::vector<Tensor> results = Evaluate(grad_case, DType::kFloat32);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(expected[i].ToVector<float>(), results[i].ToVector<float>())
          << grad_case.name << " result " << i << " with " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, GradientsTest, ::testing::Range<size_t>(0, GradCases().size()),
                         [](const ::testing::TestParamInfo<size_t>& info) { return GradCases()[info.param].name; });

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

TEST(GradCheckTest, AMissingGradientFailsAndFloatInputsAreRefused) {
  EXPECT_THROW(GradCheck([](const auto& in) { return in[0]; }, {Tensor::Zeros({3}, DType::kFloat32)}), Error);
  const GradCheckReport report =
      GradCheck([](const auto& in) { return Square(in[0]); }, {RandomTensor("a", {3}), RandomTensor("b", {5})});
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.message, "input 1[5] received no gradient");
  EXPECT_FALSE(GradCheck([](const auto& in) { return in[0].Detach(); }, {RandomTensor("a", {3})}).ok);
}

}  // namespace gradients_test
}  // namespace crosstalk
