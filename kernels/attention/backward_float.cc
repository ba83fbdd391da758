// The fused attention, backward, in float.
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/backward_float.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void BackwardInFloatOnTarget(const BackwardPass& pass) { BackwardIn<FloatTerms>(pass); }

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(BackwardInFloatOnTarget);
void BackwardInFloat(const BackwardPass& pass) { HWY_DYNAMIC_DISPATCH(BackwardInFloatOnTarget)(pass); }

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
