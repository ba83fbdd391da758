#include "crosstalk/autograd/ops_shape.h"

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"

namespace crosstalk {
namespace {

// The elements as they are if strides allow the new shape, else a fast copy.
Tensor Reshaped(const Tensor& x, const Shape& shape) {
  return (x.is_contiguous() ? x : math::Contiguous(x)).Reshape(shape);
}

}  // namespace

Variable Reshape(const Variable& x, const Shape& shape) {
  return MakeOp("reshape", Reshaped(x.value(), shape), {x},
                [from = x.shape()](const Tensor& dy, Gradients& gradients) { gradients.Add(0, Reshaped(dy, from)); });
}

Variable Transpose(const Variable& x, int dim_a, int dim_b) {
  return MakeOp(
      "transpose", x.value().Transpose(dim_a, dim_b), {x},
      [dim_a, dim_b](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy.Transpose(dim_a, dim_b)); });
}

Variable Permute(const Variable& x, const std::vector<int>& order) {
  Tensor y = x.value().Permute(order);
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int dim = order[i] < 0 ? order[i] + x.rank() : order[i];
    inverse[static_cast<size_t>(dim)] = static_cast<int>(i);
  }
  return MakeOp("permute", y, {x},
                [inverse](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy.Permute(inverse)); });
}

Variable Slice(const Variable& x, int dim, int64_t begin, int64_t end) {
  return MakeOp("slice", x.value().Slice(dim, begin, end), {x},
                [dim, begin, end, shape = x.shape()](const Tensor& dy, Gradients& gradients) {
                  const Tensor dx = Tensor::Zeros(shape, dy.dtype());
                  math::CopyTo(dy, dx.Slice(dim, begin, end));
                  gradients.Add(0, dx);
                });
}

Variable Concat(const std::vector<Variable>& parts, int dim) {
  std::vector<Tensor> values;
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const Variable& part : parts) {
    values.push_back(part.value());
    end += part.rank() > 0 ? part.size(dim) : 0;
    ends.push_back(end);
  }
  return MakeOp("concat", math::Concat(values, dim), parts, [dim, ends](const Tensor& dy, Gradients& gradients) {
    int64_t begin = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (gradients.Needs(static_cast<int>(i))) gradients.Add(static_cast<int>(i), dy.Slice(dim, begin, ends[i]));
      begin = ends[i];
    }
  });
}

Variable BroadcastTo(const Variable& x, const Shape& shape) {
  return MakeOp(
      "broadcast_to", x.value().BroadcastTo(shape), {x},
      [from = x.shape()](const Tensor& dy, Gradients& gradients) { gradients.Add(0, math::Unbroadcast(dy, from)); });
}

Variable Contiguous(const Variable& x) {
  if (x.value().is_contiguous()) return x;
  return MakeOp("contiguous", math::Contiguous(x.value()), {x},
                [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

}  // namespace crosstalk
