// The composed implementation: the paper's pseudocode in einsum, in float and double. The fast kernels are tested
// against it, and a new idea starts here. Its parts serve every implementation: the checks, and the projections before
// and after the part that has queries against memory positions. nn/attention/attention.h is the layer that most callers
// want.
#pragma once

#include <optional>

#include "crosstalk/autograd/ops_attention.h"
#include "crosstalk/autograd/variable.h"
#include "crosstalk/nn/attention/types.h"
#include "crosstalk/runtime/random.h"

namespace crosstalk {

struct ComposedResult {
  Variable O;  // [b, n, h_v, d_v]
  Variable W;  // [b, h, n, m]
  Variable U;  // [b, h_v, n, m], after dropout
};
// The same function as FusedAttention (autograd/ops_attention.h). The tensors of a capture are filled in where one is
// given.
ComposedResult AttendComposed(const AttentionCall& call, AttentionCapture* capture = nullptr);

// Throws a usage error that shows both shapes unless `parameters` are those that `config` calls for.
void CheckAttentionParameters(const AttentionConfig& config, const AttentionParameters& parameters);

// λ[] of Differential::kV1: exp(lambda_q1·lambda_k1) - exp(lambda_q2·lambda_k2) + λ_init.
Variable DifferentialLambda(const AttentionConfig& config, const AttentionParameters& parameters);

// P_l[h_k, h] and P_w[h, h_v] as they mix, whatever parameters they are made of: with zeros between heads of different
// groups, if there are some; of Differential::kV1 1 and -λ. Undefined if there is none.
Variable LogitsMixing(const AttentionConfig& config, const AttentionParameters& parameters);
Variable WeightsMixing(const AttentionConfig& config, const AttentionParameters& parameters);

// M[b, m, d_M] at the positions from `first` on → K, V, R_Ml, R_Mw: all that belongs to a memory position.
AttentionMemory ProjectMemory(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& M,
                              int64_t first = 0);

// X[b, n, d_X] at the positions from `first` on → Q, R_Xl, R_Xw, and with the projected memory and the options the call
// that every implementation takes. Bilinear: Q is X·P[b, n, h, d_M]; without projections: X as [b, n, 1, d_X]. In both
// of these K and V are M[b, m, d_M], shared by all heads.
AttentionCall ProjectQueries(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& X,
                             const AttentionMemory& memory, const AttentionCallOptions& options,
                             const std::optional<RandomKey>& dropout_key, int64_t first = 0);

// The mixings and convolutions that the calls of such a layer have; sizes, masks and bias are a call's own (BindShape).
kernels::AttentionShape ShapeOf(const AttentionConfig& config);

// With the head norm and gate if there are some: O[b, n, h_v, d_v] (bilinear [b, n, h, d_M]; without projections [b,
// n, 1, d_M]) → Y[b, n, d_Y].
Variable ProjectOutput(const AttentionConfig& config, const AttentionParameters& parameters, const Variable& O);

}  // namespace crosstalk
