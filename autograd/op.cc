#include "crosstalk/autograd/op.h"

#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

void CheckResult(const char* name, const Tensor& value, std::span<const Variable> inputs, const OpTraits& traits) {
  // Minus infinity that came in may go out: a mask put it there on purpose.
  bool minus_infinity = traits.introduces_minus_infinity;
  for (const Variable& input : inputs) minus_infinity = minus_infinity || internal::HoldsMinusInfinity(input.value());
  internal::CheckFinite(value, CurrentLayer(), name, "result",
                        minus_infinity ? MinusInfinity::kAccept : MinusInfinity::kReject);
}

std::shared_ptr<internal::Node> NodeOfOp(const char* name, const Tensor& value, std::span<const Variable> inputs,
                                         BackwardFunction backward, const OpTraits& traits) {
  auto node = internal::NewNode();
  node->sequence = internal::NextSequence();
  node->name = name;
  node->layer = CurrentContext().layer;
  node->precision = CurrentContext().precision;
  node->sum_order = CurrentContext().sum_order;
  node->shape = value.shape();
  node->dtype = ResultDType(value.dtype());
  node->leaf = false;
  node->captures_leaves = traits.captures_leaves;
  node->inputs.reserve(inputs.size());
  const LeafGradients* const own = CurrentContext().leaf_gradients;
  for (const Variable& input : inputs) {
    const std::shared_ptr<internal::Node>& of_input = internal::VariableAccess::NodeOf(input);
    node->inputs.push_back(own == nullptr ? of_input : own->Replace(of_input));
  }
  node->backward = std::move(backward);
  return node;
}

// The op's end, where something is traced.
void MarkOp(const char* name, const Tensor& value, std::span<const Variable> inputs) {
  const auto& trace = CurrentContext().trace;
  if (trace == nullptr) return;
  int64_t bytes = BytesOf(value.num_elements(), value.dtype());
  for (const Variable& input : inputs) bytes += BytesOf(input.value().num_elements(), input.dtype());
  trace->Mark({.kind = TraceEvent::Kind::kForward, .name = name, .shape = value.shape(), .bytes = bytes});
}

bool AnyRequiresGrad(std::span<const Variable> inputs) {
  for (const Variable& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

}  // namespace

bool IsRecorded(std::span<const Variable> inputs) { return CurrentContext().recording && AnyRequiresGrad(inputs); }

Variable MakeOp(const char* name, Tensor value, std::span<const Variable> inputs, BackwardFunction backward,
                const OpTraits& traits) {
  MarkOp(name, value, inputs);
  if (CurrentContext().finite_checks && !traits.captures_leaves) CheckResult(name, value, inputs, traits);
  if (!traits.captures_leaves && !AnyRequiresGrad(inputs)) return Variable(std::move(value));
  if (!CurrentContext().recording) {
    if (CurrentContext().skipped_recording != nullptr) *CurrentContext().skipped_recording = true;
    return Variable(std::move(value));
  }
  std::shared_ptr<internal::Node> node = NodeOfOp(name, value, inputs, std::move(backward), traits);
  MarkTrace(TraceEvent::Kind::kTape, "node");
  return internal::VariableAccess::Make(std::move(value), std::move(node));
}

bool Gradients::Needs(int i) const { return node_->inputs[static_cast<size_t>(i)] != nullptr; }

void Gradients::Add(int i, Tensor gradient) {
  const std::shared_ptr<internal::Node>& input = node_->inputs[static_cast<size_t>(i)];
  if (input == nullptr) return;
  if (gradient.shape() != input->shape || gradient.dtype() != input->dtype) {
    throw std::logic_error(StrCat("op ", node_->name, ": the gradient of input ", i, " is ", gradient.dtype(),
                                  gradient.shape(), ", but the input is ", input->dtype, input->shape));
  }
  if (CurrentContext().finite_checks) {
    internal::CheckFinite(gradient, CurrentLayer(), node_->name, "gradient", MinusInfinity::kReject);
  }
  internal::Accumulate(input->gradient, std::move(gradient));
}

Tensor* Gradients::Accumulator(int i) {
  const std::shared_ptr<internal::Node>& input = node_->inputs[static_cast<size_t>(i)];
  if (input == nullptr || CurrentContext().finite_checks) return nullptr;  // the checks look at each contribution
  Tensor& sum = input->gradient;
  return sum.defined() && sum.unique() && sum.is_contiguous() ? &sum : nullptr;
}

}  // namespace crosstalk
