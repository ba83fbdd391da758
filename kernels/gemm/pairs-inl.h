// Products of pairs that are rounded to bfloat16, blocked or for very few rows. Compiled once per target.
#if defined(CROSSTALK_GEMM_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_PAIRS_INL_H_
#undef CROSSTALK_GEMM_PAIRS_INL_H_
#else
#define CROSSTALK_GEMM_PAIRS_INL_H_
#endif

#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/dots_rounded-inl.h"
#include "crosstalk/kernels/gemm/pack_rounded-inl.h"
#include "crosstalk/kernels/gemm/thin_rounded-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <BFloat16Unit kUnit>
void PairsProduct(const GemmArguments<float>& g) {
  if constexpr (kHasThin) {
    if (IsThinRounded(g, kUnit)) return ThinRoundedProduct<kUnit>(g);
    if (IsDotsRounded(g, kUnit)) return DotsProduct<RoundedPairs<kUnit>>(g);
  }
  BlockedProduct<RoundedPairs<kUnit>>(g);
}

template <BFloat16Unit kUnit>
GemmWorkspace PairsWorkspace(const GemmArguments<float>& g, int threads) {
  return IsThinRounded(g, kUnit) || IsDotsRounded(g, kUnit) ? GemmWorkspace()
                                                            : WorkspaceOf<RoundedPairs<kUnit>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
