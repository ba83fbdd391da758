// Writing text with a T5, a token at a time, with cached keys and values.
#pragma once

#include <cstdint>

#include "crosstalk/models/t5/t5.h"
#include "crosstalk/runtime/tensor.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct GreedyOptions {
  int64_t max_length = 128;  // tokens per sequence, the end included
};

// The most probable next token each time (the lowest id, if several are), until every sequence has its end token or is
// max_length long. inputs int32[b, n] → int32[b, t] with t ≤ max_length; what follows an end is padding. The padding
// token itself is never written. Error(kNumerical) where no logit of a row is a number.
Tensor GenerateGreedy(const T5& model, const Tensor& inputs, const GreedyOptions& options = {});

}  // namespace crosstalk
