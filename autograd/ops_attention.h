// The fused attention (kernels/attention) as one differentiable operation: from projected queries, keys and values to
// O, with every mixing of heads, keeping nothing of size n·m but L where it is no larger than Q. float only; the
// composed form in nn/ is its reference.
#pragma once

#include "crosstalk/autograd/variable.h"
#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

struct FusedAttentionInputs {
  Variable Q;  // [b, n, h_k, d_k]
  Variable K;  // [b, m, h_k, d_k]; kMultiQuery: [b, m, d_k]
  Variable V;  // [b, m, h_v, d_v]; kMultiQuery: [b, m, d_v]
  kernels::MemoryHeads memory_heads = kernels::MemoryHeads::kPerHead;
  // Mixings of heads; undefined where there are none.
  Variable P_l;   // [h_k, h]
  Variable P_w;   // [h, h_v]
  Variable R_Xl;  // [b, n, h_k, h]
  Variable R_Ml;  // [b, m, h_k, h]
  Variable R_Xw;  // [b, n, h, h_v]
  Variable R_Mw;  // [b, m, h, h_v]
  // Added to the logits, one of the two or none: bias[h, n, m] by itself; or bias_table[h, buckets], of which query i
  // and memory position j take bucket distance_bucket[j - i + n - 1].
  Variable bias;
  Variable bias_table;
  Tensor distance_bucket;  // int32[n + m - 1], each in [0, buckets)

  double scale = 1.0;  // of J = Q·K
  kernels::AttentionCausality causality = kernels::AttentionCausality::kNone;
  Tensor memory_mask;  // bool[b, m], true = attend; undefined: all
  Tensor pair_mask;    // bool[b, n, m]
  // Of U[b, h_v, n, m]: element i is dropped by the key's number i. 0: none.
  double dropout_rate = 0.0;
  RandomKey dropout_key;
};

// O[b, n, h_v, d_v]. A query that may attend to nothing gives 0 and passes no gradient on. Usage errors name the
// dimension that does not fit; anything but float is one too.
Variable FusedAttention(const FusedAttentionInputs& inputs);

}  // namespace crosstalk
