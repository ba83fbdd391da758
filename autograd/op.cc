#include "crosstalk/autograd/op.h"

#include <utility>

#include "crosstalk/autograd/tape.h"

namespace crosstalk {
namespace {

// Restores a thread's recording switch, whichever way it was.
class GradScope {
 public:
  explicit GradScope(bool enabled) : before_(internal::SetGradEnabled(enabled)) {}
  ~GradScope() { internal::SetGradEnabled(before_); }
  GradScope(const GradScope&) = delete;

 private:
  bool before_;
};

// Sets the whole dotted name, where LayerScope would append.
class AbsoluteLayerScope {
 public:
  explicit AbsoluteLayerScope(const std::string& layer) : before_(internal::SetLayer(layer)) {}
  ~AbsoluteLayerScope() { internal::SetLayer(std::move(before_)); }
  AbsoluteLayerScope(const AbsoluteLayerScope&) = delete;

 private:
  std::string before_;
};

void CheckResult(const char* name, const Tensor& value, const std::vector<Variable>& inputs) {
  // Minus infinity that came in may go out: a mask put it there on purpose.
  bool minus_infinity = std::string_view(name) == "masked_fill";
  for (const Variable& input : inputs) minus_infinity = minus_infinity || internal::HoldsMinusInfinity(input.value());
  internal::CheckFinite(value, CurrentLayer(), name, "result",
                        minus_infinity ? internal::MinusInfinity::kAccept : internal::MinusInfinity::kReject);
}

std::shared_ptr<internal::Node> NewNode(const char* name, const Tensor& value, const std::vector<Variable>& inputs,
                                        BackwardFunction backward) {
  auto node = std::make_shared<internal::Node>();
  node->sequence = internal::NextSequence();
  node->name = name;
  node->layer = CurrentLayer();
  node->shape = value.shape();
  node->dtype = value.dtype();
  node->leaf = false;
  node->inputs.reserve(inputs.size());
  for (const Variable& input : inputs) node->inputs.push_back(OpBuilder::NodeOf(input));
  node->backward = std::move(backward);
  return node;
}

bool AnyRequiresGrad(const std::vector<Variable>& inputs) {
  for (const Variable& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

}  // namespace

Variable MakeOp(const char* name, Tensor value, const std::vector<Variable>& inputs, BackwardFunction backward) {
  if (internal::FiniteChecksOn()) CheckResult(name, value, inputs);
  if (!AnyRequiresGrad(inputs)) return Variable(std::move(value));
  if (!GradEnabled()) {
    internal::SkippedRecording() = true;
    return Variable(std::move(value));
  }
  std::shared_ptr<internal::Node> node = NewNode(name, value, inputs, std::move(backward));
  return OpBuilder::Make(std::move(value), std::move(node));
}

Variable Recompute(const std::function<Variable(const std::vector<Variable>&)>& function,
                   const std::vector<Variable>& inputs) {
  if (!GradEnabled()) return function(inputs);

  Tensor value;
  const bool skipped_before = std::exchange(internal::SkippedRecording(), false);
  {
    const NoGradScope no_grad;
    value = function(inputs).value();
  }
  const bool needs_gradient = internal::SkippedRecording() || AnyRequiresGrad(inputs);
  internal::SkippedRecording() = skipped_before || needs_gradient;
  if (!needs_gradient) return Variable(std::move(value));

  std::vector<Tensor> values;
  values.reserve(inputs.size());
  for (const Variable& input : inputs) values.push_back(input.value());
  BackwardFunction backward = [function, values = std::move(values), layer = CurrentLayer()](const Tensor& dy,
                                                                                             Gradients& gradients) {
    const uint64_t oldest = internal::NextSequence();
    std::vector<Variable> leaves;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool needs = gradients.Needs(static_cast<int>(i));
      leaves.emplace_back(values[i], needs ? Variable::RequiresGrad::kYes : Variable::RequiresGrad::kNo);
    }
    const GradScope recording(true);
    const AbsoluteLayerScope in_layer(layer);
    const Variable again = function(leaves);
    CROSSTALK_CHECK(again.shape() == dy.shape() && again.requires_grad(),
                    "recompute: the function gave another result the second time; it must be pure");
    internal::RunBackward(OpBuilder::NodeOf(again), dy, oldest);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].requires_grad() || !leaves[i].grad().defined()) continue;
      const Tensor gradient = leaves[i].grad();
      leaves[i].ZeroGrad();
      gradients.Add(static_cast<int>(i), gradient);
    }
  };
  std::shared_ptr<internal::Node> node = NewNode("recompute", value, inputs, std::move(backward));
  return OpBuilder::Make(std::move(value), std::move(node));
}

}  // namespace crosstalk
