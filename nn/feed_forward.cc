#include "crosstalk/nn/feed_forward.h"

#include <cmath>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/nn/dropout.h"
#include "crosstalk/nn/linear.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

FeedForward::FeedForward(const FeedForwardConfig& config, const Initializer& init) : Module(init), config_(config) {
  CROSSTALK_CHECK(config.d_model > 0 && config.d_ff > 0, "feed-forward: d_model = ", config.d_model,
                  " and d_ff = ", config.d_ff, " must be positive");
  const auto in = InitialValues::TruncatedNormal(1.0 / std::sqrt(static_cast<double>(config.d_model)));
  const auto out = InitialValues::TruncatedNormal(1.0 / std::sqrt(static_cast<double>(config.d_ff)));
  const Shape shape_in = {config.d_model, config.d_ff};
  if (config.kind == FeedForwardKind::kRelu) {
    wi_ = AddParameter("wi", shape_in, in);
  } else {
    wi_gate_ = AddParameter("wi_0", shape_in, in);
    wi_ = AddParameter("wi_1", shape_in, in);
  }
  wo_ = AddParameter("wo", {config.d_ff, config.d_model}, out);
}

Variable FeedForward::Forward(const Variable& x, const ForwardContext& context) const {
  Variable hidden = config_.kind == FeedForwardKind::kRelu
                        ? Relu(ApplyWeight(x, wi_))
                        : Mul(GeluTanh(ApplyWeight(x, wi_gate_)), ApplyWeight(x, wi_));
  hidden = ApplyDropout(hidden, config_.dropout_rate, path() + ".hidden_dropout", context);
  return ApplyWeight(hidden, wo_);
}

}  // namespace crosstalk
