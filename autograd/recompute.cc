#include "crosstalk/autograd/recompute.h"

#include <algorithm>
#include <utility>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/tape.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

Variable Recompute(const std::function<Variable(const std::vector<Variable>&)>& function,
                   const std::vector<Variable>& inputs) {
  if (!CurrentContext().recording) return function(inputs);

  Tensor value;
  bool skipped_recording = false;
  {
    const ContextScope noted(&OpContext::skipped_recording, &skipped_recording);
    const ContextScope no_grad = NoGrad();
    value = function(inputs).value();
  }
  const bool needs_gradient = skipped_recording || std::any_of(inputs.begin(), inputs.end(),
                                                               [](const Variable& x) { return x.requires_grad(); });
  if (!needs_gradient) return Variable(std::move(value));

  std::vector<Tensor> values;
  values.reserve(inputs.size());
  for (const Variable& input : inputs) values.push_back(input.value());
  BackwardFunction backward = [function, values = std::move(values)](const Tensor& dy, Gradients& gradients) {
    const uint64_t oldest = internal::NextSequence();
    std::vector<Variable> leaves;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool needs = gradients.Needs(static_cast<int>(i));
      leaves.emplace_back(values[i], needs ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo);
    }
    const ContextScope recording(&OpContext::recording, true);
    const Variable again = function(leaves);
    CROSSTALK_CHECK(again.shape() == dy.shape() && again.requires_grad(),
                    "recompute: the function gave another result the second time; it must be pure");
    internal::RunBackward(internal::VariableAccess::NodeOf(again), dy, oldest);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].requires_grad() || !leaves[i].grad().defined()) continue;
      const Tensor gradient = leaves[i].grad();
      leaves[i].ZeroGrad();
      gradients.Add(static_cast<int>(i), gradient);
    }
  };
  return MakeOp("recompute", std::move(value), inputs, std::move(backward), {.captures_leaves = true});
}

}  // namespace crosstalk
