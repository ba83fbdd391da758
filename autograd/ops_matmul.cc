#include "crosstalk/autograd/ops_matmul.h"

#include <algorithm>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/rounded.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
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
  CROSSTALK_CHECK(ResultDType(a.dtype()) == ResultDType(b.dtype()), "matmul: A is ", a.dtype(), " and B is ", b.dtype(),
                  "; convert one");
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
  // Label i is the leading dimension i-th from the last: labels of size-1 dimensions that both lack are in
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

Variable MatMulAdd(const Variable& a, const Variable& b, const Variable& bias) {
  Dims dims("matmul_add");
  dims.Bind("A[rows, k]", a.shape()).Bind("B[k, n]", b.shape()).Bind("bias[n]", bias.shape());
  const DType dtype = ResultDType(a.dtype());
  CROSSTALK_CHECK(dtype == ResultDType(b.dtype()) && dtype == bias.dtype(), "matmul_add: A is ", a.dtype(), ", B is ",
                  b.dtype(), " and the bias is ", bias.dtype(), "; convert them to one");
  const int64_t rows = dims["rows"], k = dims["k"], n = dims["n"];
  const Tensor left = math::Contiguous(ReadByProducts(a.value())), right = math::Contiguous(ReadByProducts(b.value()));
  const Tensor term = math::Contiguous(bias.value());
  const Tensor y = Tensor::Empty({rows, n}, dtype);
  CountMultiplications(SaturatingProduct(rows, k, n));
  DispatchFloat("matmul_add", dtype, [&](auto zero) {
    using T = decltype(zero);
    kernels::GemmArguments<T> gemm;
    gemm.m = rows, gemm.n = n, gemm.k = k;
    gemm.a = OperandOf<T>(left, std::max<int64_t>(1, k));
    gemm.b = OperandOf<T>(right, std::max<int64_t>(1, n));
    gemm.c = y.data<T>(), gemm.ldc = std::max<int64_t>(1, n);
    gemm.bias = term.data<T>();
    SetAsInContext(gemm);
    kernels::Gemm<T>(gemm);
  });
  const Tensor kept_left = b.requires_grad() ? left : Tensor(), kept_right = a.requires_grad() ? right : Tensor();
  return MakeOp("matmul_add", y, {a, b, bias}, [kept_left, kept_right](const Tensor& dy, Gradients& gradients) {
    const Labels of_y = {kRow, kColumn}, of_a = {kRow, kInner}, of_b = {kInner, kColumn};
    if (gradients.Needs(0)) gradients.Add(0, math::Contract(dy, of_y, kept_right, of_b, of_a));  // dA = dY · Bᵀ
    if (gradients.Needs(1)) gradients.Add(1, math::Contract(kept_left, of_a, dy, of_y, of_b));   // dB = Aᵀ · dY
    if (gradients.Needs(2)) gradients.Add(2, math::Unbroadcast(dy, {dy.size(1)}));               // the sum of its rows
  });
}

Variable AsOperand(const Variable& x) {
  const Tensor kept = KeptForBackward(x.value());
  if (kept.dtype() == x.dtype()) return x;
  return MakeOp("as_operand", kept, {x}, [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

}  // namespace crosstalk
