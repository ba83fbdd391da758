// Variable: a Tensor that remembers how it was computed. Define-by-run: every op applied to a Variable that needs a
// gradient adds a node to the tape, which Backward (autograd/tape.h) walks from the result.
#pragma once

#include <memory>

#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

namespace internal {
struct Node;
class VariableAccess;
}  // namespace internal

// A value type: copies share the value, the place on the tape, and (a leaf's) gradient.
class Variable {
 public:
  Variable() = default;  // undefined
  // A leaf. With requires_grad = kYes, Backward accumulates into grad().
  enum class RequiresGrad { kNo, kYes };
  explicit Variable(Tensor value, RequiresGrad requires_grad = RequiresGrad::kNo);

  bool defined() const { return impl_ != nullptr; }
  const Tensor& value() const;
  const Shape& shape() const { return value().shape(); }
  int64_t size(int dim) const { return value().size(dim); }
  int rank() const { return value().rank(); }
  DType dtype() const { return value().dtype(); }
  bool requires_grad() const;
  bool is_leaf() const;
  // Sets it for a leaf, in all its copies, for what is computed from now on; drops a gradient that it has.
  void SetRequiresGrad(RequiresGrad requires_grad) const;

  // A leaf's accumulated gradient; undefined until a Backward has reached it.
  const Tensor& grad() const;
  void ZeroGrad() const;                // makes grad() undefined
  void SetGrad(Tensor gradient) const;  // leaf only; same shape and dtype
  // Leaf only; same shape and dtype. A float32 leaf may become bfloat16, which products alone read, and back.
  void SetValue(Tensor value) const;

  Variable Detach() const;  // the same value, off the tape

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  friend struct internal::Node;
  friend class internal::VariableAccess;
};

}  // namespace crosstalk
#pragma GCC visibility pop
