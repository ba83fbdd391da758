// An op of one input whose value is one kernel and whose gradient is another, so that the op costs its two formulas.
#pragma once

#include <utility>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

// The gradient's inputs besides dy.
struct KernelOpSaves {
  bool x = false, y = false;
};

// y[shape] = f(x) by forward(x, y), dx = dy · f′ by backward(x, y, dy, dx), on contiguous arrays of float or double;
// of x and y, backward gets null for what is not saved. Neither is called where x is empty.
//   return KernelOp("softmax", x, x.shape(), {.y = true},
//                   [=](const auto* x, auto* y) { kernels::Softmax(…, x, y); },
//                   [=](const auto*, const auto* y, const auto* dy, auto* dx) { kernels::SoftmaxGradient(…); });
template <typename Forward, typename Backward>
Variable KernelOp(const char* name, const Variable& input, const Shape& shape, const KernelOpSaves& saves,
                  Forward forward, Backward backward) {
  const Tensor x = math::Contiguous(input.value());
  const Tensor y = Tensor::Empty(shape, x.dtype());
  const bool empty = x.num_elements() == 0;
  Launch(name, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (!empty) forward(static_cast<const T*>(x.data<T>()), y.data<T>());
  });
  return MakeOp(name, y, {input},
                [name, backward, empty, shape = x.shape(), x = saves.x ? x : Tensor(), y = saves.y ? y : Tensor()](
                    const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  const Tensor dx = Tensor::Empty(shape, dy.dtype());
                  Launch(name, dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    const auto data = [](const Tensor& t) -> const T* { return t.defined() ? t.data<T>() : nullptr; };
                    if (!empty) backward(data(x), data(y), data(dy), dx.data<T>());
                  });
                  gradients.Add(0, dx);
                });
}

}  // namespace crosstalk
