#include "crosstalk/nn/optim/adafactor.h"

#include <utility>

#include "crosstalk/kernels/optimizer_step.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/math.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

constexpr double kDecayExponent = 0.8;  // decay of step t (the first is t = 0): 1 - (t + 1)^-0.8
constexpr int64_t kMinFactoredSize = 128;

}  // namespace

Adafactor::Adafactor(std::vector<NamedParameter> parameters, const kernels::AdafactorOptions& options)
    : Optimizer(std::move(parameters)), options_(options) {
  // g/√v of a gradient of zeros would be 0/0.
  CROSSTALK_CHECK(options.epsilon1 > 0, "Adafactor: epsilon1 = ", options.epsilon1, " must be positive");
  CROSSTALK_CHECK(options.epsilon2 >= 0 && options.clip_threshold >= 0, "Adafactor: epsilon2 = ", options.epsilon2,
                  " and clip_threshold = ", options.clip_threshold, " must not be negative");
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const NamedParameter& parameter = this->parameters()[i];
    if (IsFactored(i)) {
      AddSlot(i, "v_row", {parameter.matrix_shape[0]});
      AddSlot(i, "v_col", {parameter.matrix_shape[1]});
    } else {
      AddSlot(i, "v", parameter.value.shape());
    }
  }
}

bool Adafactor::IsFactored(size_t i) const {
  const Shape& matrix = parameters()[i].matrix_shape;
  return matrix.rank() == 2 && matrix[0] >= kMinFactoredSize && matrix[1] >= kMinFactoredSize;
}

void Adafactor::Update(size_t i, const Tensor& gradient, double learning_rate, double gradient_scale) {
  kernels::AdafactorOptions options = options_;
  options.learning_rate = learning_rate;
  options.decay = 1.0 - Pow(static_cast<double>(steps_seen() + 1), -kDecayExponent);
  options.gradient_scale = gradient_scale;
  const NamedParameter& parameter = parameters()[i];
  const Tensor& value = parameter.value.value();
  if (!IsFactored(i)) {
    Launch("Adafactor", value.dtype(), [&](auto zero) {
      using T = decltype(zero);
      kernels::AdafactorStep<T>(value.num_elements(), options, gradient.data<T>(), Slot(i, 0).template data<T>(),
                                value.data<T>());
    });
    return;
  }
  const int64_t rows = parameter.matrix_shape[0], cols = parameter.matrix_shape[1];
  const Tensor workspace = Tensor::Empty({kernels::AdafactorWorkspace(rows, cols)}, value.dtype());
  Launch("Adafactor", value.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::AdafactorFactoredStep<T>(rows, cols, options, gradient.data<T>(), Slot(i, 0).template data<T>(),
                                      Slot(i, 1).template data<T>(), value.data<T>(), workspace.data<T>());
  });
}

}  // namespace crosstalk
