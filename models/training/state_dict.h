// A module's parameters as named tensors, and back: what model.safetensors holds.
#pragma once

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

}  // namespace crosstalk
