#include "crosstalk/kernels/attention/plan.h"

#define CROSSTALK_ATTENTION_COMPILES_MIX_HEADS

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/head_mixing.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

CROSSTALK_MIX_HEADS(Result::kSet);
CROSSTALK_MIX_HEADS(Result::kAdd);

void MixForward(const AttentionPlan& plan, const float* packed, const float* J, float* L) {
  MixTile<FloatTerms, Result::kSet>(plan, nullptr, plan.shape.h_k, plan.shape.h, {Lanes(packed), 0}, 0, J, L);
}

void MixBackward(const AttentionPlan& plan, const float* packed_transposed, const float* J, const float* dL, float* dJ,
                 float* dP_l) {
  const int64_t h_k = plan.shape.h_k, h = plan.shape.h;
  MixTile<FloatTerms, Result::kSet>(plan, nullptr, h, h_k, {Lanes(packed_transposed), 0}, 0, dL, dJ);
  HeadMixingGradient<FloatTerms>(h_k, h, plan.rows * kChunkSteps, MixingGradientPiece(h_k, h, plan.rows), J, dL,
                                 plan.pitch, kPartialSums, dP_l, h * kPartialSums, kPartialSums);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(PackStaticMixing);
HWY_EXPORT(MixForward);
HWY_EXPORT(MixBackward);

void PackHeadMixing(const AttentionPlan& plan, const float* P_l, float* packed) {
  const int64_t h_k = plan.shape.h_k, h = plan.shape.h;
  HWY_DYNAMIC_DISPATCH(PackStaticMixing)(h_k, h, P_l, h, 1, packed);
}

void PackHeadMixingTransposed(const AttentionPlan& plan, const float* P_l, float* packed) {
  const int64_t h_k = plan.shape.h_k, h = plan.shape.h;
  HWY_DYNAMIC_DISPATCH(PackStaticMixing)(h, h_k, P_l, 1, h, packed);
}

void MixTileHeads(const AttentionPlan& plan, const float* packed, const float* J, float* L) {
  HWY_DYNAMIC_DISPATCH(MixForward)(plan, packed, J, L);
}

void MixTileHeadsBackward(const AttentionPlan& plan, const float* packed_transposed, const float* J, const float* dL,
                          float* dJ, float* dP_l) {
  HWY_DYNAMIC_DISPATCH(MixBackward)(plan, packed_transposed, J, dL, dJ, dP_l);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
