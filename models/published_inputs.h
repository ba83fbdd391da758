// The inputs of Model::Outputs, by their published names: checked, and in the types that models compute with. Ids and
// labels may be int32 or int64; a mask may be of any type, 0 and 1. Errors are Error(kUsage) that begin with the name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/models/batch.h"
#include "crosstalk/models/model.h"
#include "crosstalk/nn/transformer.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// Labels that count nothing.
inline constexpr int32_t kIgnoredLabel = -100;

// int32 of the same shape, each of rank `rank` and in [low, high]; undefined where the batch has no such input.
struct IdRange {
  int64_t low;
  int64_t high;
};
Tensor InputIds(const Batch& inputs, const char* name, int rank, const IdRange& range);
// The ids `input_ids`, which must be there and hold something.
Tensor RequiredInputIds(const Batch& inputs, int rank, int64_t vocabulary);
// The same as InputIds for labels: each a class below `classes`, or kIgnoredLabel.
Tensor InputLabels(const Batch& inputs, const char* name, int rank, int64_t classes);
// bool of the same shape, which must be `shape`; undefined where there is none.
Tensor InputMask(const Batch& inputs, const char* name, const Shape& shape);
// The same, all true where there is none: padding is attended to then, as in the published code.
Tensor InputMaskOrAll(const Batch& inputs, const char* name, const Shape& shape);
// Every input must be one of these.
void CheckInputNames(const Batch& inputs, const std::vector<std::string>& known);

// Mean over the labels that are not kIgnoredLabel of -ln p, from logits[…, classes] and labels int32[…] named `name`.
Variable MeanCrossEntropy(const Variable& logits, const Tensor& labels, const char* name);

// "PREFIXhidden_states.0", … except the last, and "PREFIXattentions.0", ….
void AddRecord(const TransformerRecord& record, const std::string& prefix, std::vector<NamedVariable>& outputs);

}  // namespace crosstalk
