// A model's gradients against differences of its loss.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "crosstalk/autograd/tape.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk::testing {

// d loss / d θ along a random direction of length about 1 in each parameter alone, in double, against central
// differences of step 1e-5, whose error is step² times the third derivative, and 1e-16·loss/step: within `tolerance` of
// 1 or of their size. More than `least` of the gradients are not zero.
inline void ExpectGradientsOfDifferences(const Module& model, const std::function<Variable()>& loss, double tolerance,
                                         int least = 0) {
  constexpr double kStep = 1e-5;
  model.ZeroGrad();
  Backward(loss());
  int checked = 0;
  for (const NamedParameter& parameter : model.Parameters()) {
    ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
    const Tensor value = parameter.value.value(), start = value.Clone(), gradient = parameter.value.grad().Contiguous();
    const int64_t size = value.num_elements();
    const Tensor direction = Tensor::Empty(value.shape(), DType::kFloat64);
    FillNormal(direction, {.seed = 8, .stream = StreamId(parameter.name)}, 0, 1 / std::sqrt(static_cast<double>(size)));
    double analytic = 0;
    for (int64_t i = 0; i < size; ++i) analytic += gradient.data<double>()[i] * direction.data<double>()[i];
    const auto loss_at = [&](double t) {
      for (int64_t i = 0; i < size; ++i) {
        value.data<double>()[i] = start.data<double>()[i] + t * direction.data<double>()[i];
      }
      const ContextScope no_grad = NoGrad();
      return loss().value().Item();
    };
    const double numeric = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    value.CopyFrom(start);
    EXPECT_NEAR(analytic, numeric, tolerance * std::max(1.0, std::abs(numeric))) << parameter.name;
    checked += analytic != 0;
  }
  EXPECT_GT(checked, least);
}

}  // namespace crosstalk::testing
