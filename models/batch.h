// Batch: what a model is given in one pass: named tensors, one row an example.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Counts are filled in by the maker of the batch: a step's loss is divided by those of all its parts, before the first
// part's gradient is computed.
class Batch {
 public:
  Batch() = default;

  // Error(kUsage) if there is one of that name, or if it has another number of rows than the others.
  Batch& Add(std::string name, Tensor tensor);
  bool Has(std::string_view name) const;
  // Error(kUsage) that lists what is there.
  const Tensor& Get(std::string_view name) const;
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  int64_t rows() const;  // examples; 0 without tensors

  int64_t targets = 0;    // what the loss is a sum over: target tokens that are not padding
  int64_t positions = 0;  // the same, padding counted
  int64_t tokens = 0;     // that the model reads and is asked for, padding not counted: for tokens per second

 private:
  std::vector<NamedTensor> tensors_;
};

// Elements of ids (int32) that are not `pad`.
int64_t CountNot(const Tensor& ids, int32_t pad);
// The batch without the last columns of `ids` (int32[…, n]) that are `pad` in every row, at least one column staying,
// and without the same columns of the tensors `along`: rows then cost what the longest of them holds, not what one
// could.
Batch WithoutPaddingColumns(const Batch& batch, const std::string& ids, const std::vector<std::string>& along,
                            int32_t pad);
// The batch with the first n columns alone of the tensors of these names, […, at least n].
Batch FirstColumns(const Batch& batch, const std::vector<std::string>& names, int64_t n);
// bool[…]: true where ids (int32) are not `pad`.
Tensor NotPadding(const Tensor& ids, int32_t pad);

}  // namespace crosstalk
#pragma GCC visibility pop
