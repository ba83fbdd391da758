// The fused attention, forward, in float.
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/forward_float.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void ForwardInFloatOnTarget(const ForwardPass& pass) { ForwardIn<FloatTerms>(pass); }

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(ForwardInFloatOnTarget);
void ForwardInFloat(const ForwardPass& pass) { HWY_DYNAMIC_DISPATCH(ForwardInFloatOnTarget)(pass); }

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
