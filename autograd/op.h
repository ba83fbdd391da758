// The one way to declare a differentiable operation: compute the value, then hand MakeOp the inputs and a function
// that turns dY into the gradients of the inputs. Forward and gradient stand in one function, on one screen:
//
//   Variable Exp(const Variable& x) {
//     Tensor y = …;                                                      // y = e^x
//     return MakeOp("exp", y, {x}, [y](const Tensor& dy, Gradients& gradients) {
//       gradients.Add(0, math::Mul(dy, y));                              // dx = dy · e^x
//     });
//   }
//
// Capture in the function only what the gradient needs: whatever it does not hold is freed as soon as the caller
// lets go of it. Kernels run inside Launch (runtime/storage.h), results are allocated in front of it. An op of one
// input that is one kernel forward and one back is a KernelOp (autograd/op.h).
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/storage.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Where a backward function puts its results.
class Gradients {
 public:
  explicit Gradients(internal::Node* node) : node_(node) {}  // the tape's to call

  // True if input `i` (its place in MakeOp's list) needs a gradient. Skip the work where it does not.
  bool Needs(int i) const;
  // Adds to the gradient of input `i`; ignored if it needs none. `gradient` has the input's shape and dtype
  // (float32 for bfloat16), any strides. It may share storage with dy or other gradients: sums never write into shared
  // storage.
  void Add(int i, Tensor gradient);
  // The gradient of input `i` so far, where the op may add to its elements itself: contiguous, shared with nothing.
  // Null if there is none yet, or it is shared: then Add.
  Tensor* Accumulator(int i);

 private:
  internal::Node* node_;
};

using BackwardFunction = std::function<void(const Tensor& dy, Gradients& gradients)>;

// An op's own properties.
struct OpTraits {
  // The result may hold -infinity where no input does, on purpose: the finite checks let it pass.
  bool introduces_minus_infinity = false;
  // The backward function reaches leaves that are not among the inputs: the op is recorded whether or not an input
  // requires a gradient. Its result has no finite check: the ops inside had.
  bool captures_leaves = false;
};

// Whether MakeOp records an op of these inputs that captures no leaves: what it would keep for its gradient is not
// worth computing otherwise.
bool IsRecorded(std::span<const Variable> inputs);
inline bool IsRecorded(std::initializer_list<Variable> inputs) {
  return IsRecorded(std::span<const Variable>(inputs.begin(), inputs.size()));
}

// `name` must outlive the program (a literal). dy has the value's shape and dtype (float32 for bfloat16) and may be
// strided. Records nothing if no input requires a gradient (but see OpTraits) or recording is off.
Variable MakeOp(const char* name, Tensor value, std::span<const Variable> inputs, BackwardFunction backward,
                const OpTraits& traits = {});
inline Variable MakeOp(const char* name, Tensor value, std::initializer_list<Variable> inputs,
                       BackwardFunction backward, const OpTraits& traits = {}) {
  return MakeOp(name, std::move(value), std::span<const Variable>(inputs.begin(), inputs.size()), std::move(backward),
                traits);
}

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// An op of one input whose value is one kernel and whose gradient is another, so that the op costs its two formulas.

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

// A shape around one dimension: what kernels take that reduce or look up along it.

// x[outer, size, inner]: the dimensions before number `axis`, itself, those after it.
struct AxisSplit {
  int axis = 0;
  int64_t outer = 1, size = 1, inner = 1;
};

// `dim` may count from the end; a usage error that names `op` if there is no such dimension.
inline AxisSplit SplitAt(const char* op, const Shape& shape, int dim) {
  AxisSplit split;
  split.axis = dim < 0 ? dim + shape.rank() : dim;
  CROSSTALK_CHECK(split.axis >= 0 && split.axis < shape.rank(), op, ": dimension ", dim, " of a tensor of shape ",
                  shape);
  for (int i = 0; i < shape.rank(); ++i) {
    (i < split.axis ? split.outer : i == split.axis ? split.size : split.inner) *= shape[i];
  }
  return split;
}

}  // namespace crosstalk
