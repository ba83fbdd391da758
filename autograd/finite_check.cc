#include "crosstalk/autograd/finite_check.h"

#include <cmath>

#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {

std::optional<NonFiniteElement> FindNonFinite(const Tensor& tensor, MinusInfinity minus_infinity) {
  if (!IsFloating(tensor.dtype()) || CurrentContext().shapes_only) return std::nullopt;
  const Tensor values = tensor.Contiguous();
  std::optional<NonFiniteElement> found;
  DispatchFloat("finite check", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const at = values.data<T>();
    const auto fits = [&](T value) {
      return std::isfinite(value) || (minus_infinity == MinusInfinity::kAccept && value < 0);
    };
    int64_t i = 0;
    while (i < values.num_elements() && fits(at[i])) ++i;
    if (i == values.num_elements()) return;
    found = {.index = values.shape(), .value = static_cast<double>(at[i])};
    for (int dim = values.rank() - 1; dim >= 0; --dim) {
      found->index[dim] = i % values.shape()[dim];
      i /= values.shape()[dim];
    }
  });
  return found;
}

namespace internal {

bool HoldsMinusInfinity(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype()) || CurrentContext().shapes_only) return false;
  const Tensor values = tensor.Contiguous();
  return DispatchFloat("finite check", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      if (std::isinf(values.data<T>()[i]) && values.data<T>()[i] < 0) return true;
    }
    return false;
  });
}

void CheckFinite(const Tensor& tensor, const std::string& layer, const char* op, const char* what,
                 MinusInfinity minus_infinity) {
  const std::optional<NonFiniteElement> found = FindNonFinite(tensor, minus_infinity);
  if (!found) return;
  Fail(ErrorKind::kNumerical, layer.empty() ? "model" : layer, ": the ", what, " of op ", op, " has ", found->value,
       " at ", found->index, " of ", tensor.shape());
}

}  // namespace internal
}  // namespace crosstalk
