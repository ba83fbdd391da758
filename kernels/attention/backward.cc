#include <algorithm>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/backward_buffers.h"
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/backward.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

void Backward(const AttentionPlan& plan, const AttentionInputs& in, const ConstRows& O,
              const AttentionStatistics& statistics, const ConstRows& dO, const AttentionGradients& out,
              void* workspace, int threads) {
  const AttentionShape& s = plan.shape;
  const WantedGradients wanted(s, out);
  Carver carver(workspace);
  const PackedMemory packed(plan, AttentionPass::kBackward, carver);
  const BackwardSums sums(plan, wanted, carver);
  std::vector<BackwardScratch> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(plan, wanted, carver);

  PackStatic(plan, in, packed);
  ParallelFor(s.b * plan.chunks,
              [&](int64_t task) { PackMemoryChunk(plan, in, packed, task / plan.chunks, task % plan.chunks); });
  if (wanted.bias) {
    ParallelFor(s.h, [&](int64_t head) { std::fill_n(out.dbias + head * s.n * s.m, s.n * s.m, 0.0f); });
  }
  if (wanted.distances) std::fill_n(out.dbias_table, s.h * s.buckets, 0.0f);
  const int64_t memory_chunks = s.b * plan.memory_groups * plan.chunks, tasks = s.b * plan.groups * plan.blocks;
  Turns K_turns(memory_chunks), V_turns(memory_chunks), bias_turns(wanted.bias ? plan.groups * plan.blocks : 0),
      bucket_turns(wanted.distances ? plan.groups : 0);
  const BackwardCall call{plan, in, packed, sums, O, statistics, dO, out, K_turns, V_turns, bias_turns, bucket_turns};
  ForTasks(tasks, threads,
           [&](int64_t task, int slot) { BackwardTask(call, scratch[static_cast<size_t>(slot)], task); });
  ParallelFor(s.b * plan.chunks,
              [&](int64_t task) { FinishMemoryChunk(plan, in, sums, out, task / plan.chunks, task % plan.chunks); });

  const auto sum_tasks = [&](const float* parts, int64_t size, float* total) {
    std::fill_n(total, size, 0.0f);
    for (int64_t task = 0; task < tasks; ++task) {
      for (int64_t i = 0; i < size; ++i) total[i] += parts[task * size + i];
    }
  };
  if (wanted.P_l) sum_tasks(sums.P_l, s.h_k * s.h, out.dP_l);
  if (wanted.P_w) sum_tasks(sums.P_w, s.h * s.h_v, out.dP_w);
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(Backward);

size_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  CheckAttentionShape(shape);
  const AttentionPlan plan(shape, AttentionPass::kBackward);
  const WantedGradients wanted(shape);
  Carver carver(nullptr);
  const PackedMemory packed(plan, AttentionPass::kBackward, carver);
  const BackwardSums sums(plan, wanted, carver);
  for (int i = 0; i < threads; ++i) BackwardScratch(plan, wanted, carver);
  return carver.used();
}

void AttentionBackward(const AttentionShape& shape, const AttentionInputs& inputs, const ConstRows& O,
                       const AttentionStatistics& statistics, const ConstRows& dO, const AttentionGradients& gradients,
                       void* workspace, int threads) {
  CheckAttentionShape(shape);
  const AttentionPlan plan(shape, AttentionPass::kBackward);
  HWY_DYNAMIC_DISPATCH(Backward)(plan, inputs, O, statistics, dO, gradients, workspace, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
