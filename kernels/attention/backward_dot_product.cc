// The fused attention, backward, in dot products of bfloat16.
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/backward_dot_product.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"
#include "crosstalk/runtime/check.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
void BackwardInDotProductsOnTarget(const BackwardPass& pass) { BackwardIn<PairTerms<BFloat16Unit::kDotProduct>>(pass); }
#else  // without the instruction: BFloat16UnitInUse() does not choose it
void BackwardInDotProductsOnTarget(const BackwardPass& /*pass*/) { CROSSTALK_DCHECK(false); }
#endif

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(BackwardInDotProductsOnTarget);
void BackwardInDotProducts(const BackwardPass& pass) { HWY_DYNAMIC_DISPATCH(BackwardInDotProductsOnTarget)(pass); }

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
