// A module's parameters as named tensors, and back: what model.safetensors holds.
#pragma once

#include <string>
#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/safetensors.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// By dotted path; sharing memory with the parameters.
std::vector<NamedTensor> ParameterTensors(const Module& module);

// Copies the file's tensors into the parameters. Error(kData) naming file and tensor where one is missing, unknown, or
// of another shape or dtype; nothing is changed then.
void LoadParameters(const TensorFile& file, Module& module);

// "embedding[17] is nan" of the first float32 parameter that is not finite; empty if all are.
std::string NonFiniteValue(const Module& module);

}  // namespace crosstalk
