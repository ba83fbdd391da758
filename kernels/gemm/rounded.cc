// Products of operands that are rounded to bfloat16: the blocked product over pairs of terms, on the unit in use, or
// for very few rows one that reads B as it lies. A sum has one order for any number of rows, as in float.
#include <memory>
#include <vector>

#include "crosstalk/kernels/bfloat16.h"
#include "crosstalk/kernels/gemm/blocked.h"
#include "crosstalk/kernels/gemm/pack_buffer.h"
#include "crosstalk/kernels/gemm/tiles.h"
#include "crosstalk/runtime/storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/gemm/rounded.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/gemm/blocked-inl.h"
#include "crosstalk/kernels/gemm/dots_rounded-inl.h"
#include "crosstalk/kernels/gemm/pack_rounded-inl.h"
#include "crosstalk/kernels/gemm/thin_rounded-inl.h"
#include "crosstalk/kernels/gemm/tiled-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <BFloat16Unit kUnit>
void PairsProduct(const GemmArguments<float>& g) {
  if (IsThinRounded(g, kUnit)) {
    ThinRoundedProduct<kUnit>(g);
  } else if (IsDotsRounded(g, kUnit)) {
    DotsProduct<RoundedPairs<kUnit>>(g);
  } else {
    BlockedProduct<RoundedPairs<kUnit>>(g);
  }
}

void RoundedProduct(const GemmArguments<float>& g, BFloat16Unit unit) {
#if HWY_TARGET == HWY_AVX3
  if (unit == BFloat16Unit::kDotProduct) return PairsProduct<BFloat16Unit::kDotProduct>(g);
#endif
  if (unit != BFloat16Unit::kTiles) return PairsProduct<BFloat16Unit::kWidened>(g);
#if HWY_TARGET == HWY_AVX3
  if (HasTiles()) return BlockedProduct<TiledPairs<HardwareTiles>>(g);
#endif
  BlockedProduct<TiledPairs<ModelTiles>>(g);
}

std::vector<int64_t> RoundedBuffers(const GemmArguments<float>& g, BFloat16Unit unit, int64_t threads) {
  if (unit == BFloat16Unit::kTiles) return BufferSizes<TiledPairs<ModelTiles>>(g, threads);
  if (IsThinRounded(g, unit) || IsDotsRounded(g, unit)) return {};
  return BufferSizes<RoundedPairs<BFloat16Unit::kWidened>>(g, threads);  // VDPBF16PS's too
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(RoundedProduct);
HWY_EXPORT(RoundedBuffers);

void RoundedGemm(const GemmArguments<float>& g) {
  const BFloat16Unit unit = BFloat16UnitInUse();  // settles the SIMD target, too
  HWY_DYNAMIC_DISPATCH(RoundedProduct)(g, unit);
}

void AllocateAsRoundedGemm(const GemmArguments<float>& g, int64_t threads, int64_t products) {
  const BFloat16Unit unit = BFloat16UnitInUse();
  std::vector<std::shared_ptr<Storage>> buffers;
  const std::vector<int64_t> sizes = HWY_DYNAMIC_DISPATCH(RoundedBuffers)(g, unit, threads);
  for (int64_t i = 0; i < products; ++i) {
    for (const int64_t elements : sizes) buffers.push_back(PackBuffer<uint32_t>::FromPool(elements));
  }
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
