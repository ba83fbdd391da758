#include "crosstalk/nn/feed_forward.h"

#include <cmath>

#include "crosstalk/autograd/ops_elementwise.h"
#include "crosstalk/nn/dropout.h"
#include "crosstalk/nn/linear.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

FeedForwardKind ParseFeedForwardKind(std::string_view name) {
  if (name == "relu") return FeedForwardKind::kRelu;
  if (name == "gated-gelu") return FeedForwardKind::kGatedGelu;
  Fail(ErrorKind::kUsage, "unknown feed-forward layer \"", name, "\": there are relu, gated-gelu");
}

const char* Name(FeedForwardKind kind) { return kind == FeedForwardKind::kRelu ? "relu" : "gated-gelu"; }

FeedForward::FeedForward(const FeedForwardConfig& config, const Initializer& init)
    : config_(config), path_(init.path()) {
  CROSSTALK_CHECK(config.d_model > 0 && config.d_ff > 0, "feed-forward: d_model = ", config.d_model,
                  " and d_ff = ", config.d_ff, " must be positive");
  const double std_in = 1.0 / std::sqrt(static_cast<double>(config.d_model));
  const double std_out = 1.0 / std::sqrt(static_cast<double>(config.d_ff));
  const Shape shape_in = {config.d_model, config.d_ff};
  if (config.kind == FeedForwardKind::kRelu) {
    wi_ = AddParameter("wi", init.At("wi").TruncatedNormal(shape_in, std_in));
  } else {
    wi_gate_ = AddParameter("wi_0", init.At("wi_0").TruncatedNormal(shape_in, std_in));
    wi_ = AddParameter("wi_1", init.At("wi_1").TruncatedNormal(shape_in, std_in));
  }
  wo_ = AddParameter("wo", init.At("wo").TruncatedNormal({config.d_ff, config.d_model}, std_out));
}

Variable FeedForward::Forward(const Variable& x, const ForwardContext& context) const {
  Variable hidden = config_.kind == FeedForwardKind::kRelu
                        ? Relu(ApplyWeight(x, wi_))
                        : Mul(GeluTanh(ApplyWeight(x, wi_gate_)), ApplyWeight(x, wi_));
  hidden = ApplyDropout(hidden, config_.dropout_rate, path_ + ".hidden_dropout", context);
  return ApplyWeight(hidden, wo_);
}

}  // namespace crosstalk
