// The fused attention, forward: O = dropout(softmax(Q·Kᵀ·P_l + bias)·P_w)·V and its family, without an array of size
// n·m, but for L where that is no larger than Q (KeptLogits).
//
// What happens. K, V and the mixings are packed once. A task is one block of queries of one batch row and head group
// (one head, or all heads where they are mixed). It walks the memory in chunks of 32 positions; for each chunk a tile
// T[heads][rows][32] goes through J = Q·Kᵀ, L = J·P_l + bias, e^(L - max), U = W·P_w and O += U·V. With weights mixing
// the normalisers of all heads are needed before U: a first pass computes W of the block's whole rows, a second one U
// and O. forward-inl.h has the passes, plan.cc the sizes.
//
// Bytes, in float. A block of `block` queries reads K and V of a chunk once, 4·32·(h_k·d_k + h_v·d_v) bytes from the
// third-level cache or memory, for block·32·(h_k·d_k + h_v·d_v) multiply-adds of Q·Kᵀ and U·V: block / 4 a byte. 32
// queries, 8 a byte, hide the third level's bandwidth behind the multiply-adds; what tiles touch beside is in nearer
// caches. A tile is 4·heads·rows·32 bytes, at most 256 KiB, so that those of J, L and U and a chunk of K and V share a
// second-level cache of 1 MiB: 48 KiB for 12 heads and 32 rows. W of a block's rows, which waits for the second pass,
// is 4·h·m bytes a query, at most 12 MiB; rows longer than that are computed twice, by blocks of 128 queries.
//
// In bfloat16 (pairs-inl.h) K, V and the kept W are half as large; J, L and W at work stay in float and are
// rounded and paired on their way to a product, and U leaves its mixing in pairs.
#include <algorithm>
#include <vector>

#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "crosstalk/kernels/attention/forward.cc"
#include "hwy/foreach_target.h"
// after foreach_target.h, as Highway wants it
#include "crosstalk/kernels/attention/forward-inl.h"
#include "crosstalk/kernels/simd.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace crosstalk::kernels::HWY_NAMESPACE {

template <class Terms>
void ForwardIn(const AttentionPlan& plan, const AttentionInputs& in, const Rows& O, const SoftmaxStats& stats,
               void* workspace, int threads) {
  Arena arena(workspace);
  const PackedMemory packed(plan, AttentionPass::kForward, arena);
  std::vector<ForwardScratch> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(plan, arena);
  PackStatic<Terms>(plan, in, packed);
  ParallelFor(plan.shape.b * plan.chunks,
              [&](int64_t task) { PackMemoryChunk<Terms>(plan, in, packed, task / plan.chunks, task % plan.chunks); });
  const int64_t tasks = plan.shape.b * plan.groups * plan.blocks;
  ParallelForWithScratch(tasks, threads, TileOrder::kLocal, [&](int64_t task, int slot) {
    [[maybe_unused]] const typename Terms::Arithmetic arithmetic;
    const int64_t b = task / plan.blocks / plan.groups;
    const int64_t group = task / plan.blocks % plan.groups;
    ForwardBlock<Terms>(plan, in, packed, scratch[static_cast<size_t>(slot)], O, stats, b, group, task % plan.blocks);
  });
}

void Forward(const AttentionPlan& plan, BFloat16Unit unit, const AttentionInputs& in, const Rows& O,
             const SoftmaxStats& stats, void* workspace, int threads) {
  WithTerms(plan.shape.precision, unit,
            [&](auto terms) { ForwardIn<decltype(terms)>(plan, in, O, stats, workspace, threads); });
}

}  // namespace crosstalk::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crosstalk::kernels {

HWY_EXPORT(Forward);

size_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  CheckAttentionShape(shape);
  const AttentionPlan plan(shape, AttentionPass::kForward);
  Arena arena(nullptr);
  const PackedMemory packed(plan, AttentionPass::kForward, arena);
  for (int i = 0; i < threads; ++i) ForwardScratch(plan, arena);
  return arena.used();
}

void AttentionForward(const AttentionShape& shape, const AttentionInputs& inputs, const Rows& O,
                      const SoftmaxStats& stats, void* workspace, int threads) {
  CheckAttentionCall(shape, stats);
  const AttentionPlan plan(shape, AttentionPass::kForward);
  SettleSimdTarget();
  HWY_DYNAMIC_DISPATCH(Forward)(plan, UnitOf(shape), inputs, O, stats, workspace, threads);
}

}  // namespace crosstalk::kernels
#endif  // HWY_ONCE
