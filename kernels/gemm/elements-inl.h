// Products of operands as they are, blocked or for very few rows. Compiled once per target.
#if defined(CROSSTALK_GEMM_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_ELEMENTS_INL_H_
#undef CROSSTALK_GEMM_ELEMENTS_INL_H_
#else
#define CROSSTALK_GEMM_ELEMENTS_INL_H_
#endif

#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/dots-inl.h"
#include "crosstalk/kernels/gemm/pack-inl.h"
#include "crosstalk/kernels/gemm/thin-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <typename T>
void ElementsProduct(const GemmArguments<T>& g) {
  if constexpr (kHasThin) {
    if (IsThin(g)) return ThinProduct(g);
    if (IsDots(g)) return DotsProduct<Elements<T>>(g);
  }
  BlockedProduct<Elements<T>>(g);
}

template <typename T>
GemmWorkspace ElementsWorkspace(const GemmArguments<T>& g, int threads) {
  return IsThin(g) || IsDots(g) ? GemmWorkspace() : WorkspaceOf<Elements<T>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
