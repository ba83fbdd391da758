// Differentiable changes of shape. Reshape, Transpose, Permute, Slice and BroadcastTo are views where strides allow.
// Negative dimensions count from the end.
#pragma once

#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

Variable Reshape(const Variable& x, const Shape& shape);  // one size may be -1
Variable Transpose(const Variable& x, int dim_a, int dim_b);
Variable Permute(const Variable& x, const std::vector<int>& order);  // result dimension i is dimension order[i]
Variable Slice(const Variable& x, int dim, int64_t begin, int64_t end);
Variable Concat(const std::vector<Variable>& parts, int dim);
Variable BroadcastTo(const Variable& x, const Shape& shape);
Variable Contiguous(const Variable& x);  // the same values in row-major order

}  // namespace crosstalk
