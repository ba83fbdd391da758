// Differentiable reductions. Negative dimensions count from the end; no dimensions means all of them.
#pragma once

#include <vector>

#include "crosstalk/autograd/tensor_math.h"  // KeepDims
#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

Variable Sum(const Variable& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::kNo);
Variable Mean(const Variable& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::kNo);
// The gradient goes to the maximum, the first of equal ones in each run of adjacent dimensions.
Variable Max(const Variable& x, const std::vector<int>& dims = {}, KeepDims keep = KeepDims::kNo);
// log Σ exp x over one dimension; a slice of only -inf gives -inf and no gradient.
Variable LogSumExp(const Variable& x, int dim, KeepDims keep = KeepDims::kNo);
// exp x / Σ exp x over one dimension. A slice with nothing above -1e38 (kernels::kHiddenLogit: every position masked)
// gives zeros and zero gradients, never NaN.
Variable Softmax(const Variable& x, int dim = -1);
Variable LogSoftmax(const Variable& x, int dim = -1);

}  // namespace crosstalk
