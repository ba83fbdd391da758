// The fused attention in float, and its static mixing of heads alone.
#include "crosstalk/kernels/attention/plan.h"

#define CROSSTALK_ATTENTION_COMPILES_MIX_HEADS

#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/passes_in_float.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"
#include "crosstalk/kernels/attention/forward-inl.h"

CROSSTALK_BEGIN_TARGET

CROSSTALK_MIX_HEADS(Result::kSet);
CROSSTALK_MIX_HEADS(Result::kAdd);

void MixForward(const AttentionPlan& plan, const float* packed, const float* J, float* L) {
  MixTile<FloatTerms, Result::kSet>(plan, nullptr, plan.shape.h_k, plan.shape.h, {packed, 0}, 0, J, L);
}

void MixBackward(const AttentionPlan& plan, const float* packed_transposed, const float* J, const float* dL, float* dJ,
                 float* dP_l) {
  const int64_t h_k = plan.shape.h_k, h = plan.shape.h;
  MixTile<FloatTerms, Result::kSet>(plan, nullptr, h, h_k, {packed_transposed, 0}, 0, dL, dJ);
  HeadMixingGradientOfRows<FloatTerms>(h_k, h, plan.rows, J, dL, plan.pitch, dP_l);
}

CROSSTALK_END_TARGET

CROSSTALK_TARGETS(PassesInFloat, AttentionPasses{ForwardIn<FloatTerms>, BackwardIn<FloatTerms>})
CROSSTALK_TARGETS(PackOnTarget, PackStaticMixing<FloatTerms>)
CROSSTALK_TARGETS(MixForwardOnTarget, MixForward)
CROSSTALK_TARGETS(MixBackwardOnTarget, MixBackward)

#if HWY_ONCE
namespace crosstalk::kernels {

void PackHeadMixing(const AttentionPlan& plan, const float* P_l, float* packed) {
  PackOnTarget()(plan, plan.shape.h_k, plan.shape.h, P_l, plan.shape.h, 1, packed);
}

void PackHeadMixingTransposed(const AttentionPlan& plan, const float* P_l, float* packed) {
  PackOnTarget()(plan, plan.shape.h, plan.shape.h_k, P_l, 1, plan.shape.h, packed);
}

void MixTileHeads(const AttentionPlan& plan, const float* packed, const float* J, float* L) {
  MixForwardOnTarget()(plan, packed, J, L);
}

void MixTileHeadsBackward(const AttentionPlan& plan, const float* packed_transposed, const float* J, const float* dL,
                          float* dJ, float* dP_l) {
  MixBackwardOnTarget()(plan, packed_transposed, J, dL, dJ, dP_l);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
