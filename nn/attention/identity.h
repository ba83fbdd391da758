// The kinds of attention as continuations of multi-head attention: the layer of a kind, and the values, of a multi-head
// layer's parameters and of its own, with which it computes what the multi-head layer does.
#pragma once

#include <string_view>

#include "crosstalk/nn/attention/config.h"
#include "crosstalk/runtime/shape.h"
#include "crosstalk/runtime/tensor.h"

namespace crosstalk {

// `multi_head` with the head mixing of `kind`, which begins with MixingInit::kIdentity. Without the head norm and the
// gate of kMta: neither passes every O on. kDiffV2 has two softmax heads for each of multi_head's, with the same query:
//   U_g = W_2g - σ(0)·W_2g+1 = W_g / 2, and P_o twice as large.
// Error(kUsage) of the field "attention" for a layer that is not multi-head, and, with the reason, for a kind that no
// values make equal to it.
AttentionConfig ContinuedAs(AttentionKind kind, const AttentionConfig& multi_head);

// A parameter, by the end of its path, of a multi-head layer and of one that continues it: its shape in the former, and
// those values as the latter has them. Only kDiffV2's differ: P_q, b_q and a relative bias have each head twice.
Shape ShapeBefore(AttentionKind kind, std::string_view path, const Shape& shape);
Tensor ValuesAfter(AttentionKind kind, std::string_view path, const Tensor& values);

}  // namespace crosstalk
