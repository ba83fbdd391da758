// The fused attention, forward: O = dropout(softmax(Q·Kᵀ·P_l + bias)·P_w)·V and its family, without an array of size
// n·m, except L where that is no larger than Q (KeptLogits).
//
// What happens. K, V and the mixings are packed once. A task is one block of queries of one batch row and head group
// (one head, or all heads where they are mixed). It walks the memory in chunks of 32 positions; for each chunk a tile
// T[heads][rows][32] goes through J = Q·Kᵀ, L = J·P_l + bias, e^(L - max), U = W·P_w and O += U·V. With weights mixing
// the normalisers of all heads are needed before U: a first pass computes W of the block's whole rows, a second one U
// and O. forward-inl.h has the passes, plan.cc the sizes.
//
// Bytes, in float. A block of `block` queries reads K and V of a chunk once, 4·32·(h_k·d_k + h_v·d_v) bytes from the
// third-level cache or memory, for block·32·(h_k·d_k + h_v·d_v) multiply-adds of Q·Kᵀ and U·V: block / 4 a byte. 32
// queries, 8 a byte, overlap the third level's bandwidth with the multiply-adds; what tiles touch beside is in nearer
// caches. A tile is 4·heads·rows·32 bytes, at most 256 KiB, so that those of J, L and U and a chunk of K and V share a
// second-level cache of 1 MiB: 48 KiB for 12 heads and 32 rows. W of a block's rows, which waits for the second pass,
// is 4·h·m bytes a query, at most 12 MiB; rows longer than that are computed twice, by blocks of 128 queries.
//
// In bfloat16 (pairs-inl.h) K, V and the kept W are half as large; J, L and W at work stay in float and are
// rounded and paired on their way to a product, and U leaves its mixing in pairs.
#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/kernels/simd.h"

namespace crosstalk::kernels {

namespace {

auto* ForwardOfUnit(const AttentionShape& shape) {
  if (shape.precision == Precision::kFloat32) return &ForwardInFloat;
  return UnitOf(shape) == BFloat16Unit::kDotProduct ? &ForwardInDotProducts : &ForwardWidened;
}

}  // namespace

size_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  const AttentionPlan plan(shape, AttentionPass::kForward);
  Arena arena(nullptr);
  const PackedMemory packed(plan, AttentionPass::kForward, arena);
  for (int i = 0; i < threads; ++i) {
    if (shape.Convolves()) {
      StripScratch(plan, AttentionPass::kForward, arena);
    } else {
      ForwardScratch(plan, arena);
    }
  }
  return arena.used();
}

void AttentionForward(const AttentionCall& call, const Rows& O, const SoftmaxStats& stats, void* workspace,
                      int threads) {
  const AttentionPlan plan(call.shape, AttentionPass::kForward);
  CheckSoftmaxStats(call.shape, stats);
  SettleSimdTarget();
  ForwardOfUnit(call.shape)({plan, call, O, stats, workspace, threads});
}

}  // namespace crosstalk::kernels
