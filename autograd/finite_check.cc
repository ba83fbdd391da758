#include "crosstalk/autograd/finite_check.h"

#include <cmath>
#include <utility>

#include "crosstalk/runtime/shapes_only.h"

namespace crosstalk {
namespace {

thread_local bool finite_checks = false;

}  // namespace

FiniteCheckScope::FiniteCheckScope() : before_(std::exchange(finite_checks, true)) {}
FiniteCheckScope::~FiniteCheckScope() { finite_checks = before_; }

namespace internal {
namespace {

template <typename T>
int64_t FirstNonFinite(const T* values, int64_t count, MinusInfinity minus_infinity) {
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(values[i])) {
      if (minus_infinity == MinusInfinity::kAccept && values[i] < 0) continue;
      return i;
    }
  }
  return -1;
}

}  // namespace

bool FiniteChecksOn() { return finite_checks; }

bool HoldsMinusInfinity(const Tensor& tensor) {
  if (!IsFloating(tensor.dtype()) || ShapesOnly()) return false;
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
  if (!IsFloating(tensor.dtype()) || ShapesOnly()) return;
  const Tensor values = tensor.Contiguous();
  DispatchFloat("finite check", values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const int64_t at = FirstNonFinite(values.data<T>(), values.num_elements(), minus_infinity);
    if (at < 0) return;
    Shape index = values.shape();
    for (int64_t dim = index.rank() - 1, rest = at; dim >= 0; --dim) {
      const int64_t size = values.shape()[static_cast<int>(dim)];
      index[static_cast<int>(dim)] = rest % size;
      rest /= size;
    }
    Fail(ErrorKind::kNumerical, layer.empty() ? "model" : layer, ": the ", what, " of op ", op, " has ",
         values.data<T>()[at], " at ", index, " of ", values.shape());
  });
}

}  // namespace internal
}  // namespace crosstalk
