#include "crosstalk/models/batch.h"

#include <algorithm>
#include <utility>

#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {

Batch& Batch::Add(std::string name, Tensor tensor) {
  CROSSTALK_CHECK(!Has(name), "batch: \"", name, "\" is there already");
  CROSSTALK_CHECK(tensor.rank() >= 1 && (tensors_.empty() || tensor.size(0) == rows()), "batch: \"", name,
                  "\" is of shape ", tensor.shape(), ", but the batch has ", rows(), " rows");
  tensors_.push_back({std::move(name), std::move(tensor)});
  return *this;
}

bool Batch::Has(std::string_view name) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [&](const NamedTensor& one) { return one.name == name; });
}

const Tensor& Batch::Get(std::string_view name) const {
  std::vector<std::string> names;
  for (const NamedTensor& one : tensors_) {
    if (one.name == name) return one.tensor;
    names.push_back(one.name);
  }
  Fail(ErrorKind::kUsage, "batch: there is no \"", name, "\"; it has ", names.empty() ? "nothing" : Join(names, ", "));
}

int64_t Batch::rows() const { return tensors_.empty() ? 0 : tensors_[0].tensor.size(0); }

int64_t CountNot(const Tensor& ids, int32_t pad) {
  const int32_t* const data = ids.data<int32_t>();
  return ids.num_elements() - std::count(data, data + ids.num_elements(), pad);
}

Tensor NotPadding(const Tensor& ids, int32_t pad) {
  CROSSTALK_CHECK(ids.defined() && ids.dtype() == DType::kInt32, "batch: ids must be int32");
  const Tensor contiguous = ids.Contiguous();
  Tensor mask = Tensor::Empty(ids.shape(), DType::kBool);
  const int32_t* id = contiguous.data<int32_t>();
  bool* real = mask.data<bool>();
  for (int64_t i = 0; i < ids.num_elements(); ++i) real[i] = id[i] != pad;
  return mask;
}

namespace {

// One more than the last column of ids int32[…, n] that has anything but `pad`.
int64_t ColumnsUsed(const Tensor& ids, int32_t pad) {
  const int64_t n = ids.size(ids.rank() - 1);
  int64_t used = 0;
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    if (ids.data<int32_t>()[i] != pad) used = std::max(used, i % n + 1);
  }
  return used;
}

}  // namespace

Batch WithoutPaddingColumns(const Batch& batch, const std::string& ids, const std::vector<std::string>& along,
                            int32_t pad) {
  std::vector<std::string> names = along;
  names.push_back(ids);
  return FirstColumns(batch, names, std::max<int64_t>(1, ColumnsUsed(batch.Get(ids), pad)));
}

Batch FirstColumns(const Batch& batch, const std::vector<std::string>& names, int64_t n) {
  Batch trimmed;
  for (const NamedTensor& one : batch.tensors()) {
    const bool cut = std::find(names.begin(), names.end(), one.name) != names.end();
    trimmed.Add(one.name, cut ? one.tensor.Slice(one.tensor.rank() - 1, 0, n).Contiguous() : one.tensor);
  }
  trimmed.targets = batch.targets;
  trimmed.positions = batch.positions;
  trimmed.tokens = batch.tokens;
  return trimmed;
}

}  // namespace crosstalk
