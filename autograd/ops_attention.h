// The fused attention (kernels/attention) as one differentiable operation: from projected queries, keys and values to
// O, with every mixing of heads, keeping nothing of size n·m but L if it is no larger than Q. float only; the
// composed form in nn/ is its reference.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/kernels/attention/call.h"
#include "crosstalk/runtime/tensor.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// The caller sets key_sharing, causality and window of `shape`; the operands and the scopes say the rest.
using AttentionCall = kernels::AttentionCallOf<Variable, Tensor, Tensor>;

// The whole shape, of defined operands and masks; a usage error names the dimension or the type that does not fit. The
// first check of a call, in every implementation.
kernels::AttentionShape BindShape(const AttentionCall& call);

// O[b, n, h_v, d_v]. A query that may attend to nothing gives 0 and passes no gradient on. Anything but float is a
// usage error.
Variable FusedAttention(const AttentionCall& call);

}  // namespace crosstalk
#pragma GCC visibility pop
