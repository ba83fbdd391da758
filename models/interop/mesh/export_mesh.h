// A T5 as a checkpoint of Mesh TensorFlow.
#pragma once

#include <string>

#include "crosstalk/models/interop/any_model.h"
#include "crosstalk/models/interop/export.h"

namespace crosstalk {

// ExportModel in PublishedFormat::kMesh: `checkpoint`, model.ckpt-N.index with one file of data, operative_config.gin,
// and sentencepiece.model where the tokenizer is such a model. All of it is read back before the folder appears.
ExportResult ExportMesh(const AnyModel& any, const std::string& out, const ExportOptions& options);

}  // namespace crosstalk
