#include "crosstalk/autograd/ops_reduce.h"

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/kernels/reduce.h"
#include "crosstalk/kernels/softmax.h"
#include "crosstalk/runtime/shapes_only.h"

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

// x[outer, reduced, inner] around one dimension.
struct Around {
  int dim = 0;
  int64_t outer = 1, reduced = 1, inner = 1;
};
Around AroundDim(const char* name, const Shape& shape, int dim) {
  Around around;
  around.dim = dim < 0 ? dim + shape.rank() : dim;
  CROSSTALK_CHECK(around.dim >= 0 && around.dim < shape.rank(), name, ": dimension ", dim, " of a tensor of shape ",
                  shape);
  for (int i = 0; i < shape.rank(); ++i) {
    (i < around.dim ? around.outer : i == around.dim ? around.reduced : around.inner) *= shape[i];
  }
  return around;
}

// One run of adjacent dimensions [begin, end), which become one of size 1.
Variable MaxRun(const Variable& x, int begin, int end) {
  int64_t outer = 1, reduced = 1, inner = 1;
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    (i < begin ? outer : i < end ? reduced : inner) *= shape[i];
    if (i >= begin && i < end) shape[i] = 1;
  }
  const Tensor values = math::Contiguous(x.value());
  Tensor y = Tensor::Empty(shape, x.dtype());
  Tensor index = Tensor::Empty(shape, DType::kInt64);
  Launch("max", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::Max<T>(outer, reduced, inner, values.data<T>(), y.data<T>(), index.data<int64_t>());
  });
  return MakeOp("max", y, {x},
                [index, outer, reduced, inner, shape = x.shape()](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  Tensor dx = Tensor::Empty(shape, dy.dtype());
                  Launch("max", dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    kernels::MaxGradient<T>(outer, reduced, inner, index.data<int64_t>(), dy.data<T>(), dx.data<T>());
                  });
                  gradients.Add(0, dx);
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
  const Around at = AroundDim("logsumexp", x.shape(), dim);
  CROSSTALK_CHECK(at.reduced > 0, "logsumexp: dimension ", dim, " of shape ", x.shape(), " is empty");
  const Tensor values = math::Contiguous(x.value());
  Tensor y =
      Tensor::Empty(keep == KeepDims::kYes ? KeptShape(x.shape(), {dim}) : Without(x.shape(), at.dim), x.dtype());
  Launch("logsumexp", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::LogSumExp<T>(at.outer, at.reduced, at.inner, values.data<T>(), y.data<T>());
  });
  return MakeOp("logsumexp", y, {x}, [values, y, at](const Tensor& dy_strided, Gradients& gradients) {
    const Tensor dy = math::Contiguous(dy_strided);
    Tensor dx = Tensor::Empty(values.shape(), dy.dtype());
    Launch("logsumexp", dy.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::LogSumExpGradient<T>(at.outer, at.reduced, at.inner, values.data<T>(), y.data<T>(), dy.data<T>(),
                                    dx.data<T>());
    });
    gradients.Add(0, dx);
  });
}

Variable Softmax(const Variable& x, int dim) {
  const Around at = AroundDim("softmax", x.shape(), dim);
  const Tensor values = math::Contiguous(x.value());
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  if (y.num_elements() > 0) {
    Launch("softmax", x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::Softmax<T>(at.outer, at.reduced, at.inner, values.data<T>(), y.data<T>());
    });
  }
  return MakeOp("softmax", y, {x}, [y, at](const Tensor& dy_strided, Gradients& gradients) {
    const Tensor dy = math::Contiguous(dy_strided);
    Tensor dx = Tensor::Empty(y.shape(), dy.dtype());
    if (y.num_elements() > 0) {
      Launch("softmax", dy.dtype(), [&](auto zero) {
        using T = decltype(zero);
        kernels::SoftmaxGradient<T>(at.outer, at.reduced, at.inner, y.data<T>(), dy.data<T>(), dx.data<T>());
      });
    }
    gradients.Add(0, dx);  // dx = y · (dy - Σ y · dy)
  });
}

Variable LogSoftmax(const Variable& x, int dim) { return Sub(x, LogSumExp(x, dim, KeepDims::kYes)); }

}  // namespace crosstalk
