#include "crosstalk/autograd/ops_index.h"

#include <numeric>
#include <vector>

#include "crosstalk/autograd/axis_split.h"
#include "crosstalk/autograd/op.h"
#include "crosstalk/autograd/ops_shape.h"
#include "crosstalk/autograd/tensor_math.h"
#include "crosstalk/kernels/embedding.h"
#include "crosstalk/runtime/parallel.h"
#include "crosstalk/runtime/storage.h"

namespace crosstalk {
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

Variable Embedding(const Variable& table, const Tensor& ids, std::optional<int32_t> padding_idx) {
  CROSSTALK_CHECK(table.rank() >= 1, "embedding: the table has no rows: it is a scalar");
  const int64_t rows = table.size(0);
  const Tensor checked = CheckedIndices("embedding", ids, rows);
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
                  // A table is large, and few of its rows are looked up: only those are touched where there is a sum.
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

}  // namespace crosstalk
