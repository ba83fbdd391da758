// The contraction of two tensors over labelled dimensions: the step that einsum and matmul are made of. It runs as
// matrix products, straight on the strides where they allow it, and otherwise on permuted copies, whichever is
// estimated to be faster; the estimate depends on shapes and strides alone.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/runtime/tensor.h"

namespace crosstalk::math {

// One label for each dimension of a tensor, no label twice.
using Labels = std::vector<int>;

// result[labels] = Σ a[labels_a] · b[labels_b] over every label that is not in `result`. Every label of an operand is
// in the other operand or in the result (sum the others first), every label of the result is in an operand, and sizes
// agree: the caller has checked. float or double, any strides; the result is contiguous. Operands may be bfloat16, and
// the result is float then: a product in bfloat16 reads them as they lie, any other widens them.
Tensor Contract(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b, const Labels& result);

// sum[labels] += the same, in place where it runs as matrix products into `sum`; contiguous, in the order of `result`.
void AddContraction(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b,
                    const Labels& result, Tensor& sum);

// How Contract would do it: "8 products of [12, 12] x [12, 4096]", with ", copying a" (b, the result) where it does.
std::string DescribeContraction(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b,
                                const Labels& result);

}  // namespace crosstalk::math
