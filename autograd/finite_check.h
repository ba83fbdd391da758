// The search for the first NaN or infinity of a training step (OpContext::finite_checks): which layer and op made it.
#pragma once

#include <optional>
#include <string>

#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

enum class MinusInfinity { kReject, kAccept };

// The first element, in row-major order, that is a NaN or an infinity; -infinity passes with kAccept. None in a tensor
// that does not hold floating-point numbers.
struct NonFiniteElement {
  Shape index;
  double value = 0;
};
std::optional<NonFiniteElement> FindNonFinite(const Tensor& tensor, MinusInfinity minus_infinity);

namespace internal {

// Throws Error(kNumerical) if FindNonFinite finds one. `what` is "result" or "gradient".
void CheckFinite(const Tensor& tensor, const std::string& layer, const char* op, const char* what,
                 MinusInfinity minus_infinity);
bool HoldsMinusInfinity(const Tensor& tensor);

}  // namespace internal
}  // namespace crosstalk
