// Products of operands that are rounded to bfloat16: widened to float, by the instruction for their dot products, and
// in matrix tiles, the processor's or their model.
#include "crosstalk/kernels/gemm/blocked.h"

#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/pairs.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/amx_microkernel-inl.h"
#include "crosstalk/kernels/gemm/pairs-inl.h"
#include "crosstalk/kernels/gemm/product-inl.h"

CROSSTALK_BEGIN_TARGET

using TilesModel = AmxPairs<ModelTiles, BFloat16Unit::kWidened>;

void TilesProduct(const GemmArguments<float>& g) {
  if constexpr (kHasThin) {
    if (IsThin<ThinTiles>(g)) return ThinProduct<ThinTiles>(g);
    if (IsDots<ThinTiles>(g)) return DotsProduct<ThinTiles>(g);
  }
  if constexpr (kHasDotProduct) {
    if (HasTiles()) return BlockedProduct<AmxPairs<AmxTiles, kDotProductHere>>(g);
  }
  BlockedProduct<TilesModel>(g);
}

GemmWorkspace TilesWorkspace(const GemmArguments<float>& g, int threads) {
  if (IsThin<ThinTiles>(g) || IsDots<ThinTiles>(g)) return GemmWorkspace();
  return WorkspaceOf<TilesModel>(g, threads);
}

CROSSTALK_END_TARGET

CROSSTALK_TARGETS(ProductOfWidened, kProductOf<RoundedPairs<BFloat16Unit::kWidened>>)
CROSSTALK_TARGETS(ProductOfDotProducts, kProductOf<RoundedPairs<kDotProductHere>>)
CROSSTALK_TARGETS(ProductOfTiles, GemmProduct<float>{TilesProduct, TilesWorkspace})
