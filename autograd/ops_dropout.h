// Dropout with numbers that are a pure function of a key, so that recomputation and resumption draw the same mask.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

// Element i (row-major) is 0 with probability `rate`, else x/(1-rate), by Uniform(key, i) < rate. 0 ≤ rate < 1; rate 0
// gives x itself. No mask is stored: the gradient draws it again.
Variable Dropout(const Variable& x, double rate, const RandomKey& key);

}  // namespace crosstalk
