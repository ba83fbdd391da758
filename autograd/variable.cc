#include "crosstalk/autograd/variable.h"

#include <utility>

#include "crosstalk/autograd/tape.h"

namespace crosstalk {

Variable::Variable(Tensor value, RequiresGrad requires_grad) : impl_(std::make_shared<Impl>()) {
  CROSSTALK_CHECK(value.defined(), "Variable: the tensor is undefined");
  impl_->value = std::move(value);
  SetRequiresGrad(requires_grad);
}

void Variable::SetRequiresGrad(RequiresGrad requires_grad) const {
  CROSSTALK_CHECK(is_leaf(), "Variable: SetRequiresGrad on the result of an op, or on an undefined one");
  impl_->node = nullptr;
  if (requires_grad == RequiresGrad::kNo) return;
  CROSSTALK_CHECK(IsFloating(ResultDType(impl_->value.dtype())), "Variable: a ", impl_->value.dtype(),
                  " tensor cannot require a gradient; only float32, float64 and bfloat16 can");
  impl_->node = internal::NewLeaf(impl_->value.shape(), impl_->value.dtype());
}

const Tensor& Variable::value() const {
  CROSSTALK_CHECK(defined(), "Variable: undefined (default-constructed and never assigned)");
  return impl_->value;
}

bool Variable::requires_grad() const { return defined() && impl_->node != nullptr; }

bool Variable::is_leaf() const { return defined() && (impl_->node == nullptr || impl_->node->leaf); }

const Tensor& Variable::grad() const {
  CROSSTALK_CHECK(requires_grad() && is_leaf(), "Variable: only a leaf that requires a gradient has grad()");
  return impl_->node->gradient;
}

void Variable::ZeroGrad() const {
  CROSSTALK_CHECK(requires_grad() && is_leaf(), "Variable: ZeroGrad on something that has no gradient");
  impl_->node->gradient = Tensor();
}

void Variable::SetGrad(Tensor gradient) const {
  CROSSTALK_CHECK(requires_grad() && is_leaf(), "Variable: SetGrad on something that has no gradient");
  CROSSTALK_CHECK(gradient.defined() && gradient.shape() == shape() && gradient.dtype() == impl_->node->dtype,
                  "Variable: SetGrad needs ", impl_->node->dtype, shape());
  impl_->node->gradient = std::move(gradient);
}

void Variable::SetValue(Tensor value) const {
  CROSSTALK_CHECK(is_leaf(), "Variable: SetValue on the result of an op");
  CROSSTALK_CHECK(value.defined() && value.shape() == shape() && ResultDType(value.dtype()) == ResultDType(dtype()),
                  "Variable: SetValue needs ", dtype(), shape());
  impl_->value = std::move(value);
}

Variable Variable::Detach() const { return Variable(value()); }

}  // namespace crosstalk
