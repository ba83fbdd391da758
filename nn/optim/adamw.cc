#include "crosstalk/nn/optim/adamw.h"

#include <utility>

#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/nn/optim/adam_step.h"
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

}  // namespace crosstalk
