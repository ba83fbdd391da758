// Products of pairs of bfloat16 that are widened to float: product-inl.h.
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/blocked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/pairs_widened.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/pairs-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void WidenedProduct(const GemmArguments<float>& g) { RegisterProduct<RoundedPairs<BFloat16Unit::kWidened>>(g); }

GemmWorkspace WidenedWorkspace(const GemmArguments<float>& g, int threads) {
  return RegisterWorkspace<RoundedPairs<BFloat16Unit::kWidened>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(WidenedProduct);
HWY_EXPORT(WidenedWorkspace);

void ProductOfWidened(const GemmArguments<float>& g) { HWY_DYNAMIC_DISPATCH(WidenedProduct)(g); }
GemmWorkspace WorkspaceOfWidened(const GemmArguments<float>& g, int threads) {
  return HWY_DYNAMIC_DISPATCH(WidenedWorkspace)(g, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
