// Forward with convolutions, one strip of queries at a time (workspace.h): J and conv(J) head by head, L and W row
// by row, conv(W) head by head, U row by row, O head by head. Compiled once per target.
#if defined(CROSSTALK_ATTENTION_STRIP_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CROSSTALK_ATTENTION_STRIP_FORWARD_INL_H_
#undef CROSSTALK_ATTENTION_STRIP_FORWARD_INL_H_
#else
#define CROSSTALK_ATTENTION_STRIP_FORWARD_INL_H_
#endif

#include <utility>

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/strip-inl.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <class Terms>
HWY_NOINLINE void ForwardStrip(const ForwardPass& pass, const PackedMemory& packed, const StripScratch& scratch,
                               int64_t b, int64_t group, int64_t block) {
  const AttentionPlan& plan = pass.plan;
  const AttentionShape& s = plan.shape;
  const Strip strip = MakeStrip(plan, pass.call, packed, scratch, AttentionPass::kForward, b, group, block);
  ConvolvedLogits<Terms>(strip, false, scratch.J, scratch.W);
  WeightsOfStrip(strip, scratch.W, scratch.W, [&](int64_t query, int64_t k, const float* L) HWY_ATTR {
    const float row_max = LargestOf(strip.columns, L), sum = SumOfExponentials(strip.columns, L, row_max);
    const float inv_row_sum = sum == 0.0f ? 0.0f : 1.0f / sum;  // NaN stays NaN
    if (query >= strip.first) {
      pass.stats.row_max[strip.StatsOffset(k, query)] = row_max;
      pass.stats.inv_row_sum[strip.StatsOffset(k, query)] = inv_row_sum;
    }
    return std::pair(row_max, inv_row_sum);
  });
  ConvolvedWeights(strip, scratch.W, scratch.U);
  for (int64_t q = 0; q < strip.valid; ++q) ValuesOfRow(strip, q, scratch.U);
  const int64_t V_size = kChunk / Terms::kTerms * plan.d_v_padded;
  for (int64_t k = 0; k < plan.h_v; ++k) {
    const int64_t tile = MemoryTile(plan, b, group, 0) * plan.h_v + k;
    MultiplyRows<Terms>(strip, plan.d_v_padded, strip.At(scratch.U, k, 0),
                        packed.V_by_size.template Of<const LaneOf<Terms>>() + tile * V_size, plan.h_v * V_size);
    for (int64_t q = 0; q < strip.valid; ++q) {
      float* row = pass.O.data + (b * s.n + strip.first + q) * pass.O.stride + (group * plan.h_v + k) * s.d_v;
      std::copy_n(scratch.product + q * plan.d_v_padded, s.d_v, row);
    }
  }
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
