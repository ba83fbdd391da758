// The fused attention, backward, by recomputation: from the inputs, O, dO and two numbers a query and head (its softmax
// stats), without an array of size n·m, but for L where forward kept it.
//
// What happens. A task is a block of queries, as in the forward pass. For each chunk of 32 memory positions it computes
// J (or takes L, where it is kept), W and U again, then dU = dO·Vᵀ, dW = dU·P_wᵀ, dL = W·(dW - D), dJ = dL·P_lᵀ, and
// adds to dQ (its own) and to dK, dV and the gradients of dynamic mixings (shared by all tasks of a batch row and
// group: they add in the order of the tasks). backward_tile-inl.h has a tile, backward-inl.h a block,
// backward_pairs-inl.h its stages in bfloat16, backward_tasks-inl.h the sums that tasks share, plan.cc the sizes.
//
// Bytes, in float. For each block and chunk: K is read in two layouts (for J and for dQ) and V in one; the sums of dK
// and dV are read and written. That is 4·32·(4·h_k·d_k + 3·h_v·d_v) bytes from the third-level cache or memory, for
// block·32·(3·h_k·d_k + 2·h_v·d_v) multiply-adds: about block / 6 a byte, so 5 with 32 queries. The tiles of a block
// share each visit to the sums (AddToMemory). A tile of one head kind is 4·heads·rows·32 bytes, at most 256 KiB; six of
// them (J, W, U and their gradients) are at work. With weights mixing D needs whole rows: J, W and dW of a block's rows
// are kept, 4·(2·h + h_k)·m bytes a query, at most 80 MiB a block; longer rows are computed twice.
//
// In bfloat16 (pairs-inl.h) K, V and the kept rows are half as large. The sums of dK and dV are float;
// the tiles between products are float where something but a product reads them, else pairs.
#include <algorithm>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/backward_buffers.h"
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/backward.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/backward_tasks-inl.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/ordered_reduction.h"
#include "crosstalk/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <class Terms>
void BackwardIn(const AttentionPlan& plan, const AttentionInputs& in, const ConstRows& O, const SoftmaxStats& stats,
                const ConstRows& dO, const AttentionGradients& out, void* workspace, int threads) {
  const AttentionShape& s = plan.shape;
  const WantedGradients wanted(s, out);
  Arena arena(workspace);
  PackedMemory packed(plan, AttentionPass::kBackward, arena);
  if (stats.L != nullptr) packed.K_by_position = nullptr;  // of the logits' products alone
  const BackwardSums sums(plan, wanted, arena);
  std::vector<BackwardScratch> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(plan, wanted, arena);

  PackStatic<Terms>(plan, in, packed);
  ParallelFor(s.b * plan.chunks,
              [&](int64_t task) { PackMemoryChunk<Terms>(plan, in, packed, task / plan.chunks, task % plan.chunks); });
  if (wanted.bias) {
    ParallelFor(s.h, [&](int64_t head) { std::fill_n(out.dbias + head * s.n * s.m, s.n * s.m, 0.0f); });
  }
  if (wanted.distances) std::fill_n(out.dbias_table, s.h * s.buckets, 0.0f);
  const int64_t memory_chunks = s.b * plan.memory_groups * plan.chunks, tasks = s.b * plan.groups * plan.blocks;
  OrderedReduction K_order(memory_chunks), V_order(memory_chunks),
      bias_order(wanted.bias ? plan.groups * plan.blocks : 0), bucket_order(wanted.distances ? plan.groups : 0);
  const BackwardCall call{plan, in, packed, sums, O, stats, dO, out, K_order, V_order, bias_order, bucket_order};
  const TaskOrder order(plan, wanted, threads);
  ParallelForWithScratch(tasks, threads, TileOrder::kInOrder, [&](int64_t i, int slot) {
    [[maybe_unused]] const typename Terms::Arithmetic arithmetic;
    BackwardTask<Terms>(call, scratch[static_cast<size_t>(slot)], order.Task(i));
  });
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

void Backward(const AttentionPlan& plan, BFloat16Unit unit, const AttentionInputs& in, const ConstRows& O,
              const SoftmaxStats& stats, const ConstRows& dO, const AttentionGradients& out, void* workspace,
              int threads) {
  WithTerms(plan.shape.precision, unit,
            [&](auto terms) { BackwardIn<decltype(terms)>(plan, in, O, stats, dO, out, workspace, threads); });
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
  Arena arena(nullptr);
  const PackedMemory packed(plan, AttentionPass::kBackward, arena);
  const BackwardSums sums(plan, wanted, arena);
  for (int i = 0; i < threads; ++i) BackwardScratch(plan, wanted, arena);
  return arena.used();
}

void AttentionBackward(const AttentionShape& shape, const AttentionInputs& inputs, const ConstRows& O,
                       const SoftmaxStats& stats, const ConstRows& dO, const AttentionGradients& gradients,
                       void* workspace, int threads) {
  CheckAttentionCall(shape, stats);
  const AttentionPlan plan(shape, AttentionPass::kBackward);
  HWY_DYNAMIC_DISPATCH(Backward)(plan, UnitOf(shape), inputs, O, stats, dO, gradients, workspace, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
