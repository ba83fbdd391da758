#include "crosstalk/nn/norm.h"

#include "crosstalk/autograd/ops_norm.h"

namespace crosstalk {

RmsNormLayer::RmsNormLayer(int64_t d, double eps, const Initializer& init)
    : eps_(eps), scale_(AddParameter("scale", init.At("scale").Ones({d}))) {}

Variable RmsNormLayer::Forward(const Variable& x) const { return RmsNorm(x, scale_, eps_); }

LayerNormLayer::LayerNormLayer(int64_t d, double eps, const Initializer& init)
    : eps_(eps),
      scale_(AddParameter("scale", init.At("scale").Ones({d}))),
      bias_(AddParameter("bias", init.At("bias").Zeros({d}))) {}

Variable LayerNormLayer::Forward(const Variable& x) const { return LayerNorm(x, scale_, bias_, eps_); }

}  // namespace crosstalk
