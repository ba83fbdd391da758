#include "crosstalk/autograd/ops_norm.h"

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/norm.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
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

// A gradient's tensor where it is needed, else undefined.
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

}  // namespace crosstalk
