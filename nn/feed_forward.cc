#include "crosstalk/nn/feed_forward.h"

#include <cmath>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/nn/dropout.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

InitialValues Weights(double stddev, int64_t fan_in) {
  return InitialValues::TruncatedNormal(stddev > 0 ? stddev : 1.0 / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace

FeedForward::FeedForward(const FeedForwardConfig& config, const Initializer& init) : Module(init), config_(config) {
  CROSSTALK_CHECK(config.d_model > 0 && config.d_ff > 0, "feed-forward: d_model = ", config.d_model,
                  " and d_ff = ", config.d_ff, " must be positive");
  const InitialValues in = Weights(config.stddev, config.d_model), out = Weights(config.stddev, config.d_ff);
  if (gated()) wi_gate_ = AddWeight("wi_0", {config.d_model, config.d_ff}, in);
  wi_ = AddWeight(gated() ? "wi_1" : "wi", {config.d_model, config.d_ff}, in);
  wo_ = AddWeight("wo", {config.d_ff, config.d_model}, out);
  if (config.bias == LinearBias::kNo) return;
  if (gated()) wi_gate_bias_ = AddParameter("wi_0_bias", {config.d_ff}, InitialValues::Zeros());
  wi_bias_ = AddParameter(gated() ? "wi_1_bias" : "wi_bias", {config.d_ff}, InitialValues::Zeros());
  wo_bias_ = AddParameter("wo_bias", {config.d_model}, InitialValues::Zeros());
}

Variable Activate(FeedForwardKind kind, const Variable& x) {
  switch (kind) {
    case FeedForwardKind::kRelu:
      return Relu(x);
    case FeedForwardKind::kGelu:
      return Gelu(x);
    case FeedForwardKind::kGeluTanh:
      return GeluTanh(x);
    case FeedForwardKind::kGatedGelu:
    case FeedForwardKind::kSwiGlu:
      break;
  }
  Fail(ErrorKind::kUsage, "feed-forward: ", Name(kind), " is not an activation without a gate");
}

Variable FeedForward::Hidden(const Variable& x) const {
  if (!gated()) return Activate(config_.kind, ApplyWeight(x, wi_, wi_bias_));
  const Variable gate = ApplyWeight(x, wi_gate_, wi_gate_bias_), inner = ApplyWeight(x, wi_, wi_bias_);
  return config_.kind == FeedForwardKind::kSwiGlu ? Mul(Mul(gate, Sigmoid(gate)), inner) : GatedGelu(gate, inner);
}

Variable FeedForward::Forward(const Variable& x, const ForwardContext& context) const {
  const Variable hidden = ApplyDropout(Hidden(x), config_.dropout_rate, path() + ".hidden_dropout", context);
  return ApplyWeight(AsOperand(hidden), wo_, wo_bias_);
}

}  // namespace crosstalk
