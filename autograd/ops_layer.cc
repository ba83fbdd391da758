// What layers are made of: the matrix product, norms, dropout, positions and convolutions of heads.
#include <algorithm>

#include "crosstalk/autograd/einsum/contraction.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/heads.h"
#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/check.h"
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

namespace {

struct NormRows {
  int64_t rows = 0, cols = 0;
};

NormRows CheckNorm(const char* name, const Variable& x, double eps) {
  CROSSTALK_CHECK(x.rank() >= 1 && x.size(-1) > 0, name, ": x", x.shape(), " has no last dimension to normalise over");
  CROSSTALK_CHECK(eps >= 0, name, ": eps must not be negative, but is ", eps);
  return {x.value().num_elements() / x.size(-1), x.size(-1)};
}

void CheckParameter(const char* name, const char* parameter, const Variable& value, const Variable& x) {
  CROSSTALK_CHECK(value.dtype() == x.dtype(), name, ": ", parameter, " is ", value.dtype(), ", but x is ", x.dtype());
  CROSSTALK_CHECK(value.shape() == Shape({x.size(-1)}), name, ": ", parameter, "[d] = ", value.shape(),
                  " does not fit x[…, d] = ", x.shape());
}

// A gradient's tensor if it is needed, else undefined.
Tensor ResultIf(bool needed, const Shape& shape, DType dtype) {
  return needed ? Tensor::Empty(shape, dtype) : Tensor();
}

// Where the gradient of x, a norm's input 0, goes: into the sum of those before it, where the kernel may add to that.
struct InputGradient {
  InputGradient(Gradients& gradients, const Shape& shape, DType dtype) : sum(gradients.Accumulator(0)) {
    result = sum != nullptr ? *sum : ResultIf(gradients.Needs(0), shape, dtype);
  }
  kernels::AddsToInput adds() const { return sum != nullptr ? kernels::AddsToInput::kYes : kernels::AddsToInput::kNo; }
  void AddTo(Gradients& gradients) {
    if (sum == nullptr && result.defined()) gradients.Add(0, result);
  }

  Tensor* sum;
  Tensor result;
};

template <typename T>
T* DataOrNull(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

}  // namespace

Variable RmsNorm(const Variable& x, const Variable& scale, double eps) {
  const NormRows size = CheckNorm("rms_norm", x, eps);
  CheckParameter("rms_norm", "scale", scale, x);
  const Tensor values = math::Contiguous(x.value());
  const Tensor factors = math::Contiguous(scale.value());
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  Tensor rstd = Tensor::Empty({size.rows}, x.dtype());
  Launch("rms_norm", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::RmsNorm<T>(size.rows, size.cols, values.data<T>(), factors.data<T>(), eps, y.data<T>(), rstd.data<T>());
  });
  return MakeOp("rms_norm", y, {x, scale},
                [values, factors, rstd, size](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  InputGradient dx(gradients, values.shape(), dy.dtype());
                  const Tensor dscale = ResultIf(gradients.Needs(1), factors.shape(), dy.dtype());
                  const Tensor workspace = Tensor::Empty({kernels::NormWorkspace(size.rows, size.cols)}, dy.dtype());
                  Launch("rms_norm", dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    kernels::RmsNormGradient<T>(size.rows, size.cols, values.data<T>(), factors.data<T>(),
                                                rstd.data<T>(), dy.data<T>(), DataOrNull<T>(dx.result),
                                                DataOrNull<T>(dscale), workspace.data<T>(), dx.adds());
                  });
                  dx.AddTo(gradients);
                  if (dscale.defined()) gradients.Add(1, dscale);
                });
}

Variable LayerNorm(const Variable& x, const Variable& scale, const Variable& bias, double eps) {
  const NormRows size = CheckNorm("layer_norm", x, eps);
  CheckParameter("layer_norm", "scale", scale, x);
  CheckParameter("layer_norm", "bias", bias, x);
  const Tensor values = math::Contiguous(x.value());
  const Tensor factors = math::Contiguous(scale.value());
  const Tensor terms = math::Contiguous(bias.value());
  Tensor y = Tensor::Empty(x.shape(), x.dtype());
  Tensor mean = Tensor::Empty({size.rows}, x.dtype());
  Tensor rstd = Tensor::Empty({size.rows}, x.dtype());
  Launch("layer_norm", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::LayerNorm<T>(size.rows, size.cols, values.data<T>(), factors.data<T>(), terms.data<T>(), eps, y.data<T>(),
                          mean.data<T>(), rstd.data<T>());
  });
  return MakeOp("layer_norm", y, {x, scale, bias},
                [values, factors, mean, rstd, size](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  InputGradient dx(gradients, values.shape(), dy.dtype());
                  const Tensor dscale = ResultIf(gradients.Needs(1), factors.shape(), dy.dtype());
                  const Tensor dbias = ResultIf(gradients.Needs(2), factors.shape(), dy.dtype());
                  const Tensor workspace = Tensor::Empty({kernels::NormWorkspace(size.rows, size.cols)}, dy.dtype());
                  Launch("layer_norm", dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    kernels::LayerNormGradient<T>(size.rows, size.cols, values.data<T>(), factors.data<T>(),
                                                  mean.data<T>(), rstd.data<T>(), dy.data<T>(),
                                                  DataOrNull<T>(dx.result), DataOrNull<T>(dscale), DataOrNull<T>(dbias),
                                                  workspace.data<T>(), dx.adds());
                  });
                  dx.AddTo(gradients);
                  if (dscale.defined()) gradients.Add(1, dscale);
                  if (dbias.defined()) gradients.Add(2, dbias);
                });
}

Variable Dropout(const Variable& x, double rate, const RandomKey& key) {
  CROSSTALK_CHECK(rate >= 0 && rate < 1, "dropout: the rate must be in [0, 1), but is ", rate);
  if (rate == 0) return x;
  const int64_t count = x.value().num_elements();
  const auto drop = [count, rate, key](const auto* from, auto* to) { kernels::Dropout(count, rate, key, from, to); };
  return KernelOp("dropout", x, x.shape(), {}, drop,
                  [drop](const auto*, const auto*, const auto* dy, auto* dx) { drop(dy, dx); });  // the same mask
}

Variable RotateByPosition(const Variable& x, kernels::RotaryPairs pairs, const kernels::RotaryFrequencies& frequencies,
                          int64_t first) {
  Dims dims("rotary positions");
  dims.Bind("x[b, n, heads, d]", x.shape());
  CROSSTALK_CHECK(dims["d"] % 2 == 0, "rotary positions: x[b, n, heads, d] = ", x.shape(),
                  " has an odd d, which does not make pairs");
  CROSSTALK_CHECK(frequencies.base > 0 && first >= 0, "rotary positions: base=", frequencies.base, " and first=", first,
                  " must be positive, and at least 0");
  const kernels::RotaryShape shape = {dims["b"], dims["n"], dims["heads"], dims["d"], pairs};
  const Tensor cos = Tensor::Empty({shape.n, shape.d / 2}, x.dtype()), sin = Tensor::Empty(cos.shape(), x.dtype());
  Launch("rotary", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::RotaryTable(shape.n, shape.d, first, frequencies, cos.data<T>(), sin.data<T>());
  });
  const auto rotate = [shape, cos, sin](int direction, const auto* from, auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    kernels::Rotate<T>(shape, cos.data<T>(), sin.data<T>(), direction, from, to);
  };
  return KernelOp(
      "rotary", x, x.shape(), {}, [rotate](const auto* from, auto* to) { rotate(1, from, to); },
      [rotate](const auto*, const auto*, const auto* dy, auto* dx) { rotate(-1, dy, dx); });
}

Variable ConvolveHeads(const Variable& S, const Variable& filter, int64_t left, CausalConvolution causal) {
  Dims dims("head convolution");
  dims.Bind("S[b, h, n, m]", S.shape());
  dims.Bind("filter[c_q, c_k, h]", filter.shape());
  CROSSTALK_CHECK(S.dtype() == filter.dtype(), "head convolution: S is ", S.dtype(), ", but filter is ",
                  filter.dtype());
  CROSSTALK_CHECK(left >= 0 && left < dims["c_k"], "head convolution: left=", left, " is not one of the ", dims["c_k"],
                  " keys of a filter");
  const kernels::HeadConvolutionShape shape = {dims["b"],   dims["h"],   dims["n"], dims["m"],
                                               dims["c_q"], dims["c_k"], left,      causal == CausalConvolution::kYes};
  CROSSTALK_CHECK(!shape.causal || shape.n <= shape.m, "head convolution: causal with n=", shape.n,
                  " queries needs as many keys, but m=", shape.m);
  const Tensor x = math::Contiguous(S.value()), factors = math::Contiguous(filter.value());
  const Tensor y = Tensor::Empty(x.shape(), x.dtype());
  const int64_t multiplications = SaturatingProduct(x.num_elements(), shape.c_q, shape.c_k);
  Launch("head_convolution", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::HeadConvolution<T>(shape, x.data<T>(), factors.data<T>(), y.data<T>());
  });
  CountMultiplications(multiplications);
  return MakeOp("head_convolution", y, {S, filter},
                [shape, x, factors](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  const Tensor dx = gradients.Needs(0) ? Tensor::Empty(x.shape(), dy.dtype()) : Tensor();
                  const Tensor dfilter = gradients.Needs(1) ? Tensor::Empty(factors.shape(), dy.dtype()) : Tensor();
                  Launch("head_convolution", dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    kernels::HeadConvolutionGradient<T>(shape, x.data<T>(), factors.data<T>(), dy.data<T>(),
                                                        dx.defined() ? dx.data<T>() : nullptr,
                                                        dfilter.defined() ? dfilter.data<T>() : nullptr);
                  });
                  if (dx.defined()) gradients.Add(0, dx);
                  if (dfilter.defined()) gradients.Add(1, dfilter);
                });
}

}  // namespace crosstalk
