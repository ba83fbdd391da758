#include "crosstalk/nn/norm.h"

#include "crosstalk/autograd/ops_norm.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

NormLayer::NormLayer(int64_t d, const NormConfig& config, const Initializer& init)
    : Module(init), config_(config), scale_(AddParameter("scale", {d}, InitialValues::Ones())) {
  CROSSTALK_CHECK(config.epsilon > 0, "norm: epsilon = ", config.epsilon, " must be positive");
  if (config.kind == NormKind::kLayer) bias_ = AddParameter("bias", {d}, InitialValues::Zeros());
}

Variable NormLayer::Forward(const Variable& x) const {
  return config_.kind == NormKind::kRms ? RmsNorm(x, scale_, config_.epsilon)
                                        : LayerNorm(x, scale_, bias_, config_.epsilon);
}

}  // namespace crosstalk
