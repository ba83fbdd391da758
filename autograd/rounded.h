// Tensors of bfloat16 between the ops that keep them and the products that read them.
#pragma once

#include <cstdint>

#include "crosstalk/kernels/gemm/gemm.h"
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

// The operand of such a product: of the two the one that there is.
template <typename T>
struct ProductOperand {
  explicit ProductOperand(const Tensor& x) {
    if (x.dtype() == DType::kBFloat16) {
      rounded = x.data<uint16_t>();
    } else {
      values = x.data<T>();
    }
  }
  const T* values = nullptr;
  const uint16_t* rounded = nullptr;
};

template <typename T>
void SetA(kernels::GemmArguments<T>& gemm, const ProductOperand<T>& a, int64_t lda, kernels::Transpose transpose) {
  gemm.a = a.values, gemm.a_rounded = a.rounded, gemm.lda = lda, gemm.transpose_a = transpose;
}
template <typename T>
void SetB(kernels::GemmArguments<T>& gemm, const ProductOperand<T>& b, int64_t ldb, kernels::Transpose transpose) {
  gemm.b = b.values, gemm.b_rounded = b.rounded, gemm.ldb = ldb, gemm.transpose_b = transpose;
}

// The precision and the order of sums that the context asks for.
template <typename T>
void SetAsInContext(kernels::GemmArguments<T>& gemm) {
  gemm.precision = CurrentContext().precision;
  gemm.slicing =
      CurrentContext().sum_order == SumOrder::kBatchInvariant ? kernels::Slicing::kNo : kernels::Slicing::kYes;
}

}  // namespace crosstalk
