// The fused attention, forward: O = dropout(softmax(Q·Kᵀ·P_l + bias)·P_w)·V and its family, without an array of size
// n·m, except L where that is no larger than Q (KeptLogits).
//
// K, V and the mixings are packed once. A task is one block of queries of one batch row and head group (one head, or
// all heads where they are mixed). It walks the memory in chunks of 32 positions; for each chunk a tile
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
// Backward, by recomputation: from the inputs, O, dO and two numbers a query and head (its softmax stats). For each
// chunk a task computes J (or takes L, where it is kept), W and U again, then dU = dO·Vᵀ, dW = dU·P_wᵀ, dL = W·(dW -
// D), dJ = dL·P_lᵀ, and adds to dQ (its own) and to dK, dV and the gradients of dynamic mixings (shared by all tasks of
// a batch row and group: they add in the order of the tasks). backward_tile-inl.h has a tile, backward-inl.h its stages
// and a block, backward_tasks-inl.h the sums that tasks share.
//
// Bytes, in float. For each block and chunk: K is read in two layouts (for J and for dQ) and V in one; the sums of dK
// and dV are read and written. That is 4·32·(4·h_k·d_k + 3·h_v·d_v) bytes from the third-level cache or memory, for
// block·32·(3·h_k·d_k + 2·h_v·d_v) multiply-adds: about block / 6 a byte, so 5 with 32 queries. The tiles of a block
// share each visit to the sums (AddToMemory). A tile of one head kind is 4·heads·rows·32 bytes, at most 256 KiB; six of
// them (J, W, U and their gradients) are at work. With weights mixing D needs whole rows: J, W and dW of a block's rows
// are kept, 4·(2·h + h_k)·m bytes a query, at most 80 MiB a block; longer rows are computed twice.
//
// In bfloat16 (pairs-inl.h) K, V and the kept rows are half as large, the sums of dK and dV float. Tiles are float
// where something but a product reads them; they are rounded and paired on their way to a product, where U leaves its
// mixing in pairs.
#include "crosstalk/kernels/attention/attention.h"

#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/workspace.h"

namespace crosstalk::kernels {
namespace {

AttentionPasses PassesOf(const AttentionShape& shape) {
  if (shape.precision == Precision::kFloat32) return PassesInFloat();
  return BFloat16PairUnitInUse() == BFloat16Unit::kDotProduct ? PassesInDotProducts() : PassesInWidenedPairs();
}

}  // namespace

size_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  const AttentionPlan plan(shape, AttentionPass::kForward);
  Arena arena(nullptr);
  const Places places(shape.b, OwnRows(shape.b, threads), threads);
  const PackedMemory packed(plan, AttentionPass::kForward, places.count(), arena);
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
  PassesOf(call.shape).forward({plan, call, O, stats, workspace, threads});
}

size_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  const AttentionPlan plan(shape, AttentionPass::kBackward);
  const WantedGradients wanted(shape);
  Arena arena(nullptr);
  const Places places(shape.b, TaskOrder(plan, wanted, threads).own_rows(), threads);
  const PackedMemory packed(plan, AttentionPass::kBackward, places.count(), arena);
  const BackwardSums sums(plan, wanted, places.count(), arena);
  for (int i = 0; i < threads; ++i) {
    if (shape.Convolves()) {
      StripScratch(plan, AttentionPass::kBackward, arena);
    } else {
      BackwardScratch(plan, wanted, arena);
    }
  }
  return arena.used();
}

void AttentionBackward(const AttentionCall& call, const ConstRows& O, const SoftmaxStats& stats, const ConstRows& dO,
                       const AttentionGradients& gradients, void* workspace, int threads) {
  const AttentionPlan plan(call.shape, AttentionPass::kBackward);
  CheckSoftmaxStats(call.shape, stats);
  PassesOf(call.shape).backward({plan, call, O, stats, dO, gradients, workspace, threads});
}

}  // namespace crosstalk::kernels
