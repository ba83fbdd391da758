#include "crosstalk/autograd/ops_reduce.h"

#include "crosstalk/autograd/axis_split.h"
#include "crosstalk/autograd/kernel_op.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/kernels/reduce.h"
#include "crosstalk/kernels/softmax.h"

namespace crosstalk {
namespace {

// The shape of a reduction's result with its dimensions kept, as size 1.
Shape KeptShape(const Shape& shape, const std::vector<int>& dims) {
  Shape kept = shape;
  if (dims.empty()) {
    for (int i = 0; i < kept.rank(); ++i) kept[i] = 1;
  }
  for (const int dim : dims) kept[dim < 0 ? dim + shape.rank() : dim] = 1;
  return kept;
}

Shape Without(const Shape& shape, int dim) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != dim) result.Append(shape[i]);
  }
  return result;
}

// One run of adjacent dimensions [begin, end), which become one of size 1.
Variable MaxRun(const Variable& x, int begin, int end) {
  int64_t outer = 1, reduced = 1, inner = 1;
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    (i < begin ? outer : i < end ? reduced : inner) *= shape[i];
    if (i >= begin && i < end) shape[i] = 1;
  }
  const Tensor index = Tensor::Empty(shape, DType::kInt64);
  return KernelOp(
      "max", x, shape, {},
      [=](const auto* x, auto* y) { kernels::Max(outer, reduced, inner, x, y, index.data<int64_t>()); },
      [=](const auto*, const auto*, const auto* dy, auto* dx) {
        kernels::MaxGradient(outer, reduced, inner, index.data<int64_t>(), dy, dx);
      });
}

}  // namespace

Variable Sum(const Variable& x, const std::vector<int>& dims, KeepDims keep) {
  const Shape kept = KeptShape(x.shape(), dims);
  return MakeOp("sum", math::Sum(x.value(), dims, keep), {x},
                [kept, shape = x.shape()](const Tensor& dy, Gradients& gradients) {
                  gradients.Add(0, dy.Reshape(kept).BroadcastTo(shape));
                });
}

Variable Mean(const Variable& x, const std::vector<int>& dims, KeepDims keep) {
  CROSSTALK_CHECK(x.value().num_elements() > 0, "mean: the tensor of shape ", x.shape(), " is empty");
  const Variable sum = Sum(x, dims, keep);
  return Scale(sum, static_cast<double>(sum.value().num_elements()) / static_cast<double>(x.value().num_elements()));
}

Variable Max(const Variable& x, const std::vector<int>& dims, KeepDims keep) {
  const Shape result = math::Max(x.value(), dims, keep).shape();  // also checks dims
  Variable y = x;
  for (int end = x.rank(); end > 0; --end) {
    const auto reduced = [&](int i) {
      for (const int dim : dims) {
        if ((dim < 0 ? dim + x.rank() : dim) == i) return true;
      }
      return dims.empty();
    };
    if (!reduced(end - 1)) continue;
    int begin = end;
    while (begin > 0 && reduced(begin - 1)) --begin;
    y = MaxRun(y, begin, end);
    end = begin + 1;
  }
  return y.shape() == result ? y : Reshape(y, result);
}

Variable LogSumExp(const Variable& x, int dim, KeepDims keep) {
  const AxisSplit at = SplitAt("logsumexp", x.shape(), dim);
  CROSSTALK_CHECK(at.size > 0, "logsumexp: dimension ", dim, " of shape ", x.shape(), " is empty");
  const Shape shape = keep == KeepDims::kYes ? KeptShape(x.shape(), {dim}) : Without(x.shape(), at.axis);
  return KernelOp(
      "logsumexp", x, shape, {.x = true, .y = true},
      [at](const auto* x, auto* y) { kernels::LogSumExp(at.outer, at.size, at.inner, x, y); },
      [at](const auto* x, const auto* y, const auto* dy, auto* dx) {  // dx = dy · e^(x - y)
        kernels::LogSumExpGradient(at.outer, at.size, at.inner, x, y, dy, dx);
      });
}

Variable Softmax(const Variable& x, int dim) {
  const AxisSplit at = SplitAt("softmax", x.shape(), dim);
  return KernelOp(
      "softmax", x, x.shape(), {.y = true},
      [at](const auto* x, auto* y) { kernels::Softmax(at.outer, at.size, at.inner, x, y); },
      [at](const auto*, const auto* y, const auto* dy, auto* dx) {  // dx = y · (dy - Σ y · dy)
        kernels::SoftmaxGradient(at.outer, at.size, at.inner, y, dy, dx);
      });
}

// Of x less its maximum: of a large x, log-sum-exp has no digits left for the logarithm.
Variable LogSoftmax(const Variable& x, int dim) {
  SplitAt("log_softmax", x.shape(), dim);
  const Variable shifted = Sub(x, Variable(math::Max(x.value(), {dim}, KeepDims::kYes)));
  return Sub(shifted, LogSumExp(shifted, dim, KeepDims::kYes));
}

}  // namespace crosstalk
