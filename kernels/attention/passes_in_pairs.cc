// The fused attention in pairs of bfloat16: widened to float, and by the instruction for their dot products.
#include "crosstalk/kernels/attention/plan.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/passes_in_pairs.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"
#include "crosstalk/kernels/attention/forward-inl.h"

CROSSTALK_TARGETS(PassesInWidenedPairs, AttentionPasses{ForwardIn<PairTerms<BFloat16Unit::kWidened>>,
                                                        BackwardIn<PairTerms<BFloat16Unit::kWidened>>})
CROSSTALK_TARGETS(PassesInDotProducts,
                  AttentionPasses{ForwardIn<PairTerms<kDotProductHere>>, BackwardIn<PairTerms<kDotProductHere>>})
