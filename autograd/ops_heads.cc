#include "crosstalk/autograd/ops_heads.h"

#include "crosstalk/autograd/kernel_op.h"
#include "crosstalk/kernels/head_convolution.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

Variable RotateByPosition(const Variable& x, kernels::RotaryPairs pairs, double base, int64_t first) {
  Dims dims("rotary positions");
  dims.Bind("x[b, n, heads, d]", x.shape());
  CROSSTALK_CHECK(dims["d"] % 2 == 0, "rotary positions: x[b, n, heads, d] = ", x.shape(),
                  " has an odd d, which does not make pairs");
  CROSSTALK_CHECK(base > 0 && first >= 0, "rotary positions: base=", base, " and first=", first,
                  " must be positive, and at least 0");
  const kernels::RotaryShape shape = {dims["b"], dims["n"], dims["heads"], dims["d"], pairs};
  const Tensor cos = Tensor::Empty({shape.n, shape.d / 2}, x.dtype()), sin = Tensor::Empty(cos.shape(), x.dtype());
  Launch("rotary", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::RotaryTable(shape.n, shape.d, first, base, cos.data<T>(), sin.data<T>());
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
