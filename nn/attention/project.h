// What every implementation of attention shares: the checks, and the projections before and after the part that has
// queries against memory positions. nn/attention/attention.h is the layer that most callers want.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/shape.h"

namespace crosstalk {

// Throws a usage error that shows both shapes unless `parameters` are those that `config` calls for.
void CheckAttentionParameters(const AttentionConfig& config, const AttentionParameters& parameters);

// The same for what a call brings: X[b, n, d_X], the projected memory, masks and bias. Returns b, n and m by name.
Dims CheckAttentionInputs(const AttentionConfig& config, const Variable& X, const AttentionMemory& memory,
                          const AttentionExtras& extras);

// M[b, m, d_M] → K, V, R_Ml, R_Mw: all that belongs to a memory position.
AttentionMemory ProjectMemory(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& M);

// X[b, n, d_X] → Q, R_Xl, R_Xw: all that belongs to a query.
AttentionQueries ProjectQueries(const AttentionConfig& config, const AttentionParameters& parameters,
                                const Variable& X);

// O[b, n, h_v, d_v] (bilinear [b, n, h, d_M]; without projections [b, n, 1, d_M]) → Y[b, n, d_Y].
Variable ProjectOutput(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& O);

}  // namespace crosstalk
