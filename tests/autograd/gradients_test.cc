// Every op of the table in tests/support/grad_cases.cc: its gradients against central differences in double, float
// against double, the same bits on any number of threads, and under OpContext::shapes_only the shapes and the memory of
// a real call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/grad_check.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/close.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace gradients_test {

using testing::GradCase;
using testing::GradCases;
using testing::RandomTensor;

struct Outcome {
  std::vector<Tensor> results;  // value and gradients
  int64_t peak_bytes = 0;
};

Outcome Evaluate(const GradCase& grad_case, const std::vector<Tensor>& inputs, Tensor seed = {}) {
  const int64_t before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  Outcome run;
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input, Variable::RequiresGrad::kYes);
  {
    const Variable y = grad_case.function(leaves);
    if (!seed.defined()) seed = RandomTensor("seed of " + grad_case.name, y.shape()).To(y.dtype());
    run.results.push_back(y.value());
    Backward(y, seed);
  }
  for (const Variable& leaf : leaves) run.results.push_back(leaf.grad());
  run.peak_bytes = GetMemoryStats().peak_bytes - before;
  return run;
}

// One thread unless a test says otherwise: these tensors are too small for more, and there are thousands of calls.
class GradientsTest : public ::testing::TestWithParam<size_t> {
 protected:
  const GradCase& grad_case_ = GradCases()[GetParam()];
  std::vector<Tensor> floats_ = [this] {
    std::vector<Tensor> floats;
    for (const Tensor& input : grad_case_.inputs) floats.push_back(input.To(DType::kFloat32));
    return floats;
  }();

 private:
  const ThreadsScope one_thread_{1};
};

TEST_P(GradientsTest, AgreeWithCentralDifferences) {
  const GradCheckReport report = GradCheck(grad_case_.function, grad_case_.inputs);
  EXPECT_TRUE(report.ok) << report;
}

TEST_P(GradientsTest, FloatAgreesWithDoubleAndItsBitsDoNotDependOnThreads) {
  const std::vector<Tensor> exact = Evaluate(grad_case_, grad_case_.inputs).results;
  const std::vector<Tensor> rounded = Evaluate(grad_case_, floats_).results;
  for (size_t i = 0; i < exact.size(); ++i) {
    const std::vector<double> a = exact[i].ToVector<double>();
    double largest = 1;
    for (const double value : a) largest = std::max(largest, std::abs(value));
    // At most some 40 roundings of 2^-24 in a row, each of a number up to ~10 times the largest result.
    EXPECT_TRUE(testing::AllClose(rounded[i].ToVector<float>(), a, {40 * 10 * 0x1p-24 * largest, 0})) << "result " << i;
  }
  for (const int threads : {2, 3, 8}) {
    const ThreadsScope scope(threads);
    const std::vector<Tensor> results = Evaluate(grad_case_, floats_).results;
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(rounded[i].ToVector<float>(), results[i].ToVector<float>())
          << "result " << i << " with " << threads << " threads";
    }
  }
}

TEST_P(GradientsTest, ShapesAndMemoryWithoutElementsAreThoseOfARealCall) {
  const Shape shape = grad_case_.function(std::vector<Variable>(floats_.begin(), floats_.end())).shape();
  const Tensor seed = Tensor::Full(shape, 1, DType::kFloat32);
  const Outcome real = Evaluate(grad_case_, floats_, seed);
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const Outcome shapes = Evaluate(grad_case_, floats_, seed);
  EXPECT_EQ(shapes.peak_bytes, real.peak_bytes);
  for (size_t i = 0; i < real.results.size(); ++i) {
    SCOPED_TRACE(i);
    const Tensor& result = shapes.results[i];
    ASSERT_EQ(result.defined(), real.results[i].defined());
    if (!result.defined()) continue;
    EXPECT_EQ(result.shape(), real.results[i].shape());
    EXPECT_EQ(result.strides(), real.results[i].strides());
    // A view of an input or of the seed has their elements.
    const auto is_view = [&](const Tensor& of) { return result.SharesStorageWith(of); };
    if (is_view(seed) || std::any_of(floats_.begin(), floats_.end(), is_view)) continue;
    EXPECT_EQ(result.ToVector<float>(), std::vector<float>(result.num_elements()));
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, GradientsTest, ::testing::Range<size_t>(0, GradCases().size()),
                         [](const ::testing::TestParamInfo<size_t>& info) { return GradCases()[info.param].name; });

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

Variable Leaf(const Shape& shape) {
  return Variable(Tensor::Zeros(shape, DType::kFloat32), Variable::RequiresGrad::kYes);
}

TEST(ShapesOnlyGemmTest, PackedPanelsAreCounted) {
  const ThreadsScope one_thread(1);
  // Few rows and many, short and long k, transposed or not, one and several blocks of columns, slices of k.
  const int64_t sizes[][3] = {{5, 700, 300},  {100, 90, 80},   {300, 200, 1000},
                              {64, 64, 9000}, {70, 5000, 100}, {2000, 33, 1}};
  for (const auto& size : sizes) {
    const int64_t m = size[0], n = size[1], k = size[2];
    for (const auto transpose : {kernels::Transpose::kNo, kernels::Transpose::kYes}) {
      const auto step = [&] {
        const int64_t before = GetMemoryStats().live_bytes;
        ResetPeakMemory();
        const Variable A = Leaf({m, k});
        const Variable B = transpose == kernels::Transpose::kNo ? Leaf({k, n}) : Leaf({n, k});
        Backward(Sum(MatMul(A, B, kernels::Transpose::kNo, transpose)));
        return GetMemoryStats().peak_bytes - before;
      };
      const int64_t real = step();
      int64_t multiplications = 0;
      const ContextScope shapes_only(&OpContext::shapes_only, true);
      const ContextScope counted(&OpContext::multiplications, &multiplications);
      EXPECT_EQ(step(), real) << m << " " << n << " " << k;
      EXPECT_EQ(multiplications, m * n * k);
    }
  }
}

TEST(ShapesOnlyMultiplicationsTest, CountEachEquationOnceAndNothingOfItsGradient) {
  int64_t multiplications = 0;
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const ContextScope counted(&OpContext::multiplications, &multiplications);
  const Variable X = Leaf({3, 5, 7}), P = Leaf({7, 2, 11});
  const auto project = [&](const std::vector<Variable>& in) {
    return Einsum("Q[b,n,h,d] = einsum(X[b,n,d_X], P[d_X,h,d])", {in[0], P});
  };
  Backward(Sum(project({X})));
  EXPECT_EQ(multiplications, 3 * 5 * 7 * 2 * 11);
  Backward(Sum(Recompute(project, {X})));
  EXPECT_EQ(multiplications, 2 * 3 * 5 * 7 * 2 * 11);
  const Variable hidden = Leaf({6, 4}), table = Leaf({9, 4});
  const CrossEntropyResult loss = LinearCrossEntropy(hidden, table, Tensor::Zeros({6}, DType::kInt32), 1.0);
  EXPECT_EQ(multiplications, 2 * 3 * 5 * 7 * 2 * 11 + 6 * 4 * 9);
  multiplications = 0;
  const Variable many = Leaf({2, 3, 5}), others = Leaf({2, 5, 7});
  MatMul(many, others);
  MatMul(Transpose(many, 1, 2), others, kernels::Transpose::kYes);
  MatMulAdd(Leaf({3, 5}), Leaf({5, 7}), Leaf({7}));
  EXPECT_EQ(multiplications, (2 + 2 + 1) * 3 * 5 * 7);
  EXPECT_EQ(loss.count, 6);
  EXPECT_EQ(loss.loss.value().Item(), 0);
}

}  // namespace gradients_test
}  // namespace crosstalk
