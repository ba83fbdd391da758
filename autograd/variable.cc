#include "crosstalk/autograd/variable.h"

#include <utility>

#include "crosstalk/autograd/tape.h"

namespace crosstalk {
namespace {

thread_local bool grad_enabled = true;
thread_local bool finite_checks = false;
thread_local bool skipped_recording = false;

// The dotted name; the function-local object outlives every scope of its thread.
std::string& Layer() {
  thread_local std::string layer;
  return layer;
}

}  // namespace

namespace internal {
bool SetGradEnabled(bool enabled) { return std::exchange(grad_enabled, enabled); }
bool SetFiniteChecks(bool on) { return std::exchange(finite_checks, on); }
bool FiniteChecksOn() { return finite_checks; }
std::string SetLayer(std::string layer) { return std::exchange(Layer(), std::move(layer)); }
bool& SkippedRecording() { return skipped_recording; }
}  // namespace internal

Variable::Variable(Tensor value, RequiresGrad requires_grad) : impl_(std::make_shared<Impl>()) {
  CROSSTALK_CHECK(value.defined(), "Variable: the tensor is undefined");
  impl_->value = std::move(value);
  if (requires_grad == RequiresGrad::kNo) return;
  CROSSTALK_CHECK(IsFloating(impl_->value.dtype()), "Variable: a ", impl_->value.dtype(),
                  " tensor cannot require a gradient; only float32 and float64 can");
  impl_->node = std::make_shared<internal::Node>();
  impl_->node->sequence = internal::NextSequence();
  impl_->node->shape = impl_->value.shape();
  impl_->node->dtype = impl_->value.dtype();
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
  CROSSTALK_CHECK(gradient.defined() && gradient.shape() == shape() && gradient.dtype() == dtype(),
                  "Variable: SetGrad needs ", dtype(), shape());
  impl_->node->gradient = std::move(gradient);
}

void Variable::SetValue(Tensor value) const {
  CROSSTALK_CHECK(is_leaf(), "Variable: SetValue on the result of an op");
  CROSSTALK_CHECK(value.defined() && value.shape() == shape() && value.dtype() == dtype(), "Variable: SetValue needs ",
                  dtype(), shape());
  impl_->value = std::move(value);
}

Variable Variable::Detach() const { return Variable(value()); }

NoGradScope::NoGradScope() : before_(internal::SetGradEnabled(false)) {}
NoGradScope::~NoGradScope() { internal::SetGradEnabled(before_); }
bool GradEnabled() { return grad_enabled; }

LayerScope::LayerScope(const std::string& name) : length_before_(Layer().size()) {
  if (!Layer().empty()) Layer() += '.';
  Layer() += name;
}
LayerScope::~LayerScope() { Layer().resize(length_before_); }
const std::string& CurrentLayer() { return Layer(); }

FiniteCheckScope::FiniteCheckScope() : before_(internal::SetFiniteChecks(true)) {}
FiniteCheckScope::~FiniteCheckScope() { internal::SetFiniteChecks(before_); }

}  // namespace crosstalk
