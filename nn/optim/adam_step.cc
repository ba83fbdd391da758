#include "crosstalk/nn/optim/adam_step.h"

#include <algorithm>
#include <string>

#include "crosstalk/runtime/check.h"

namespace crosstalk {

void CheckAdamOptions(const char* optimizer, const kernels::AdamWOptions& options) {
  CROSSTALK_CHECK(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1, optimizer,
                  ": beta1 = ", options.beta1, " and beta2 = ", options.beta2, " must be in [0, 1)");
  CROSSTALK_CHECK(options.epsilon > 0 && options.weight_decay >= 0, optimizer, ": epsilon = ", options.epsilon,
                  " must be positive and weight_decay = ", options.weight_decay, " must not be negative");
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
