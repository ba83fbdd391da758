#include "crosstalk/autograd/ops_matmul.h"

#include <algorithm>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

using math::Labels;

// A dimension of size 1 that the other operand stretches has no label: it is dropped from the operand.
struct Labelled {
  Tensor tensor;
  Labels labels;
};

constexpr int kRow = 100, kColumn = 101, kInner = 102;

// Leading dimension i of the result (from the last backwards) has label i.
Labelled Label(const Tensor& x, const Shape& batch, int first, int second) {
  Labelled result;
  Tensor view = x;
  for (int i = 0, dropped = 0; i < x.rank() - 2; ++i) {
    const int from_end = x.rank() - 2 - i;
    if (x.shape()[i] == 1 && batch.at(-from_end) != 1) {
      view = view.Select(i - dropped, 0);
      ++dropped;
    } else {
      result.labels.push_back(from_end);
    }
  }
  result.labels.push_back(first);
  result.labels.push_back(second);
  result.tensor = view;
  return result;
}

}  // namespace

Variable MatMul(const Variable& a, const Variable& b, kernels::Transpose transpose_a, kernels::Transpose transpose_b) {
  const bool flip_a = transpose_a == kernels::Transpose::kYes;
  const bool flip_b = transpose_b == kernels::Transpose::kYes;
  CROSSTALK_CHECK(a.rank() >= 2 && b.rank() >= 2, "matmul: A", a.shape(), " and B", b.shape(),
                  " must have 2 dimensions or more");
  CROSSTALK_CHECK(a.dtype() == b.dtype(), "matmul: A is ", a.dtype(), " and B is ", b.dtype(), "; convert one");
  const int64_t inner_a = a.size(flip_a ? -2 : -1);
  const int64_t inner_b = b.size(flip_b ? -1 : -2);
  CROSSTALK_CHECK(inner_a == inner_b, "matmul: A", a.shape(), flip_a ? " transposed" : "", " has k=", inner_a,
                  ", but k=", inner_b, " in B", b.shape(), flip_b ? " transposed" : "");
  const auto leading = [](const Shape& shape) {
    Shape result;
    for (int i = 0; i < shape.rank() - 2; ++i) result.Append(shape[i]);
    return result;
  };
  const Shape batch = BroadcastShapes("matmul", leading(a.shape()), leading(b.shape()));
  const Labelled left = Label(a.value(), batch, flip_a ? kInner : kRow, flip_a ? kRow : kInner);
  const Labelled right = Label(b.value(), batch, flip_b ? kColumn : kInner, flip_b ? kInner : kColumn);
  Labels labels;
  for (int i = batch.rank(); i > 0; --i) labels.push_back(i);
  labels.push_back(kRow);
  labels.push_back(kColumn);
  // Label i stands for the leading dimension i-th from the last: labels of size-1 dimensions that both lack are in
  // neither operand only if the rank of both is smaller, which BroadcastShapes excludes.
  CountMultiplications(
      SaturatingProduct(batch.NumElements(), a.size(flip_a ? -1 : -2), inner_a, b.size(flip_b ? -2 : -1)));
  const Tensor y = math::Contract(left.tensor, left.labels, right.tensor, right.labels, labels);
  const Labelled kept_left = {b.requires_grad() ? left.tensor : Tensor(), left.labels};
  const Labelled kept_right = {a.requires_grad() ? right.tensor : Tensor(), right.labels};
  return MakeOp("matmul", y, {a, b},
                [kept_left, kept_right, labels, shape_a = a.shape(), shape_b = b.shape()](const Tensor& dy,
                                                                                          Gradients& gradients) {
                  if (gradients.Needs(0)) {  // dA = dY · Bᵀ, summed where A was stretched
                    const Tensor da =
                        math::Contract(dy, labels, kept_right.tensor, kept_right.labels, kept_left.labels);
                    gradients.Add(0, da.Reshape(shape_a));
                  }
                  if (gradients.Needs(1)) {  // dB = Aᵀ · dY
                    const Tensor db = math::Contract(kept_left.tensor, kept_left.labels, dy, labels, kept_right.labels);
                    gradients.Add(1, db.Reshape(shape_b));
                  }
                });
}

}  // namespace crosstalk
