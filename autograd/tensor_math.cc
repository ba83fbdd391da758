#include "crosstalk/autograd/tensor_math.h"

#include <algorithm>
#include <numeric>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/copy.h"
#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::math {
namespace {

Tensor CombineTensors(const char* name, kernels::BinaryOp op, const Tensor& a, const Tensor& b) {
  CROSSTALK_CHECK(a.dtype() == b.dtype(), name, ": ", a.dtype(), a.shape(), " and ", b.dtype(), b.shape(),
                  " have different element types; convert one");
  const bool plain = a.shape() == b.shape() && a.is_contiguous() && b.is_contiguous();
  const Shape shape = plain ? a.shape() : BroadcastShapes(name, a.shape(), b.shape());
  Tensor y = Tensor::Empty(shape, a.dtype());
  Launch(name, a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (plain) {
      kernels::Binary<T>(op, a.num_elements(), a.data<T>(), b.data<T>(), y.data<T>());
    } else {
      kernels::Binary<T>(op, shape, a.data<T>(), a.BroadcastTo(shape).strides(), b.data<T>(),
                         b.BroadcastTo(shape).strides(), y.data<T>());
    }
  });
  return y;
}

// Which dimensions are named by `dims` (negative from the end, none: all).
std::vector<bool> Reduced(const char* name, const Tensor& x, const std::vector<int>& dims) {
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), dims.empty());
  for (const int dim : dims) {
    const int at = dim < 0 ? dim + x.rank() : dim;
    CROSSTALK_CHECK(at >= 0 && at < x.rank(), name, ": dimension ", dim, " of a tensor of shape ", x.shape());
    CROSSTALK_CHECK(!reduced[static_cast<size_t>(at)], name, ": dimension ", dim, " is named twice for shape ",
                    x.shape());
    reduced[static_cast<size_t>(at)] = true;
  }
  return reduced;
}

// Reduces each run of adjacent named dimensions in turn: no permuted copy is ever made.
// reduce_run(outer, reduced, inner, x, y).
template <typename ReduceRun>
Tensor Reduce(const char* name, const Tensor& x, const std::vector<int>& dims, KeepDims keep, ReduceRun&& reduce_run) {
  const std::vector<bool> reduced = Reduced(name, x, dims);
  Shape result_shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (!reduced[static_cast<size_t>(i)]) {
      result_shape.Append(x.shape()[i]);
    } else if (keep == KeepDims::kYes) {
      result_shape.Append(1);
    }
  }
  Tensor current = Contiguous(x);
  std::vector<int64_t> sizes = x.shape().ToVector();
  for (int end = x.rank(); end > 0;) {
    if (!reduced[static_cast<size_t>(end - 1)]) {
      --end;
      continue;
    }
    int begin = end;
    while (begin > 0 && reduced[static_cast<size_t>(begin - 1)]) --begin;
    const auto product = [&](int from, int to) {
      return std::accumulate(sizes.begin() + from, sizes.begin() + to, int64_t{1}, std::multiplies<>());
    };
    const int64_t outer = product(0, begin);
    const int64_t count = product(begin, end);
    const int64_t inner = product(end, x.rank());
    Tensor next = Tensor::Empty({outer, inner}, x.dtype());
    reduce_run(outer, count, inner, current, next);
    std::fill(sizes.begin() + begin, sizes.begin() + end, 1);
    current = next;
    end = begin;
  }
  return current.Reshape(result_shape);
}

}  // namespace

Tensor Add(const Tensor& a, const Tensor& b) { return CombineTensors("add", kernels::BinaryOp::kAdd, a, b); }
Tensor Sub(const Tensor& a, const Tensor& b) { return CombineTensors("sub", kernels::BinaryOp::kSub, a, b); }
Tensor Mul(const Tensor& a, const Tensor& b) { return CombineTensors("mul", kernels::BinaryOp::kMul, a, b); }
Tensor Div(const Tensor& a, const Tensor& b) { return CombineTensors("div", kernels::BinaryOp::kDiv, a, b); }

Tensor Affine(const Tensor& x, double factor, double term) {
  const Tensor values = Contiguous(x);
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  Launch("scale", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::Affine<T>(y.num_elements(), static_cast<T>(factor), static_cast<T>(term), values.data<T>(), y.data<T>());
  });
  return y;
}
Tensor Scale(const Tensor& x, double factor) { return Affine(x, factor, 0); }
Tensor AddScalar(const Tensor& x, double term) { return Affine(x, 1, term); }

Tensor MaskedFill(const Tensor& x, const Tensor& mask, double value) {
  CROSSTALK_CHECK(mask.dtype() == DType::kBool, "masked_fill: the mask is ", mask.dtype(), mask.shape(), ", not bool");
  CROSSTALK_CHECK(BroadcastShapes("masked_fill", x.shape(), mask.shape()) == x.shape(), "masked_fill: a mask of shape ",
                  mask.shape(), " does not broadcast to ", x.shape());
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  Launch("masked_fill", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::MaskedFill<T>(x.shape(), x.data<T>(), x.strides(), mask.data<uint8_t>(),
                           mask.BroadcastTo(x.shape()).strides(), static_cast<T>(value), y.data<T>());
  });
  return y;
}

void AddInPlace(const Tensor& accumulator, const Tensor& x) {
  CROSSTALK_CHECK(accumulator.shape() == x.shape() && accumulator.dtype() == x.dtype(), "add: cannot add ", x.dtype(),
                  x.shape(), " to ", accumulator.dtype(), accumulator.shape(), " in place");
  CROSSTALK_DCHECK(accumulator.is_contiguous());
  Launch("add", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const sum = accumulator.data<T>();
    if (x.is_contiguous()) {
      kernels::Axpy<T>(x.num_elements(), 1, x.data<T>(), sum);
    } else {
      kernels::Binary<T>(kernels::BinaryOp::kAdd, x.shape(), sum, accumulator.strides(), x.data<T>(), x.strides(), sum);
    }
  });
}

Tensor Sum(const Tensor& x, const std::vector<int>& dims, KeepDims keep) {
  return Reduce("sum", x, dims, keep, [&](int64_t outer, int64_t count, int64_t inner, const Tensor& in, Tensor& out) {
    Launch("sum", x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::Sum<T>(outer, count, inner, in.data<T>(), out.data<T>());
    });
  });
}

Tensor Max(const Tensor& x, const std::vector<int>& dims, KeepDims keep) {
  CROSSTALK_CHECK(x.num_elements() > 0, "max: the tensor of shape ", x.shape(), " is empty");
  return Reduce("max", x, dims, keep, [&](int64_t outer, int64_t count, int64_t inner, const Tensor& in, Tensor& out) {
    Launch("max", x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::Max<T>(outer, count, inner, in.data<T>(), out.data<T>(), nullptr);
    });
  });
}

Tensor Unbroadcast(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::vector<int> dims;
  const int extra = x.rank() - shape.rank();
  for (int i = 0; i < x.rank(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && x.shape()[i] != 1)) dims.push_back(i);
  }
  return (dims.empty() ? x : Sum(x, dims)).Reshape(shape);
}

Tensor Contiguous(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  CopyTo(x, y);
  return y;
}

void CopyTo(const Tensor& x, const Tensor& target) {
  CROSSTALK_CHECK(x.shape() == target.shape() && x.dtype() == target.dtype(), "copy: ", x.dtype(), x.shape(), " into ",
                  target.dtype(), target.shape());
  Launch([&] {
    DispatchAny(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::CopyStrided<T>(x.shape(), x.data<T>(), x.strides(), target.data<T>(), target.strides());
    });
  });
}

Tensor Concat(const std::vector<Tensor>& parts, int dim) {
  CROSSTALK_CHECK(!parts.empty(), "concat: no tensors");
  const int rank = parts[0].rank();
  const int at = dim < 0 ? dim + rank : dim;
  CROSSTALK_CHECK(at >= 0 && at < rank, "concat: dimension ", dim, " of a tensor of shape ", parts[0].shape());
  Shape shape = parts[0].shape();
  shape[at] = 0;
  for (const Tensor& part : parts) {
    Shape expected = part.shape();
    if (expected.rank() == rank) expected[at] = parts[0].shape()[at];
    CROSSTALK_CHECK(expected == parts[0].shape() && part.dtype() == parts[0].dtype(), "concat: ", part.dtype(),
                    part.shape(), " does not fit ", parts[0].dtype(), parts[0].shape(), " along dimension ", dim);
    shape[at] += part.shape()[at];
  }
  Tensor result = Tensor::Empty(shape, parts[0].dtype());
  int64_t begin = 0;
  for (const Tensor& part : parts) {
    const int64_t end = begin + part.shape()[at];
    if (part.num_elements() > 0) CopyTo(part, result.Slice(at, begin, end));
    begin = end;
  }
  return result;
}

}  // namespace crosstalk::math

namespace crosstalk {
namespace {

constexpr int64_t kTile = 1 << 13;  // elements of a task

// A contiguous copy of x by convert(count, from, to).
template <typename To, typename From>
Tensor Converted(const Tensor& x, void (*convert)(int64_t, const From*, To*)) {
  const Tensor from = math::Contiguous(x);
  const Tensor to = Tensor::Empty(x.shape(), DTypeOf<To>);
  Launch([&] {
    ParallelForRange(from.num_elements(), kTile, [&](int64_t begin, int64_t end) {
      convert(end - begin, from.data<From>() + begin, to.data<To>() + begin);
    });
  });
  return to;
}

bool RoundsProducts() { return CurrentContext().precision == Precision::kBFloat16; }

}  // namespace

Tensor Rounded(const Tensor& x) { return Converted(x, kernels::RoundToBFloat16); }

Tensor Widened(const Tensor& x) { return x.dtype() == DType::kBFloat16 ? Converted(x, kernels::WidenBFloat16) : x; }

Tensor KeptForBackward(const Tensor& x) {
  return RoundsProducts() && CurrentContext().recording && x.dtype() == DType::kFloat32 ? Rounded(x) : x;
}

Tensor ReadByProducts(const Tensor& x) { return RoundsProducts() ? x : Widened(x); }

}  // namespace crosstalk
