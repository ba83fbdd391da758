// Tensors of bfloat16 between the ops that keep them and the products that read them.
#pragma once

#include <concepts>
#include <cstdint>

#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/operand.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

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
