// Shapes, look-ups and reductions.
#include <numeric>
#include <vector>

#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/copy.h"
#include "crosstalk/kernels/rows.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
namespace {

// The elements as they are if strides allow the new shape, else a fast copy.
Tensor Reshaped(const Tensor& x, const Shape& shape) {
  return (x.is_contiguous() ? x : math::Contiguous(x)).Reshape(shape);
}

}  // namespace

Variable Reshape(const Variable& x, const Shape& shape) {
  return MakeOp("reshape", Reshaped(x.value(), shape), {x},
                [from = x.shape()](const Tensor& dy, Gradients& gradients) { gradients.Add(0, Reshaped(dy, from)); });
}

Variable Transpose(const Variable& x, int dim_a, int dim_b) {
  return MakeOp(
      "transpose", x.value().Transpose(dim_a, dim_b), {x},
      [dim_a, dim_b](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy.Transpose(dim_a, dim_b)); });
}

Variable Permute(const Variable& x, const std::vector<int>& order) {
  Tensor y = x.value().Permute(order);
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int dim = order[i] < 0 ? order[i] + x.rank() : order[i];
    inverse[static_cast<size_t>(dim)] = static_cast<int>(i);
  }
  return MakeOp("permute", y, {x},
                [inverse](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy.Permute(inverse)); });
}

Variable Slice(const Variable& x, int dim, int64_t begin, int64_t end) {
  return MakeOp("slice", x.value().Slice(dim, begin, end), {x},
                [dim, begin, end, shape = x.shape()](const Tensor& dy, Gradients& gradients) {
                  const Tensor dx = Tensor::Zeros(shape, dy.dtype());
                  math::CopyTo(dy, dx.Slice(dim, begin, end));
                  gradients.Add(0, dx);
                });
}

Variable Concat(const std::vector<Variable>& parts, int dim) {
  std::vector<Tensor> values;
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const Variable& part : parts) {
    values.push_back(part.value());
    end += part.rank() > 0 ? part.size(dim) : 0;
    ends.push_back(end);
  }
  return MakeOp("concat", math::Concat(values, dim), parts, [dim, ends](const Tensor& dy, Gradients& gradients) {
    int64_t begin = 0;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (gradients.Needs(static_cast<int>(i))) gradients.Add(static_cast<int>(i), dy.Slice(dim, begin, ends[i]));
      begin = ends[i];
    }
  });
}

Variable BroadcastTo(const Variable& x, const Shape& shape) {
  return MakeOp(
      "broadcast_to", x.value().BroadcastTo(shape), {x},
      [from = x.shape()](const Tensor& dy, Gradients& gradients) { gradients.Add(0, math::Unbroadcast(dy, from)); });
}

Variable Contiguous(const Variable& x) {
  if (x.value().is_contiguous()) return x;
  return MakeOp("contiguous", math::Contiguous(x.value()), {x},
                [](const Tensor& dy, Gradients& gradients) { gradients.Add(0, dy); });
}

namespace {

// Contiguous int32 copies of int32 or int64 indices, each checked to be in [0, bound).
Tensor CheckedIndices(const char* name, const Tensor& ids, int64_t bound) {
  CROSSTALK_CHECK(ids.defined() && (ids.dtype() == DType::kInt32 || ids.dtype() == DType::kInt64), name,
                  ": indices must be int32 or int64");
  CROSSTALK_CHECK(bound <= int64_t{1} << 31, name, ": a dimension of ", bound, " is too long to be looked up; at most ",
                  int64_t{1} << 31, " are");
  const Tensor values = math::Contiguous(ids);
  Tensor result = Tensor::Empty(ids.shape(), DType::kInt32);
  int32_t* const out = result.data<int32_t>();
  Launch([&] {
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      const int64_t id = values.dtype() == DType::kInt32 ? values.data<int32_t>()[i] : values.data<int64_t>()[i];
      CROSSTALK_CHECK(id >= 0 && id < bound, name, ": index ", id, " at position ", i, " of ids", ids.shape(),
                      " is not in [0, ", bound, ")");
      out[i] = static_cast<int32_t>(id);
    }
  });
  return result;
}

// The ids whose rows get a gradient: -1 instead of padding, which is a row of no table.
Tensor WithoutPadding(const Tensor& ids, int32_t padding_idx) {
  const Tensor result = Tensor::Empty(ids.shape(), DType::kInt32);
  Launch([&] {
    for (int64_t i = 0; i < ids.num_elements(); ++i) {
      const int32_t id = ids.data<int32_t>()[i];
      result.data<int32_t>()[i] = id == padding_idx ? -1 : id;
    }
  });
  return result;
}

}  // namespace

Variable Embedding(const Variable& table, const Tensor& ids, std::optional<int32_t> padding_idx,
                   std::optional<int64_t> vocabulary) {
  CROSSTALK_CHECK(table.rank() >= 1, "embedding: the table has no rows: it is a scalar");
  const int64_t rows = table.size(0);
  CROSSTALK_CHECK(vocabulary.value_or(rows) <= rows, "embedding: a vocabulary of ", *vocabulary,
                  " is larger than the table's ", rows, " rows");
  const Tensor checked = CheckedIndices("embedding", ids, vocabulary.value_or(rows));
  const Tensor values = math::Contiguous(table.value());
  Shape shape = ids.shape();
  int64_t cols = 1;
  for (int i = 1; i < table.rank(); ++i) {
    shape.Append(table.shape()[i]);
    cols *= table.shape()[i];
  }
  Tensor y = Tensor::Empty(shape, table.dtype());
  Launch("embedding", table.dtype(), [&](auto zero) {
    using T = decltype(zero);
    kernels::GatherRows<T>(checked.num_elements(), cols, values.data<T>(), checked.data<int32_t>(), y.data<T>());
  });
  const Tensor targets = padding_idx ? WithoutPadding(checked, *padding_idx) : checked;
  return MakeOp("embedding", y, {table},
                [targets, rows, cols, table_shape = table.shape()](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  // A table is large, and few of its rows are looked up: only those are touched if there is a sum.
                  Tensor* const sum = gradients.Accumulator(0);
                  const Tensor dtable = sum != nullptr ? *sum : Tensor::Zeros(table_shape, dy.dtype());
                  Launch("embedding", dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    kernels::ScatterAddRows<T>(targets.num_elements(), rows, cols, targets.data<int32_t>(),
                                               dy.data<T>(), dtable.data<T>());
                  });
                  if (sum == nullptr) gradients.Add(0, dtable);
                });
}

Variable Take(const Variable& x, int dim, const Tensor& ids) {
  const int at = dim < 0 ? dim + x.rank() : dim;
  CROSSTALK_CHECK(at >= 0 && at < x.rank(), "take: dimension ", dim, " of a tensor of shape ", x.shape());
  if (at == 0) return Embedding(x, ids);
  // Rows first, look up, and ids' dimensions back to where dim was.
  std::vector<int> rows_first(static_cast<size_t>(x.rank()));
  std::iota(rows_first.begin(), rows_first.end(), 0);
  rows_first.erase(rows_first.begin() + at);
  rows_first.insert(rows_first.begin(), at);
  const Variable taken = Embedding(Permute(x, rows_first), ids);
  const int rank_ids = ids.rank();
  std::vector<int> back;
  for (int i = 0; i < at; ++i) back.push_back(rank_ids + i);
  for (int i = 0; i < rank_ids; ++i) back.push_back(i);
  for (int i = at; i < x.rank() - 1; ++i) back.push_back(rank_ids + i);
  return Contiguous(Permute(taken, back));
}

Variable Gather(const Variable& x, int dim, const Tensor& index) {
  const int at = dim < 0 ? dim + x.rank() : dim;
  CROSSTALK_CHECK(at >= 0 && at < x.rank(), "gather: dimension ", dim, " of a tensor of shape ", x.shape());
  CROSSTALK_CHECK(index.rank() == x.rank(), "gather: index", index.shape(), " and x", x.shape(),
                  " must have the same rank");
  // Other dimensions of x may be larger than index's: only their beginning is read.
  Variable source = x;
  for (int i = 0; i < x.rank(); ++i) {
    CROSSTALK_CHECK(i == at || index.shape()[i] <= x.shape()[i], "gather: index", index.shape(), " is larger than x",
                    x.shape(), " in dimension ", i);
    if (i != at && index.shape()[i] < x.shape()[i]) source = Slice(source, i, 0, index.shape()[i]);
  }
  const Tensor checked = CheckedIndices("gather", index, x.shape()[at]);
  const Tensor values = math::Contiguous(source.value());
  const AxisSplit from = SplitAt("gather", source.shape(), at);
  const int64_t count = index.shape()[at];
  Tensor y = Tensor::Empty(index.shape(), x.dtype());
  Launch("gather", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const in = values.data<T>();
    const int32_t* const ids = checked.data<int32_t>();
    T* const out = y.data<T>();
    const LoopWork work = LoopWork::OfElements(2.0 * static_cast<double>(y.num_elements()));
    ParallelFor(from.outer, [&](int64_t o) {
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t i = 0; i < from.inner; ++i) {
          const int64_t place = (o * count + j) * from.inner + i;
          out[place] = in[(o * from.size + ids[place]) * from.inner + i];
        }
      }
    });
  });
  return MakeOp("gather", y, {source},
                [checked, from, count, shape = source.shape()](const Tensor& dy_strided, Gradients& gradients) {
                  const Tensor dy = math::Contiguous(dy_strided);
                  const Tensor dx = Tensor::Zeros(shape, dy.dtype());
                  Launch("gather", dy.dtype(), [&](auto zero) {
                    using T = decltype(zero);
                    const T* const in = dy.data<T>();
                    const int32_t* const ids = checked.data<int32_t>();
                    T* const out = dx.data<T>();
                    const LoopWork work = LoopWork::OfElements(2.0 * static_cast<double>(dy.num_elements()));
                    ParallelFor(from.outer, [&](int64_t o) {
                      for (int64_t j = 0; j < count; ++j) {
                        for (int64_t i = 0; i < from.inner; ++i) {
                          const int64_t place = (o * count + j) * from.inner + i;
                          out[(o * from.size + ids[place]) * from.inner + i] += in[place];
                        }
                      }
                    });
                  });
                  gradients.Add(0, dx);
                });
}

namespace {

// The shape of a reduction's result with its dimensions kept, as size 1.
Shape KeptShape(const Shape& shape, const std::vector<int>& dims) {
  Shape kept = shape;
  if (dims.empty()) {
    for (int i = 0; i < kept.rank(); ++i) kept[i] = 1;
  }
  for (const int dim : dims) kept[dim < 0 ? dim + shape.rank() : dim] = 1;
  return kept;
}

Shape Without(const Shape& shape, int dim) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != dim) result.Append(shape[i]);
  }
  return result;
}

// One run of adjacent dimensions [begin, end), which become one of size 1.
Variable MaxRun(const Variable& x, int begin, int end) {
  int64_t outer = 1, reduced = 1, inner = 1;
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    (i < begin ? outer : i < end ? reduced : inner) *= shape[i];
    if (i >= begin && i < end) shape[i] = 1;
  }
  const Tensor index = Tensor::Empty(shape, DType::kInt64);
  return KernelOp(
      "max", x, shape, {},
      [=](const auto* x, auto* y) { kernels::Max(outer, reduced, inner, x, y, index.data<int64_t>()); },
      [=](const auto*, const auto*, const auto* dy, auto* dx) {
        kernels::MaxGradient(outer, reduced, inner, index.data<int64_t>(), dy, dx);
      });
}

}  // namespace

Variable Sum(const Variable& x, const std::vector<int>& dims, KeepDims keep) {
  const Shape kept = KeptShape(x.shape(), dims);
  return MakeOp("sum", math::Sum(x.value(), dims, keep), {x},
                [kept, shape = x.shape()](const Tensor& dy, Gradients& gradients) {
                  gradients.Add(0, dy.Reshape(kept).BroadcastTo(shape));
                });
}

Variable Mean(const Variable& x, const std::vector<int>& dims, KeepDims keep) {
  CROSSTALK_CHECK(x.value().num_elements() > 0, "mean: the tensor of shape ", x.shape(), " is empty");
  const Variable sum = Sum(x, dims, keep);
  return Scale(sum, static_cast<double>(sum.value().num_elements()) / static_cast<double>(x.value().num_elements()));
}

Variable Max(const Variable& x, const std::vector<int>& dims, KeepDims keep) {
  const Shape result = math::Max(x.value(), dims, keep).shape();  // also checks dims
  Variable y = x;
  for (int end = x.rank(); end > 0; --end) {
    const auto reduced = [&](int i) {
      for (const int dim : dims) {
        if ((dim < 0 ? dim + x.rank() : dim) == i) return true;
      }
      return dims.empty();
    };
    if (!reduced(end - 1)) continue;
    int begin = end;
    while (begin > 0 && reduced(begin - 1)) --begin;
    y = MaxRun(y, begin, end);
    end = begin + 1;
  }
  return y.shape() == result ? y : Reshape(y, result);
}

Variable LogSumExp(const Variable& x, int dim, KeepDims keep) {
  const AxisSplit at = SplitAt("logsumexp", x.shape(), dim);
  CROSSTALK_CHECK(at.size > 0, "logsumexp: dimension ", dim, " of shape ", x.shape(), " is empty");
  const Shape shape = keep == KeepDims::kYes ? KeptShape(x.shape(), {dim}) : Without(x.shape(), at.axis);
  return KernelOp(
      "logsumexp", x, shape, {.x = true, .y = true},
      [at](const auto* x, auto* y) { kernels::LogSumExp(at.outer, at.size, at.inner, x, y); },
      [at](const auto* x, const auto* y, const auto* dy, auto* dx) {  // dx = dy · e^(x - y)
        kernels::LogSumExpGradient(at.outer, at.size, at.inner, x, y, dy, dx);
      });
}

Variable Softmax(const Variable& x, int dim) {
  const AxisSplit at = SplitAt("softmax", x.shape(), dim);
  return KernelOp(
      "softmax", x, x.shape(), {.y = true},
      [at](const auto* x, auto* y) { kernels::Softmax(at.outer, at.size, at.inner, x, y); },
      [at](const auto*, const auto* y, const auto* dy, auto* dx) {  // dx = y · (dy - Σ y · dy)
        kernels::SoftmaxGradient(at.outer, at.size, at.inner, y, dy, dx);
      });
}

// Subtracts the maximum first: the log-sum-exp of a large x has no digits left for the logarithm.
Variable LogSoftmax(const Variable& x, int dim) {
  SplitAt("log_softmax", x.shape(), dim);
  const Variable shifted = Sub(x, Variable(math::Max(x.value(), {dim}, KeepDims::kYes)));
  return Sub(shifted, LogSumExp(shifted, dim, KeepDims::kYes));
}

}  // namespace crosstalk
