// The fused attention, forward, in dot products of bfloat16.
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/forward_dot_product.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/forward-inl.h"
#include "crosstalk/runtime/check.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
void ForwardInDotProductsOnTarget(const ForwardPass& pass) { ForwardIn<PairTerms<BFloat16Unit::kDotProduct>>(pass); }
#else  // without the instruction: BFloat16UnitInUse() does not choose it
void ForwardInDotProductsOnTarget(const ForwardPass& /*pass*/) { CROSSTALK_DCHECK(false); }
#endif

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(ForwardInDotProductsOnTarget);
void ForwardInDotProducts(const ForwardPass& pass) { HWY_DYNAMIC_DISPATCH(ForwardInDotProductsOnTarget)(pass); }

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
