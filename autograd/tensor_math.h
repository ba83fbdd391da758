// Functions from Tensors to new Tensors, without a tape: what gradients are written in. Allocation, broadcasting and
// strides are dealt with here; the arithmetic is in kernels/. float and double unless a line says otherwise; results
// are contiguous.
#pragma once

#include <cstdint>
#include <vector>

#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Whether a reduction leaves its dimensions in place with size 1 or drops them.
enum class KeepDims { kNo, kYes };

namespace math {

// Elementwise with broadcasting; `op` in an error message is the function's name in lower case.
Tensor Add(const Tensor& a, const Tensor& b);
Tensor Sub(const Tensor& a, const Tensor& b);
Tensor Mul(const Tensor& a, const Tensor& b);
Tensor Div(const Tensor& a, const Tensor& b);
Tensor Scale(const Tensor& x, double factor);
Tensor AddScalar(const Tensor& x, double term);
Tensor Affine(const Tensor& x, double factor, double term);  // factor · x + term
// value where mask (bool, broadcast to x's shape) is true, x elsewhere.
Tensor MaskedFill(const Tensor& x, const Tensor& mask, double value);

// accumulator += x, in place; same shape and dtype; accumulator contiguous.
void AddInPlace(const Tensor& accumulator, const Tensor& x);

// Sum over `dims` (negative counts from the end; none given: over all).
Tensor Sum(const Tensor& x, const std::vector<int>& dims, KeepDims keep = KeepDims::kNo);
Tensor Max(const Tensor& x, const std::vector<int>& dims, KeepDims keep = KeepDims::kNo);
// The gradient of BroadcastTo: sums over what was stretched.
Tensor Unbroadcast(const Tensor& x, const Shape& shape);

// A contiguous copy in the order of x's shape: Contiguous() at memory speed for permuted float and double tensors.
// Itself if already contiguous. Any dtype.
Tensor Contiguous(const Tensor& x);
// Copies x into `target` (same shape and dtype, any strides), threaded, by tiles where both are permuted.
void CopyTo(const Tensor& x, const Tensor& target);
// Contiguous copies joined along `dim`.
Tensor Concat(const std::vector<Tensor>& parts, int dim);

}  // namespace math
}  // namespace crosstalk
