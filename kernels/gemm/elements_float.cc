// Products in float: product-inl.h.
#include "crosstalk/kernels/gemm/blocked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/elements_float.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/elements-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"
#include "crosstalk/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void FloatProduct(const GemmArguments<float>& g) { RegisterProduct<Elements<float>>(g); }
GemmWorkspace FloatWorkspace(const GemmArguments<float>& g, int threads) {
  return RegisterWorkspace<Elements<float>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(FloatProduct);
HWY_EXPORT(FloatWorkspace);

void ProductOfElements(const GemmArguments<float>& g) { HWY_DYNAMIC_DISPATCH(FloatProduct)(g); }
GemmWorkspace WorkspaceOfElements(const GemmArguments<float>& g, int threads) {
  return HWY_DYNAMIC_DISPATCH(FloatWorkspace)(g, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
