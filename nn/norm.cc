#include "crosstalk/nn/norm.h"

#include "crosstalk/autograd/ops_norm.h"

namespace crosstalk {

RmsNormLayer::RmsNormLayer(int64_t d, double eps, const Initializer& init)
    : Module(init), eps_(eps), scale_(AddParameter("scale", {d}, InitialValues::Ones())) {}

Variable RmsNormLayer::Forward(const Variable& x) const { return RmsNorm(x, scale_, eps_); }

LayerNormLayer::LayerNormLayer(int64_t d, double eps, const Initializer& init)
    : Module(init),
      eps_(eps),
      scale_(AddParameter("scale", {d}, InitialValues::Ones())),
      bias_(AddParameter("bias", {d}, InitialValues::Zeros())) {}

Variable LayerNormLayer::Forward(const Variable& x) const { return LayerNorm(x, scale_, bias_, eps_); }

}  // namespace crosstalk
