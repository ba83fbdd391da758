#include "crosstalk/nn/linear.h"

#include <cmath>

#include "crosstalk/autograd/ops_matmul.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/runtime/check.h"

namespace crosstalk {

Variable ApplyWeight(const Variable& x, const Variable& weight, const Variable& bias) {
  CROSSTALK_CHECK(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(0),
                  "linear: x[…, d_in] = ", x.shape(), " does not fit weight[d_in, d_out] = ", weight.shape());
  if (x.rank() == 1) return Reshape(ApplyWeight(Reshape(x, {1, x.size(0)}), weight, bias), {weight.size(1)});
  return bias.defined() ? MatMulAdd(x, weight, bias) : MatMul(x, weight);
}

Linear::Linear(int64_t d_in, int64_t d_out, LinearBias bias, const Initializer& init)
    : Linear(d_in, d_out, bias, 1.0 / std::sqrt(static_cast<double>(d_in)), init) {}

Linear::Linear(int64_t d_in, int64_t d_out, LinearBias bias, double stddev, const Initializer& init) : Module(init) {
  CROSSTALK_CHECK(d_in > 0 && d_out > 0, "linear: d_in = ", d_in, " and d_out = ", d_out, " must be positive");
  weight_ = AddWeight("weight", {d_in, d_out}, InitialValues::TruncatedNormal(stddev));
  if (bias == LinearBias::kYes) bias_ = AddParameter("bias", {d_out}, InitialValues::Zeros());
}

Variable Linear::Forward(const Variable& x) const { return ApplyWeight(x, weight_, bias_); }

}  // namespace crosstalk
