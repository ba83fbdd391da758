// Products of pairs of bfloat16 in matrix tiles, the processor's or their model: amx_microkernel-inl.h.
#include "crosstalk/kernels/gemm/blocked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/pairs_amx.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/amx_microkernel-inl.h"
#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/dots-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void TilesProduct(const GemmArguments<float>& g) {
  if constexpr (kHasThin) {
    if (IsThin<ThinTiles>(g)) return ThinProduct<ThinTiles>(g);
    if (IsDots<ThinTiles>(g)) return DotsProduct<ThinTiles>(g);
  }
#if HWY_TARGET == HWY_AVX3
  if (HasTiles()) return BlockedProduct<AmxPairs<AmxTiles, BFloat16Unit::kDotProduct>>(g);
#endif
  BlockedProduct<AmxPairs<ModelTiles, BFloat16Unit::kWidened>>(g);
}

GemmWorkspace TilesWorkspace(const GemmArguments<float>& g, int threads) {
  if (IsThin<ThinTiles>(g) || IsDots<ThinTiles>(g)) return GemmWorkspace();
  return WorkspaceOf<AmxPairs<ModelTiles, BFloat16Unit::kWidened>>(g, threads);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(TilesProduct);
HWY_EXPORT(TilesWorkspace);

void ProductOfTiles(const GemmArguments<float>& g) { HWY_DYNAMIC_DISPATCH(TilesProduct)(g); }
GemmWorkspace WorkspaceOfTiles(const GemmArguments<float>& g, int threads) {
  return HWY_DYNAMIC_DISPATCH(TilesWorkspace)(g, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
