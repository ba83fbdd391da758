// In what precision ops multiply matrices.
#pragma once

#include "crosstalk/runtime/precision.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// While one lives, matrix products of float tensors on this thread, those of MatMul, Einsum, LinearCrossEntropy and the
// fused attention, are computed in `precision`, and so are the products of their gradients, whenever those are.
// Products of double tensors are not rounded.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;

 private:
  Precision before_;
};
Precision CurrentPrecision();  // kFloat32 outside of all scopes

}  // namespace crosstalk
