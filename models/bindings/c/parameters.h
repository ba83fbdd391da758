// The parameters of a module as a host sees them.
#pragma once

#include <vector>

#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/safetensors.h"

namespace crosstalk::c {

// They share the module's elements.
std::vector<NamedTensor> ParametersOf(const Module& module);

}  // namespace crosstalk::c
