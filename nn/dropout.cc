#include "crosstalk/nn/dropout.h"

#include "crosstalk/autograd/ops_dropout.h"

namespace crosstalk {

Variable ApplyDropout(const Variable& x, double rate, std::string_view site, const ForwardContext& context) {
  if (!context.training() || rate == 0.0) return x;
  return Dropout(x, rate, context.DropoutKey(site));
}

}  // namespace crosstalk
