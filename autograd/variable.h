// Variable: a Tensor that remembers how it was computed. Define-by-run: every op applied to a Variable that needs a
// gradient adds a node to the tape; Backward walks the tape from the result and frees it as it goes.
#pragma once

#include <memory>
#include <string>

#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

namespace internal {
struct Node;
}

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

  // A leaf's accumulated gradient; undefined until a Backward has reached it.
  const Tensor& grad() const;
  void ZeroGrad() const;                // makes grad() undefined
  void SetGrad(Tensor gradient) const;  // leaf only; same shape and dtype
  void SetValue(Tensor value) const;    // leaf only; same shape and dtype

  Variable Detach() const;  // the same value, off the tape

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  friend struct internal::Node;
  friend class OpBuilder;
};

// Fills grad() of every leaf that `output` depends on and that requires a gradient, adding to what is there.
// `output` has one element, or `seed` gives d loss / d output. Iterative (depth is not limited by the stack), in
// reverse order of creation (so the order of every sum is fixed). The tape behind `output` is used up: a second
// Backward through it is a usage error. Nodes that need no gradient are never visited.
void Backward(const Variable& output, const Tensor& seed = Tensor());

// While one lives, ops on this thread record nothing.
class NoGradScope {
 public:
  NoGradScope();
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;

 private:
  bool before_;
};
bool GradEnabled();

// Names the part of the model that the ops made while it lives belong to ("encoder.block_3.attention"), so that a
// non-finite value can be traced to the layer that first produced it. Nests: names are joined by dots.
class LayerScope {
 public:
  explicit LayerScope(const std::string& name);
  ~LayerScope();
  LayerScope(const LayerScope&) = delete;

 private:
  size_t length_before_;
};
const std::string& CurrentLayer();

// While one lives, every op result and every gradient made on this thread is tested, and the first that holds a NaN
// or infinity throws Error(kNumerical) naming layer, op, direction (result or gradient), index and value. Minus
// infinity is let through where masked_fill writes it and where an input already held it. Slow: the
// trainer turns it on only to explain a loss or gradient that is already known not to be finite.
class FiniteCheckScope {
 public:
  FiniteCheckScope();
  ~FiniteCheckScope();
  FiniteCheckScope(const FiniteCheckScope&) = delete;

 private:
  bool before_;
};

}  // namespace crosstalk
