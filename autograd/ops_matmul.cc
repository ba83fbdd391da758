#include "crosstalk/autograd/ops_matmul.h"

#include <algorithm>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/einsum/contraction_gradient.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/rounded.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

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
                  // dA = dY · Bᵀ and dB = Aᵀ · dY, summed where the operand was stretched.
                  const auto add = [&](int i, const Tensor& x, const Labels& of_x, const Tensor& y, const Labels& of_y,
                                       const Labels& result, const Shape& shape) {
                    if (!gradients.Needs(i)) return;
                    if (std::ssize(result) == shape.rank())
                      return AddContraction(gradients, i, x, of_x, y, of_y, result);
                    gradients.Add(i, math::Contract(x, of_x, y, of_y, result).Reshape(shape));
                  };
                  add(0, dy, labels, kept_right.tensor, kept_right.labels, kept_left.labels, shape_a);
                  add(1, kept_left.tensor, kept_left.labels, dy, labels, kept_right.labels, shape_b);
                });
}

Variable MatMulAdd(const Variable& a, const Variable& b, const Variable& bias) {
  CROSSTALK_CHECK(a.rank() >= 1, "matmul_add: A", a.shape(), " must have a dimension");
  Dims dims("matmul_add");
  dims.Set("k", a.size(-1), "A's last dimension").Bind("B[k, n]", b.shape()).Bind("bias[n]", bias.shape());
  const DType dtype = ResultDType(a.dtype());
  CROSSTALK_CHECK(dtype == ResultDType(b.dtype()) && dtype == bias.dtype(), "matmul_add: A is ", a.dtype(), ", B is ",
                  b.dtype(), " and the bias is ", bias.dtype(), "; convert them to one");
  const int64_t k = dims["k"], n = dims["n"];
  Shape shape = a.shape();
  shape[shape.rank() - 1] = n;
  int64_t rows = 1;
  for (int i = 0; i < a.rank() - 1; ++i) rows *= a.size(i);
  const Tensor left = math::Contiguous(ReadByProducts(a.value()));
  const Tensor right = math::Contiguous(ReadByProducts(b.value()));
  const Tensor term = math::Contiguous(bias.value());
  const Tensor y = Tensor::Empty(shape, dtype);
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
  Labels of_y, of_a;  // the leading dimensions alike
  for (int i = 1; i < a.rank(); ++i) of_y.push_back(i), of_a.push_back(i);
  of_y.push_back(kColumn), of_a.push_back(kInner);
  return MakeOp("matmul_add", y, {a, b, bias},
                [kept_left, kept_right, of_y, of_a, n](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  const Labels of_b = {kInner, kColumn};
                  if (gradients.Needs(0)) AddContraction(gradients, 0, dy, of_y, kept_right, of_b, of_a);  // dY · Bᵀ
                  if (gradients.Needs(1)) AddContraction(gradients, 1, kept_left, of_a, dy, of_y, of_b);   // Aᵀ · dY
                  if (gradients.Needs(2)) gradients.Add(2, math::Unbroadcast(dy, {n}));  // the sum of its rows
                });
}

Variable AsOperand(const Variable& x) {
  const Tensor kept = KeptForBackward(x.value());
  if (kept.dtype() == x.dtype()) return x;
  return MakeOp("as_operand", kept, {x}, [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

}  // namespace crosstalk
