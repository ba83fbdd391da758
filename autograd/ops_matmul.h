// The differentiable matrix product. For named dimensions see autograd/einsum/einsum.h.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// C[…, m, n] = op(A)[…, m, k] · op(B)[…, k, n], where op transposes the last two dimensions if asked. Leading
// dimensions broadcast. Both operands have rank 2 or more, and the same dtype.
Variable MatMul(const Variable& a, const Variable& b, kernels::Transpose transpose_a = kernels::Transpose::kNo,
                kernels::Transpose transpose_b = kernels::Transpose::kNo);

// C[…, n] = A[…, k] · B[k, n] + bias[n]: Add(MatMul(a, b), bias) in one product, which adds the bias as it writes
// and so saves a pass over C.
Variable MatMulAdd(const Variable& a, const Variable& b, const Variable& bias);

// x as products under the current precision read it. In bfloat16, where a gradient will be computed: x rounded, of
// dtype kBFloat16, which the products that it is multiplied in then keep instead of x, one copy for all of them, in
// half the bytes. Else x itself. The bits of matrix products and their gradients are the same either way, as they round
// what they read. MatMul, MatMulAdd, Einsum and the fused attention take the result in place of x, and Reshape and its
// like do too; a product by elements, which does not round, reads the rounded values.
Variable AsOperand(const Variable& x);

}  // namespace crosstalk
