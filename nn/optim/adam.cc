#include "crosstalk/nn/optim/adam.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

AdamW::AdamW(std::vector<NamedParameter> parameters, const kernels::AdamWOptions& options,
             std::vector<std::string> no_decay)
    : Optimizer(std::move(parameters)), options_(options), no_decay_(std::move(no_decay)) {
  CheckAdamOptions("AdamW", options);
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const Shape& shape = this->parameters()[i].value.shape();
    AddSlot(i, "m", shape);
    AddSlot(i, "v", shape);
  }
}

bool AdamW::Decays(size_t i) const { return crosstalk::Decays(parameters()[i], no_decay_); }

void AdamW::Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) {
  const NamedParameter& parameter = parameters()[i];
  const bool decays = Decays(i);
  const kernels::AdamWOptions options = StepOptions(options_, decays, learning_rate, gradient_scale, steps_seen());
  const Tensor& value = parameter.value.value();
  Launch("AdamW", value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::AdamWStep<T>(value.num_elements(), options, gradient.data<T>(), Slot(i, 0).template data<T>(),
                          Slot(i, 1).template data<T>(), value.data<T>());
  });
}

Lamb::Lamb(std::vector<NamedParameter> parameters, const kernels::AdamWOptions& options,
           std::vector<std::string> no_decay)
    : Optimizer(std::move(parameters)), options_(options), no_decay_(std::move(no_decay)) {
  CheckAdamOptions("LAMB", options);
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const Shape& shape = this->parameters()[i].value.shape();
    AddSlot(i, "m", shape);
    AddSlot(i, "v", shape);
  }
}

bool Lamb::Adapts(size_t i) const { return Decays(parameters()[i], no_decay_); }

void Lamb::Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) {
  const NamedParameter& parameter = parameters()[i];
  const bool decays = Adapts(i);
  const kernels::AdamWOptions options = StepOptions(options_, decays, learning_rate, gradient_scale, steps_seen());
  const Tensor& value = parameter.value.value();
  Launch("LAMB", value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    // With the ratio 1 it is AdamW's update.
    const auto update = decays ? kernels::LambStep<T> : kernels::AdamWStep<T>;
    update(value.num_elements(), options, gradient.data<T>(), Slot(i, 0).template data<T>(),
           Slot(i, 1).template data<T>(), value.data<T>());
  });
}

void CheckAdamOptions(const char* optimizer, const kernels::AdamWOptions& options) {
  CROSSTALK_CHECK(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, optimizer,
                  ": beta1 = ", options.beta1, " and beta2 = ", options.beta2, " must be in [0, 1)");
  CROSSTALK_CHECK(options.epsilon > 0 && std::isfinite(options.epsilon), optimizer, ": epsilon = ", options.epsilon,
                  " must be positive and finite");
  CROSSTALK_CHECK(options.weight_decay >= 0 && std::isfinite(options.weight_decay), optimizer,
                  ": weight_decay = ", options.weight_decay, " must be finite and not negative");
}

bool Decays(const NamedParameter& parameter, const std::vector<std::string>& no_decay) {
  if (parameter.value.rank() <= 1 || parameter.matrix_shape.rank() == 0) return false;  // norms; biases per head
  return std::none_of(no_decay.begin(), no_decay.end(),
                      [&](const std::string& part) { return parameter.name.find(part) != std::string::npos; });
}

kernels::AdamWOptions StepOptions(kernels::AdamWOptions options, bool decays, double learning_rate,
                                  double gradient_scale, int64_t step) {
  options.learning_rate = learning_rate;
  if (!decays) options.weight_decay = 0.0;
  options.gradient_scale = gradient_scale;
  options.step = step + 1;
  return options;
}

}  // namespace crosstalk
