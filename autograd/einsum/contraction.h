// The contraction of two tensors over labelled dimensions: the step that einsum and matmul are made of. It runs as
// matrix products, straight on the strides where they allow it, and otherwise on permuted copies, whichever is
// estimated to be faster; the estimate depends on shapes and strides alone.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk::math {

// One label for each dimension of a tensor, no label twice.
class Labels {
 public:
  Labels() = default;
  Labels(std::initializer_list<int> labels) { Assign(labels); }
  Labels(const std::vector<int>& labels) { Assign(labels); }  // NOLINT: a plan's lists are taken as they are
  void push_back(int label) {
    CROSSTALK_DCHECK(size_ < kMaxRank);
    labels_[static_cast<size_t>(size_++)] = label;
  }
  const int* begin() const { return labels_.data(); }
  const int* end() const { return labels_.data() + size_; }
  int size() const { return size_; }

 private:
  template <class List>
  void Assign(const List& labels) {
    for (const int label : labels) push_back(label);
  }
  std::array<int, kMaxRank> labels_;
  int size_ = 0;
};

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

// How a contraction of two labelled tensors becomes matrix products: which dimensions are the rows, columns and inner
// dimension of each product, which are looped over, and which operands must be copied into another order first.

// One label, with its stride in a, b and the result c (meaningful where it is in them). Sizes are ≥ 2.
struct Axis {
  enum class Kind { kBatch, kRow, kColumn, kInner };  // in a, b, c · a, c · b, c · a, b
  Kind kind = Kind::kBatch;
  int64_t size = 1;
  int64_t a = 0, b = 0, c = 0;
};

// A two-dimensional view for BLAS: stored rows of distance `ld`, taken as they are or transposed.
struct GemmView {
  bool valid = false;
  kernels::Transpose transpose = kernels::Transpose::kNo;
  int64_t ld = 1;
};
// `rows` of distance row_stride by `cols` of distance col_stride.
GemmView MakeGemmView(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride);

struct ContractPlan {
  enum class Method {
    kGemm,           // matrix products
    kInterleaved,    // many small ones side by side in vectors, where a batch axis is the contiguous one
    kMultiplyAndSum  // one elementwise product over all axes, summed over the inner ones (all small or none)
  };
  Method method = Method::kGemm;
  // Copied into an order in which its groups are contiguous; for c: computed so, then copied into place.
  bool copy_a = false, copy_b = false, copy_c = false;
  // Indices into the axes, outermost first: what one product covers. All others are looped over; looped inner axes
  // give partial results that are summed at the end.
  std::vector<int> rows, columns, inner;
  int lane = -1;           // kInterleaved: the batch axis that is contiguous in all three
  double nanoseconds = 0;  // the estimate that the choice was made by

  // What follows from the choice, except for kMultiplyAndSum. The axes with the strides that a, b and c have after the
  // copies: copied operands have looped axes first, then the two groups of the product; c has one slice of all its
  // elements for each looped inner index.
  std::vector<Axis> effective;
  std::vector<int> looped;      // axes
  int64_t m = 1, n = 1, k = 1;  // of a product
  int64_t partial_sums = 1;     // slices of c
};

// The number of indices that a group of axes has together.
int64_t GroupSize(const std::vector<Axis>& axes, const std::vector<int>& group);
// The distance of neighbours in a group that is one dimension of one stride in that tensor; 0 for an empty group.
int64_t GroupStride(const std::vector<Axis>& axes, const std::vector<int>& group, int64_t Axis::*stride);

// `axes` in the order of c, inner axes after them. element_size: 4 or 8 bytes. SumOrder::kBatchInvariant: each element
// of c is the sum of one product, over the inner axes in their order. A plan that was made before is looked up.
std::shared_ptr<const ContractPlan> PlanContraction(const std::vector<Axis>& axes, int element_size, SumOrder order);

}  // namespace crosstalk::math

namespace crosstalk {

// A contraction as the gradient of an op's input.

// Adds Σ a · b to the gradient of input i, which it needs: within the product where it can, which saves a pass over the
// gradient.
inline void AddContraction(Gradients& gradients, int i, const Tensor& a, const math::Labels& labels_a, const Tensor& b,
                           const math::Labels& labels_b, const math::Labels& labels) {
  if (Tensor* const sum = gradients.Accumulator(i); sum != nullptr) {
    math::AddContraction(a, labels_a, b, labels_b, labels, *sum);
  } else {
    gradients.Add(i, math::Contract(a, labels_a, b, labels_b, labels));
  }
}

}  // namespace crosstalk
