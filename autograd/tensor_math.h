// Functions from Tensors to new Tensors, without a tape: what gradients are written in. Allocation, broadcasting and
// strides are dealt with here; the arithmetic is in kernels/. float and double unless a line says otherwise; results
// are contiguous.
#pragma once

#include <concepts>
#include <cstdint>
#include <vector>

#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

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
#pragma GCC visibility pop

namespace crosstalk {

// Tensors of bfloat16 between the ops that keep them and the products that read them.

// float32 rounded to bfloat16, as products in bfloat16 round what they read (kernels/bfloat16.h); contiguous.
Tensor Rounded(const Tensor& x);
// bfloat16 as float32, exactly, contiguous; any other tensor itself.
Tensor Widened(const Tensor& x);

// x as backward keeps it where it may be rounded: so under bfloat16 and where ops are recorded; else itself.
Tensor KeptForBackward(const Tensor& x);
// x as a matrix product under the current precision can read it: bfloat16 as it lies, or widened where nothing is
// rounded.
Tensor ReadByProducts(const Tensor& x);

// The operand of such a product.
template <typename T>
kernels::Operand<T> OperandOf(const Tensor& x, int64_t stride) {
  if constexpr (std::same_as<T, float>) {
    if (x.dtype() == DType::kBFloat16) return {x.data<uint16_t>(), stride};
  }
  return {x.data<T>(), stride};
}

// The precision and the order of sums that the context asks for.
template <typename T>
void SetAsInContext(kernels::GemmArguments<T>& gemm) {
  gemm.precision = CurrentContext().precision;
  gemm.slicing =
      CurrentContext().sum_order == SumOrder::kBatchInvariant ? kernels::Slicing::kNo : kernels::Slicing::kYes;
}

}  // namespace crosstalk
