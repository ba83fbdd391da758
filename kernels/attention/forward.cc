#include <algorithm>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/forward.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/forward-inl.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void Forward(const AttentionPlan& plan, const AttentionInputs& in, const Rows& O, const AttentionStatistics& statistics,
             void* workspace, int threads) {
  Carver carver(workspace);
  const PackedMemory packed(plan, AttentionPass::kForward, carver);
  std::vector<ForwardScratch> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(plan, carver);
  PackStatic(plan, in, packed);
  ParallelFor(plan.shape.b * plan.chunks,
              [&](int64_t task) { PackMemoryChunk(plan, in, packed, task / plan.chunks, task % plan.chunks); });
  ForTasks(plan.shape.b * plan.groups * plan.blocks, threads, [&](int64_t task, int slot) {
    const int64_t b = task / plan.blocks / plan.groups;
    const int64_t group = task / plan.blocks % plan.groups;
    ForwardBlock(plan, in, packed, scratch[static_cast<size_t>(slot)], O, statistics, b, group, task % plan.blocks);
  });
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(Forward);

size_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  CheckAttentionShape(shape);
  const AttentionPlan plan(shape, AttentionPass::kForward);
  Carver carver(nullptr);
  const PackedMemory packed(plan, AttentionPass::kForward, carver);
  for (int i = 0; i < threads; ++i) ForwardScratch(plan, carver);
  return carver.used();
}

void AttentionForward(const AttentionShape& shape, const AttentionInputs& inputs, const Rows& O,
                      const AttentionStatistics& statistics, void* workspace, int threads) {
  CheckAttentionShape(shape);
  const AttentionPlan plan(shape, AttentionPass::kForward);
  HWY_DYNAMIC_DISPATCH(Forward)(plan, inputs, O, statistics, workspace, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
