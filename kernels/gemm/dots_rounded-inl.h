// Dot products (dots-inl.h) with rows of B that lie in memory as bfloat16: two neighbours are a pair. The bits are
// those of the blocked product of pairs. Compiled once per target.
#if defined(CROSSTALK_GEMM_DOTS_ROUNDED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_GEMM_DOTS_ROUNDED_INL_H_
#undef CROSSTALK_GEMM_DOTS_ROUNDED_INL_H_
#else
#define CROSSTALK_GEMM_DOTS_ROUNDED_INL_H_
#endif

#include <cstdint>

#include "crosstalk/kernels/gemm/dots-inl.h"
#include "crosstalk/kernels/gemm/pack_rounded-inl.h"
#include "crosstalk/kernels/gemm/thin_rounded-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

// Tiles form sums in another order.
inline bool IsDotsRounded(const GemmArguments<float>& g, BFloat16Unit unit) {
  return IsDots(g) && g.transpose_a == Transpose::kNo && g.b.is_bfloat16() && unit != BFloat16Unit::kTiles;
}

template <BFloat16Unit kUnit>
struct DotOperands<RoundedPairs<kUnit>> {
  using Source = uint16_t;
  static const uint16_t* B(const GemmArguments<float>& g) { return g.b.bfloat16(); }
  void Set(const GemmArguments<float>& g, int64_t k, int64_t depth) {
    PairThinRows<kUnit>(g, k, depth, pairs);
    for (int64_t r = 0; r < g.m; ++r) rows[r] = {pairs + r * kPairsOfBlock, 1};
  }
  ThinRow<uint32_t> rows[kDotRows];
  uint32_t pairs[kDotRows * kPairsOfBlock];
};

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
