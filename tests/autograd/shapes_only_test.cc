// Every op of the table in tests/support/grad_cases.cc under OpContext::shapes_only: the shapes and the memory of a
// real call, and no element written.
#include <gtest/gtest.h>

#include <algorithm>

#include "crosstalk/autograd/einsum/einsum.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"
#include "tests/support/grad_cases.h"

namespace crosstalk {
namespace shapes_only_test {

using testing::GradCase;
using testing::GradCases;

struct Outcome {
  std::vector<Tensor> results;  // value and gradients
  int64_t peak_bytes = 0;
};

Outcome Evaluate(const GradCase& grad_case, const std::vector<Tensor>& inputs, const Tensor& seed) {
  const int64_t before = GetMemoryStats().live_bytes;
  ResetPeakMemory();
  Outcome run;
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(input, Variable::RequiresGrad::kYes);
  {
    const Variable y = grad_case.function(leaves);
    run.results.push_back(y.value());
    Backward(y, seed);
  }
  for (const Variable& leaf : leaves) run.results.push_back(leaf.grad());
  run.peak_bytes = GetMemoryStats().peak_bytes - before;
  return run;
}

class ShapesOnlyTest : public ::testing::TestWithParam<size_t> {
 private:
  const ThreadsScope one_thread_{1};
};

TEST_P(ShapesOnlyTest, ShapesAndMemoryAreThoseOfARealCallAndNothingIsWritten) {
  const GradCase& grad_case = GradCases()[GetParam()];
  std::vector<Tensor> inputs;
  for (const Tensor& input : grad_case.inputs) inputs.push_back(input.To(DType::kFloat32));
  std::vector<Variable> constants(inputs.begin(), inputs.end());
  const Shape shape = grad_case.function(constants).shape();
  constants.clear();
  const Tensor seed = Tensor::Full(shape, 1, DType::kFloat32);
  const Outcome real = Evaluate(grad_case, inputs, seed);
  const ContextScope shapes_only(&OpContext::shapes_only, true);
  const Outcome shapes = Evaluate(grad_case, inputs, seed);
  EXPECT_EQ(shapes.peak_bytes, real.peak_bytes) << grad_case.name;
  for (size_t i = 0; i < real.results.size(); ++i) {
    const Tensor& result = shapes.results[i];
    ASSERT_EQ(result.defined(), real.results[i].defined()) << grad_case.name << " result " << i;
    if (!result.defined()) continue;
    EXPECT_EQ(result.shape(), real.results[i].shape()) << grad_case.name << " result " << i;
    EXPECT_EQ(result.strides(), real.results[i].strides()) << grad_case.name << " result " << i;
    // A view of an input or of the seed has their elements.
    const auto is_view = [&](const Tensor& of) { return result.SharesStorageWith(of); };
    if (is_view(seed) || std::any_of(inputs.begin(), inputs.end(), is_view)) continue;
    const Tensor flat = result.Contiguous();
    EXPECT_EQ(std::count(flat.data<float>(), flat.data<float>() + flat.num_elements(), 0.0f), flat.num_elements())
        << grad_case.name << " result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, ShapesOnlyTest, ::testing::Range<size_t>(0, GradCases().size()),
                         [](const ::testing::TestParamInfo<size_t>& info) { return GradCases()[info.param].name; });

Variable Leaf(const Shape& shape) {
  return Variable(Tensor::Zeros(shape, DType::kFloat32), Variable::RequiresGrad::kYes);
}

TEST(ShapesOnlyGemmTest, PackedPanelsAreCounted) {
  const ThreadsScope one_thread(1);
  // Few rows and many, short and long k, transposed or not, one and several blocks of columns, slices of k.
  const int64_t sizes[][3] = {{5, 700, 300},  {100, 90, 80},   {300, 200, 1000},
                              {64, 64, 9000}, {70, 5000, 100}, {2000, 33, 1}};
  for (const auto& [m, n, k] : sizes) {
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
  EXPECT_EQ(loss.count, 6);
  EXPECT_EQ(loss.loss.value().Item(), 0);
}

}  // namespace shapes_only_test
}  // namespace crosstalk
