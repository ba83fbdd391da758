// How a contraction of two labelled tensors becomes matrix products: which dimensions are the rows, columns and inner
// dimension of each product, which are looped over, and which operands must be copied into another order first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk::math {

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
};

// The number of indices that a group of axes has together.
int64_t GroupSize(const std::vector<Axis>& axes, const std::vector<int>& group);
// The distance of neighbours in a group that is one dimension of one stride in that tensor; 0 for an empty group.
int64_t GroupStride(const std::vector<Axis>& axes, const std::vector<int>& group, int64_t Axis::*stride);

// `axes` in the order of c, inner axes after them. element_size: 4 or 8 bytes. SumOrder::kBatchInvariant: each element
// of c is the sum of one product, over the inner axes in their order. A plan that was made before is looked up.
std::shared_ptr<const ContractPlan> PlanContraction(const std::vector<Axis>& axes, int element_size, SumOrder order);

// The strides that a, b and c have after the copies of `plan`, in place of those in `axes`. Copied operands: looped
// axes first, then the two groups of the product. c has one slice of all its elements for each looped inner index.
std::vector<Axis> EffectiveAxes(const std::vector<Axis>& axes, const ContractPlan& plan);

}  // namespace crosstalk::math
