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
// input that is one kernel forward and one back is a KernelOp (autograd/kernel_op.h).
#pragma once

#include <functional>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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
  // Null where there is none yet, or it is shared: then Add.
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
bool IsRecorded(const std::vector<Variable>& inputs);

// `name` must outlive the program (a literal). dy has the value's shape and dtype (float32 for bfloat16) and may be
// strided. Records nothing if no input requires a gradient (but see OpTraits) or recording is off.
Variable MakeOp(const char* name, Tensor value, const std::vector<Variable>& inputs, BackwardFunction backward,
                const OpTraits& traits = {});

}  // namespace crosstalk
