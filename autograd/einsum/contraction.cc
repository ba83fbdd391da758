#include "crosstalk/autograd/einsum/contraction.h"

#include <algorithm>
#include <utility>

#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/copy.h"
#include "crosstalk/kernels/elementwise.h"
#include "crosstalk/kernels/gemm/gemm.h"
#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk::math {
namespace {

using Kind = Axis::Kind;

int Find(const Labels& labels, int label) {
  const auto at = std::find(labels.begin(), labels.end(), label);
  return at == labels.end() ? -1 : static_cast<int>(at - labels.begin());
}

struct Problem {
  Shape result_shape;
  std::vector<Axis> axes;  // of size ≥ 2, in the order of the result, inner ones last
  bool empty = false;      // some dimension is 0
};

Problem MakeProblem(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b,
                    const Labels& result) {
  CROSSTALK_DCHECK(labels_a.size() == a.rank() && labels_b.size() == b.rank());
  Problem problem;
  problem.axes.reserve(kMaxRank);
  const auto add = [&](int label, bool in_result) {
    const int in_a = Find(labels_a, label);
    const int in_b = Find(labels_b, label);
    CROSSTALK_DCHECK(in_a >= 0 || in_b >= 0);
    CROSSTALK_DCHECK(in_result || (in_a >= 0 && in_b >= 0));
    Axis axis;
    axis.size = in_a >= 0 ? a.shape()[in_a] : b.shape()[in_b];
    CROSSTALK_DCHECK(in_a < 0 || in_b < 0 || b.shape()[in_b] == axis.size);
    axis.a = in_a >= 0 ? a.strides()[in_a] : 0;
    axis.b = in_b >= 0 ? b.strides()[in_b] : 0;
    axis.kind = !in_result ? Kind::kInner : in_a < 0 ? Kind::kColumn : in_b < 0 ? Kind::kRow : Kind::kBatch;
    if (in_result) problem.result_shape.Append(axis.size);
    if (axis.size == 0) problem.empty = true;
    if (axis.size != 1) problem.axes.push_back(axis);
  };
  for (const int label : result) add(label, true);
  int64_t stride = 1;
  for (auto axis = problem.axes.rbegin(); axis != problem.axes.rend(); ++axis) {
    axis->c = stride;
    stride *= axis->size;
  }
  for (const int label : labels_a) {
    if (Find(result, label) < 0) add(label, false);
  }
  for (const int label : labels_b) CROSSTALK_DCHECK(Find(result, label) >= 0 || Find(labels_a, label) >= 0);
  return problem;
}

// The elements of one operand, copied into the order that `to` gives its axes.
template <typename T>
Tensor Rearranged(const T* source, const std::vector<Axis>& from, const std::vector<Axis>& to, int64_t Axis::*stride,
                  Kind absent, int64_t count) {
  Tensor copy = Tensor::Empty({count}, DTypeOf<T>);
  Shape shape;
  Strides source_strides, target_strides;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].kind == absent) continue;
    shape.Append(from[i].size);
    source_strides.Append(from[i].*stride);
    target_strides.Append(to[i].*stride);
  }
  Launch([&] { kernels::CopyStrided<T>(shape, source, source_strides, copy.data<T>(), target_strides); });
  return copy;
}

int64_t Count(const std::vector<Axis>& axes, Kind absent) {
  int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.kind == absent ? 1 : axis.size;
  return count;
}

// One operand's offset for every index of the looped axes, in row-major order.
std::vector<int64_t> Offsets(const ContractPlan& plan, int64_t Axis::*stride) {
  std::vector<int64_t> offsets = {0};
  for (const int i : plan.looped) {
    const Axis& axis = plan.effective[static_cast<size_t>(i)];
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(axis.size));
    for (const int64_t offset : offsets) {
      for (int64_t j = 0; j < axis.size; ++j) next.push_back(offset + j * (axis.*stride));
    }
    offsets = std::move(next);
  }
  return offsets;
}

template <typename T>
void RunInterleaved(const ContractPlan& plan, const T* a, const T* b, T* c) {
  const std::vector<Axis>& axes = plan.effective;
  kernels::InterleavedGemmArguments<T> product;
  product.rows = plan.m;
  product.columns = plan.n;
  product.inner = plan.k;
  product.lanes = axes[static_cast<size_t>(plan.lane)].size;
  product.precision = CurrentContext().precision;
  product.a = a;
  product.a_row = GroupStride(axes, plan.rows, &Axis::a);
  product.a_inner = GroupStride(axes, plan.inner, &Axis::a);
  product.b = b;
  product.b_inner = GroupStride(axes, plan.inner, &Axis::b);
  product.b_column = GroupStride(axes, plan.columns, &Axis::b);
  product.c = c;
  product.c_row = GroupStride(axes, plan.rows, &Axis::c);
  product.c_column = GroupStride(axes, plan.columns, &Axis::c);
  Launch([&] {
    kernels::InterleavedGemmBatched<T>(product, Offsets(plan, &Axis::a), Offsets(plan, &Axis::b),
                                       Offsets(plan, &Axis::c));
  });
}

template <typename T>
void RunGemm(const ContractPlan& plan, T beta, const Tensor& a, const Tensor& b, T* c) {
  const std::vector<Axis>& axes = plan.effective;
  const GemmView view_a =
      MakeGemmView(plan.m, plan.k, GroupStride(axes, plan.rows, &Axis::a), GroupStride(axes, plan.inner, &Axis::a));
  const GemmView view_b =
      MakeGemmView(plan.k, plan.n, GroupStride(axes, plan.inner, &Axis::b), GroupStride(axes, plan.columns, &Axis::b));
  const GemmView view_c =
      MakeGemmView(plan.m, plan.n, GroupStride(axes, plan.rows, &Axis::c), GroupStride(axes, plan.columns, &Axis::c));
  CROSSTALK_DCHECK(view_a.valid && view_b.valid && view_c.valid);
  const auto flipped = [](kernels::Transpose transpose) {
    return transpose == kernels::Transpose::kNo ? kernels::Transpose::kYes : kernels::Transpose::kNo;
  };
  kernels::GemmArguments<T> gemm;
  gemm.k = plan.k;
  SetAsInContext(gemm);
  gemm.beta = beta;
  gemm.c = c;
  gemm.ldc = view_c.ld;
  const bool swapped = view_c.transpose == kernels::Transpose::kYes;
  if (!swapped) {
    gemm.m = plan.m, gemm.n = plan.n;
    gemm.a = OperandOf<T>(a, view_a.ld), gemm.transpose_a = view_a.transpose;
    gemm.b = OperandOf<T>(b, view_b.ld), gemm.transpose_b = view_b.transpose;
  } else {  // Cᵀ = Bᵀ Aᵀ
    gemm.m = plan.n, gemm.n = plan.m;
    gemm.a = OperandOf<T>(b, view_b.ld), gemm.transpose_a = flipped(view_b.transpose);
    gemm.b = OperandOf<T>(a, view_a.ld), gemm.transpose_b = flipped(view_a.transpose);
  }
  if (plan.looped.empty()) return kernels::Gemm<T>(gemm);
  const std::vector<int64_t> offsets_a = Offsets(plan, &Axis::a), offsets_b = Offsets(plan, &Axis::b);
  kernels::GemmBatched<T>(gemm, swapped ? offsets_b : offsets_a, swapped ? offsets_a : offsets_b,
                          Offsets(plan, &Axis::c));
}

template <typename T>
void MultiplyAndSum(const std::vector<Axis>& axes, const T* a, const T* b, T* c) {
  Shape shape;
  Strides strides_a, strides_b;
  int64_t inner = 1;
  for (const Axis& axis : axes) {
    shape.Append(axis.size);
    strides_a.Append(axis.a);
    strides_b.Append(axis.b);
    if (axis.kind == Kind::kInner) inner *= axis.size;
  }
  if (inner == 1) {
    Launch([&] { kernels::Binary<T>(kernels::BinaryOp::kMul, shape, a, strides_a, b, strides_b, c); });
    return;
  }
  const Tensor products = Tensor::Empty(shape, DTypeOf<T>);
  Launch([&] {
    kernels::Binary<T>(kernels::BinaryOp::kMul, shape, a, strides_a, b, strides_b, products.data<T>());
    kernels::Sum<T>(products.num_elements() / inner, inner, 1, products.data<T>(), c);
  });
}

// True if the products themselves can add to what c holds.
bool AddsInPlace(const ContractPlan& plan) {
  return plan.method == ContractPlan::Method::kGemm && !plan.copy_c && plan.partial_sums == 1;
}

// The dtype a plan reads of an operand: matrix products read bfloat16 where it lies, all others and copies float.
Tensor Readable(const Tensor& x, const ContractPlan& plan, bool copied) {
  return plan.method == ContractPlan::Method::kGemm && !copied ? ReadByProducts(x) : Widened(x);
}

// c = beta · c + a · b; beta is 0 unless AddsInPlace.
template <typename T>
void Run(const std::vector<Axis>& axes, const ContractPlan& plan, T beta, const Tensor& tensor_a,
         const Tensor& tensor_b, T* c) {
  Tensor operand_a = Readable(tensor_a, plan, plan.copy_a), operand_b = Readable(tensor_b, plan, plan.copy_b);
  if (plan.method == ContractPlan::Method::kMultiplyAndSum) {
    return MultiplyAndSum(axes, operand_a.data<T>(), operand_b.data<T>(), c);
  }
  const std::vector<Axis>& effective = plan.effective;
  if (plan.copy_a) {
    operand_a =
        Rearranged<T>(operand_a.data<T>(), axes, effective, &Axis::a, Kind::kColumn, Count(axes, Kind::kColumn));
  }
  if (plan.copy_b) {
    operand_b = Rearranged<T>(operand_b.data<T>(), axes, effective, &Axis::b, Kind::kRow, Count(axes, Kind::kRow));
  }
  const int64_t elements = Count(axes, Kind::kInner);
  const int64_t partial_sums = plan.partial_sums;
  Tensor partial, rearranged;
  T* products = c;
  if (partial_sums > 1) {
    partial = Tensor::Empty({partial_sums * elements}, DTypeOf<T>);
    products = partial.data<T>();
  } else if (plan.copy_c) {
    rearranged = Tensor::Empty({elements}, DTypeOf<T>);
    products = rearranged.data<T>();
  }
  if (plan.method == ContractPlan::Method::kInterleaved) {
    RunInterleaved<T>(plan, operand_a.data<T>(), operand_b.data<T>(), products);
  } else {
    RunGemm<T>(plan, beta, operand_a, operand_b, products);
  }
  if (partial_sums > 1) {
    T* sums = c;
    if (plan.copy_c) {
      rearranged = Tensor::Empty({elements}, DTypeOf<T>);
      sums = rearranged.data<T>();
    }
    Launch([&] { kernels::Sum<T>(1, partial_sums, elements, products, sums); });
    products = sums;
  }
  if (!plan.copy_c) return;
  Shape shape;
  Strides from, to;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].kind == Kind::kInner) continue;
    shape.Append(axes[i].size);
    from.Append(effective[i].c);
    to.Append(axes[i].c);
  }
  Launch([&] { kernels::CopyStrided<T>(shape, products, from, c, to); });
}

// Widened tensors are contiguous, and so the plan must not depend on other strides.
Tensor AsRead(const Tensor& x) { return x.dtype() == DType::kBFloat16 ? Contiguous(x) : x; }

}  // namespace

Tensor Contract(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b,
                const Labels& result) {
  const Tensor operand_a = AsRead(a), operand_b = AsRead(b);
  const Problem problem = MakeProblem(operand_a, labels_a, operand_b, labels_b, result);
  const DType dtype = ResultDType(a.dtype());
  if (problem.empty) return Tensor::Zeros(problem.result_shape, dtype);
  Tensor c = Tensor::Empty(problem.result_shape, dtype);
  DispatchFloat("einsum", dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto plan = PlanContraction(problem.axes, sizeof(T), CurrentContext().sum_order);
    Run<T>(problem.axes, *plan, T(0), operand_a, operand_b, c.data<T>());
  });
  return c;
}

void AddContraction(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b,
                    const Labels& result, Tensor& sum) {
  const Tensor operand_a = AsRead(a), operand_b = AsRead(b);
  const Problem problem = MakeProblem(operand_a, labels_a, operand_b, labels_b, result);
  const DType dtype = ResultDType(a.dtype());
  CROSSTALK_DCHECK(sum.is_contiguous() && sum.shape() == problem.result_shape && sum.dtype() == dtype);
  if (problem.empty) return;
  DispatchFloat("einsum", dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto plan = PlanContraction(problem.axes, sizeof(T), CurrentContext().sum_order);
    const bool in_place = AddsInPlace(*plan);
    const Tensor c = in_place ? sum : Tensor::Empty(problem.result_shape, dtype);
    Run<T>(problem.axes, *plan, in_place ? T(1) : T(0), operand_a, operand_b, c.data<T>());
    if (!in_place) AddInPlace(sum, c);
  });
}

std::string DescribeContraction(const Tensor& a, const Labels& labels_a, const Tensor& b, const Labels& labels_b,
                                const Labels& result) {
  const Problem problem = MakeProblem(a, labels_a, b, labels_b, result);
  if (problem.empty) return "nothing to do";
  const ContractPlan plan =
      *PlanContraction(problem.axes, static_cast<int>(SizeOf(a.dtype())), CurrentContext().sum_order);
  if (plan.method == ContractPlan::Method::kMultiplyAndSum) return "elementwise product";
  const int64_t m = GroupSize(problem.axes, plan.rows);
  const int64_t n = GroupSize(problem.axes, plan.columns);
  const int64_t k = GroupSize(problem.axes, plan.inner);
  int64_t all = 1;
  for (const Axis& axis : problem.axes) all *= axis.size;
  const int64_t products = all / (m * n * k);
  if (plan.lane >= 0) {
    const int64_t lanes = problem.axes[static_cast<size_t>(plan.lane)].size;
    return StrCat(products / lanes, " x ", lanes, " lanes of [", m, ", ", k, "] x [", k, ", ", n, "]",
                  plan.copy_a ? ", copying the first" : "", plan.copy_b ? ", copying the second" : "",
                  plan.copy_c ? ", copying the result" : "");
  }
  return StrCat(products, products == 1 ? " product" : " products", " of [", m, ", ", k, "] x [", k, ", ", n, "]",
                plan.copy_a ? ", copying the first" : "", plan.copy_b ? ", copying the second" : "",
                plan.copy_c ? ", copying the result" : "");
}

}  // namespace crosstalk::math
