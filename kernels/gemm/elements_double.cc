// Products in double: product-inl.h.
#include "crosstalk/kernels/gemm/blocked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/elements_double.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/elements-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"
#include "crosstalk/kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void DoubleProduct(const GemmArguments<double>& g) { RegisterProduct<Elements<double>>(g); }
GemmWorkspace DoubleWorkspace(const GemmArguments<double>& g, int threads) {
  return RegisterWorkspace<Elements<double>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(DoubleProduct);
HWY_EXPORT(DoubleWorkspace);

void ProductOfElements(const GemmArguments<double>& g) { HWY_DYNAMIC_DISPATCH(DoubleProduct)(g); }
GemmWorkspace WorkspaceOfElements(const GemmArguments<double>& g, int threads) {
  return HWY_DYNAMIC_DISPATCH(DoubleWorkspace)(g, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
