#include "crosstalk/nn/optim/clipping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "crosstalk/kernels/reduce.h"
#include "crosstalk/nn/optim/parameter_loop.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

double GradientNorm(const std::vector<NamedParameter>& parameters) { return NormOf(GradientSquares(parameters)); }

double NormOf(const std::vector<double>& squares) {
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

std::vector<double> GradientSquares(const std::vector<NamedParameter>& parameters) {
  std::vector<int64_t> elements;
  for (const NamedParameter& parameter : parameters) {
    const bool counts = parameter.trainable && parameter.value.grad().defined();
    elements.push_back(counts ? parameter.value.grad().num_elements() : 0);
  }
  std::vector<double> squares(parameters.size());
  ForEachParameter(elements, [&](size_t i) {
    const Tensor gradient = parameters[i].value.grad().Contiguous();
    Launch("gradient norm", gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      squares[i] = kernels::SumOfSquares<T>(gradient.num_elements(), gradient.data<T>());
    });
  });
  return squares;
}

double ClipScale(double norm, double max_norm) {
  CROSSTALK_CHECK(max_norm >= 0, "gradient clipping: the largest norm ", max_norm, " must not be negative");
  // An infinite square would stay in the optimizers' second moments, and block all updates.
  constexpr double kLargestNorm = 1.8e19;
  const double clipped = max_norm == 0 ? norm : std::min(norm, max_norm);
  // A norm that is not finite: max_norm/inf = 0 would hide it.
  if (!std::isfinite(norm) || clipped > kLargestNorm) return std::numeric_limits<double>::quiet_NaN();
  return clipped == norm ? 1.0 : max_norm / norm;
}

std::string DescribeNonFiniteGradient(const std::vector<NamedParameter>& parameters) {
  for (const NamedParameter& parameter : parameters) {
    if (!parameter.trainable || !parameter.value.grad().defined()) continue;
    const Tensor gradient = parameter.value.grad().Contiguous();
    const int64_t index = DispatchFloat("gradient", gradient.dtype(), [&](auto zero) {
      using T = decltype(zero);
      return kernels::FirstNonFinite<T>(gradient.num_elements(), gradient.data<T>());
    });
    if (index < 0) continue;
    return StrCat(parameter.name, "[", index, "] = ", gradient.Reshape({-1}).At({index}));
  }
  return "";
}

}  // namespace crosstalk
