// Every op of the table in tests/support/grad_cases.cc: its gradients against central differences in double, float
// against double, and the same bits on any number of threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/parallel.h"
#include "tests/support/grad_cases.h"

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
    const std::vector<float> b = rounded[i].ToVector<float>();
    ASSERT_EQ(a.size(), b.size());
    double largest = 1;
    for (const double value : a) largest = std::max(largest, std::abs(value));
    // At most some 40 roundings of 2^-24 in a row, each of a number up to ~10 times the largest result.
    const double tolerance = 40 * 10 * std::ldexp(1, -24) * largest;
    for (size_t j = 0; j < a.size(); ++j) {
      ASSERT_NEAR(a[j], b[j], tolerance) << grad_case.name << " result " << i << " element " << j;
    }
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

}  // namespace gradients_test
}  // namespace crosstalk
