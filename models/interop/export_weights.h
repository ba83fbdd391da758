// The tensors of a model as a published form has them, and what it cannot say of the model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crosstalk/models/interop/any_model.h"
#include "crosstalk/models/interop/export.h"
#include "crosstalk/models/interop/published_model.h"
#include "crosstalk/models/interop/published_names.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk {

// The tensors of the files to write, and which of them in 16 bits.
struct PublishedWeights {
  std::vector<NamedTensor> tensors;
  HalfTensors halves;
  std::vector<std::string> widened;  // those that their recorded type does not hold
};

// Those of `record` under its names and in its types, as far as `dtype` keeps these; the others, and all where it is
// null, under their usual names.
PublishedWeights WeightsOf(const AnyModel& any, const PublishedRecord* record, const PublishedNames& names,
                           ExportDType dtype);

// The record by which a model imported in that format is written again; null for other models.
const PublishedRecord* RecordOf(const AnyModel& any, PublishedFormat format);
void AddRemarkOfWidened(const PublishedWeights& weights, ExportResult* result);

// Whether two configurations of a model, as JSON, compute the same in evaluation.
bool SameConfiguration(const Json& ours, const Json& theirs);

}  // namespace crosstalk
