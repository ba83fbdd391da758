#include "crosstalk/nn/optim/adamw.h"

#include <algorithm>
#include <utility>

#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {

AdamW::AdamW(std::vector<NamedParameter> parameters, const AdamWConfig& config)
    : Optimizer(std::move(parameters)), config_(config) {
  CROSSTALK_CHECK(config.beta1 >= 0 && config.beta1 < 1 && config.beta2 >= 0 && config.beta2 < 1,
                  "AdamW: beta1 = ", config.beta1, " and beta2 = ", config.beta2, " must be in [0, 1)");
  CROSSTALK_CHECK(config.epsilon > 0 && config.weight_decay >= 0, "AdamW: epsilon = ", config.epsilon,
                  " must be positive and weight_decay = ", config.weight_decay, " must not be negative");
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const Shape& shape = this->parameters()[i].value.shape();
    AddSlot(i, "m", shape);
    AddSlot(i, "v", shape);
  }
}

bool AdamW::Decays(size_t i) const {
  const NamedParameter& parameter = parameters()[i];
  if (parameter.value.rank() <= 1 || parameter.matrix_shape.rank() == 0) return false;  // norms; biases per head
  return std::none_of(config_.no_decay.begin(), config_.no_decay.end(),
                      [&](const std::string& part) { return parameter.name.find(part) != std::string::npos; });
}

void AdamW::Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) {
  kernels::AdamWOptions options;
  options.learning_rate = learning_rate;
  options.beta1 = config_.beta1;
  options.beta2 = config_.beta2;
  options.epsilon = config_.epsilon;
  options.weight_decay = Decays(i) ? config_.weight_decay : 0.0;
  options.gradient_scale = gradient_scale;
  options.bias_correction = config_.bias_correction == AdamWConfig::BiasCorrection::kYes
                                ? kernels::AdamWOptions::BiasCorrection::kYes
                                : kernels::AdamWOptions::BiasCorrection::kNo;
  options.step = step() + 1;
  const Tensor& value = parameters()[i].value.value();
  Launch("AdamW", value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::AdamWStep<T>(value.num_elements(), options, gradient.data<T>(), Slot(i, 0).template data<T>(),
                          Slot(i, 1).template data<T>(), value.data<T>());
  });
}

}  // namespace crosstalk
