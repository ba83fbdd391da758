// The fused attention, backward, in bfloat16, widened to float.
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/backward_widened.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void BackwardWidenedOnTarget(const BackwardPass& pass) { BackwardIn<PairTerms<BFloat16Unit::kWidened>>(pass); }

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(BackwardWidenedOnTarget);
void BackwardWidened(const BackwardPass& pass) { HWY_DYNAMIC_DISPATCH(BackwardWidenedOnTarget)(pass); }

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
