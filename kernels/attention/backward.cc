// The fused attention, backward, by recomputation: from the inputs, O, dO and two numbers a query and head (its softmax
// stats), without an array of size n·m, except L where forward kept it.
//
// What happens. A task is a block of queries, as in the forward pass. For each chunk of 32 memory positions it computes
// J (or takes L, where it is kept), W and U again, then dU = dO·Vᵀ, dW = dU·P_wᵀ, dL = W·(dW - D), dJ = dL·P_lᵀ, and
// adds to dQ (its own) and to dK, dV and the gradients of dynamic mixings (shared by all tasks of a batch row and
// group: they add in the order of the tasks). backward_tile-inl.h has a tile, backward-inl.h a block,
// backward-inl.h its stages in bfloat16, backward_tasks-inl.h the sums that tasks share, plan.cc the sizes.
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
#include "crosstalk/kernels/attention/attention.h"
#include "crosstalk/kernels/attention/plan.h"
#include "crosstalk/kernels/attention/workspace.h"
#include "crosstalk/kernels/simd.h"

namespace crosstalk::kernels {
namespace {

auto* BackwardOfUnit(const AttentionShape& shape) {
  if (shape.precision == Precision::kFloat32) return &BackwardInFloat;
  return UnitOf(shape) == BFloat16Unit::kDotProduct ? &BackwardInDotProducts : &BackwardWidened;
}

}  // namespace

size_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads) {
  const AttentionPlan plan(shape, AttentionPass::kBackward);
  const WantedGradients wanted(shape);
  Arena arena(nullptr);
  const PackedMemory packed(plan, AttentionPass::kBackward, arena);
  const BackwardSums sums(plan, wanted, arena);
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
  SettleSimdTarget();
  BackwardOfUnit(call.shape)({plan, call, O, stats, dO, gradients, workspace, threads});
}

}  // namespace crosstalk::kernels
