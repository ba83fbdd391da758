#include "crosstalk/models/training/objectives/token_rows.h"

#include <algorithm>

#include "crosstalk/runtime/check.h"

namespace crosstalk {
namespace {

void CopyRow(const std::vector<int32_t>& ids, const Tensor& to, int64_t row) {
  CROSSTALK_DCHECK(std::ssize(ids) <= to.size(1));
  std::copy(ids.begin(), ids.end(), to.data<int32_t>() + row * to.size(1));
}

}  // namespace

Batch EmptyTokenRows(int64_t rows, int64_t inputs, int64_t targets, int32_t pad) {
  Batch batch;
  batch.Add("inputs", Tensor::Full({rows, inputs}, pad, DType::kInt32));
  batch.Add("targets", Tensor::Full({rows, targets}, pad, DType::kInt32));
  batch.positions = rows * targets;
  return batch;
}

void WriteTokenRow(const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets, int64_t row, Batch& batch) {
  CopyRow(inputs, batch.Get("inputs"), row);
  CopyRow(targets, batch.Get("targets"), row);
  batch.targets += std::ssize(targets);
}

}  // namespace crosstalk
