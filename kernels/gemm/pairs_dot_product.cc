// Products of pairs of bfloat16 by the instruction for their dot products: product-inl.h.
#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/blocked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/pairs_dot_product.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/pairs-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"
#include "crosstalk/runtime/check.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
void DotProductsProduct(const GemmArguments<float>& g) { RegisterProduct<RoundedPairs<BFloat16Unit::kDotProduct>>(g); }
GemmWorkspace DotProductsWorkspace(const GemmArguments<float>& g, int threads) {
  return RegisterWorkspace<RoundedPairs<BFloat16Unit::kDotProduct>>(g, threads);
}
#else  // without the instruction: BFloat16UnitInUse() does not choose it
void DotProductsProduct(const GemmArguments<float>& /*g*/) { CROSSTALK_DCHECK(false); }
GemmWorkspace DotProductsWorkspace(const GemmArguments<float>& /*g*/, int /*threads*/) {
  CROSSTALK_DCHECK(false);
  return {};
}
#endif

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(DotProductsProduct);
HWY_EXPORT(DotProductsWorkspace);

void ProductOfDotProducts(const GemmArguments<float>& g) { HWY_DYNAMIC_DISPATCH(DotProductsProduct)(g); }
GemmWorkspace WorkspaceOfDotProducts(const GemmArguments<float>& g, int threads) {
  return HWY_DYNAMIC_DISPATCH(DotProductsWorkspace)(g, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
