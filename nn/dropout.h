// Dropout as a layer uses it: in training only, with numbers that belong to the layer's place in the model.
#pragma once

#include <string_view>

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/module.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// x itself in evaluation or at rate 0; else Dropout with the key of `site`, a dotted path that no other dropout of the
// model has.
Variable ApplyDropout(const Variable& x, double rate, std::string_view site, const ForwardContext& context);

}  // namespace crosstalk
