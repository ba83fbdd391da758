// The one way to declare a differentiable operation: compute the value, then hand MakeOp the inputs and a function
// that turns dY into the gradients of the inputs. Forward and gradient stand in one function, on one screen:
//
//   Variable Exp(const Variable& x) {
//     Tensor y = …;                                                      // y = e^x
//     return MakeOp("exp", y, {x}, [y](const Tensor& dy, Gradients& gradients) {
//       gradients.Add(0, math::Multiply(dy, y));                         // dx = dy · e^x
//     });
//   }
//
// Capture in the function only what the gradient needs: whatever it does not hold is freed as soon as the caller
// lets go of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "crosstalk/autograd/variable.h"

namespace crosstalk {

namespace internal {
void RunBackward(const std::shared_ptr<Node>& root, Tensor seed, uint64_t oldest);
}

// Where a backward function puts its results.
class Gradients {
 public:
  // True if input `i` (its place in MakeOp's list) needs a gradient. Skip the work where it does not.
  bool Needs(int i) const;
  // Adds to the gradient of input `i`; ignored if it needs none. `gradient` has the input's shape and dtype, any
  // strides. It may share storage with dy or other gradients: sums never write into shared storage.
  void Add(int i, Tensor gradient);
  // The gradient of input `i` so far, where the op may add to its elements itself: contiguous, shared with nothing.
  // Null where there is none yet, or it is shared: then Add.
  Tensor* SumInPlace(int i);

 private:
  friend void internal::RunBackward(const std::shared_ptr<internal::Node>&, Tensor, uint64_t);
  explicit Gradients(internal::Node* node) : node_(node) {}
  internal::Node* node_;
};

using BackwardFunction = std::function<void(const Tensor& dy, Gradients& gradients)>;

// `name` must outlive the program (a literal). dy has the value's shape and dtype and may be strided.
// Records nothing if no input requires a gradient or recording is off.
Variable MakeOp(const char* name, Tensor value, const std::vector<Variable>& inputs, BackwardFunction backward);

// Activation recomputation: computes function(inputs) without recording its inside, and computes it again when its
// gradient is asked for. Leaves that `function` captures (parameters) receive their gradients too. `function` must be
// a pure function of its inputs and of captured leaves (dropout is, its numbers come from a key).
Variable Recompute(const std::function<Variable(const std::vector<Variable>&)>& function,
                   const std::vector<Variable>& inputs);

}  // namespace crosstalk
