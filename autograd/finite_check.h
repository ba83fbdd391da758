// The search for the first NaN or infinity of a training step: which layer and op made it.
#pragma once

#include <string>

#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// While one lives, every op result and every gradient made on this thread is tested, and the first that holds a NaN
// or infinity throws Error(kNumerical) naming layer, op, direction (result or gradient), index and value. Minus
// infinity passes where an op writes it on purpose (masked_fill) and where an input already held it. Slow: the
// trainer turns it on only to explain a loss or gradient that is already known not to be finite.
class FiniteCheckScope {
 public:
  FiniteCheckScope();
  ~FiniteCheckScope();
  FiniteCheckScope(const FiniteCheckScope&) = delete;

 private:
  bool before_;
};

namespace internal {

bool FiniteChecksOn();

enum class MinusInfinity { kReject, kAccept };
// Throws Error(kNumerical) if `tensor` holds a NaN or infinity; -infinity passes with kAccept. `what` is "result" or
// "gradient".
void CheckFinite(const Tensor& tensor, const std::string& layer, const char* op, const char* what,
                 MinusInfinity minus_infinity);
bool HoldsMinusInfinity(const Tensor& tensor);

}  // namespace internal
}  // namespace crosstalk
