// A product whose sums are in registers, by its shape: blocked, or of very few rows. Compiled once per target.
#if defined(CROSSTALK_GEMM_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_PRODUCT_INL_H_
#undef CROSSTALK_GEMM_PRODUCT_INL_H_
#else
#define CROSSTALK_GEMM_PRODUCT_INL_H_
#endif

#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/chained-inl.h"
#include "crosstalk/kernels/gemm/dots-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <ThinOperands Operands>
void RegisterProduct(const Product<Operands>& g) {
  if constexpr (kHasThin) {
    if (IsThin<Operands>(g)) return ThinProduct<Operands>(g);
    if (IsDots<Operands>(g)) return DotsProduct<Operands>(g);
  }
  if (IsChained<Operands>(g, ThreadsOfLoop())) return ChainedProduct<Operands>(g);
  BlockedProduct<Operands>(g);
}

template <ThinOperands Operands>
GemmWorkspace RegisterWorkspace(const Product<Operands>& g, int threads) {
  if (IsThin<Operands>(g) || IsDots<Operands>(g)) return GemmWorkspace();
  return IsChained<Operands>(g, threads) ? ChainedWorkspace<Operands>(g, threads) : WorkspaceOf<Operands>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
