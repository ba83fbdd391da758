// One static head mixing alone, on a tile that stays in the cache: the fused attention's own loops without what
// surrounds them there, so that their speed and their results can be looked at by themselves.
#pragma once

#include <cstdint>

#include "crosstalk/kernels/attention/plan.h"

namespace crosstalk::kernels {

// `plan` is of a shape that has P_l[h_k, h] and at least as many queries as a tile has rows. It says how tiles lie:
// element (head k, query q, position j) at k · plan.pitch + q · kChunk + j. All arrays are aligned to 64 bytes.

// P_l[h_k, h], and its transpose, in the order in which the loops read them: h_k·h floats.
void PackHeadMixing(const AttentionPlan& plan, const float* P_l, float* packed);
void PackHeadMixingTransposed(const AttentionPlan& plan, const float* P_l, float* packed);

// L[h] = J[h_k]·P_l, both tiles.
void MixTileHeads(const AttentionPlan& plan, const float* packed, const float* J, float* L);

// dJ[h_k] = dL[h]·P_lᵀ, and dP_l[h_k, h] += J·dL, still in partial sums: dP_l[h_k, h, kPartialSums].
void MixTileHeadsBackward(const AttentionPlan& plan, const float* packed_transposed, const float* J, const float* dL,
                          float* dJ, float* dP_l);

}  // namespace crosstalk::kernels
