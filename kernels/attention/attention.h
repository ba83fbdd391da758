// The fused attention: everything between the input projections and the output projection, for the whole family, with
// nothing of size n·m kept but L where it is no larger than Q. call.h has the equations; pointers and sizes only;
// kernels/reference/attention.h is its specification.
//
// A query that may attend to nothing gives O = 0 and no gradient; so does one whose logits are all hidden (rows.h),
// as an additive mask of the smallest float makes them. The bits do not depend on the number of threads, nor, where
// multiply-adds are fused, on the width of the vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "crosstalk/kernels/attention/call.h"
#include "crosstalk/kernels/gemm/gemm.h"

#pragma GCC visibility push(default)
namespace crosstalk {
namespace kernels {

// An input's rows, one for each position: row i of batch row b begins b · batch + i · stride elements on. So a slice of
// a fused projection's product can be read in place, and a decoding buffer that has room for more positions.
struct ConstRows : Operand<float> {
  static constexpr int64_t kDense = -1;  // batch = positions · stride

  ConstRows() = default;
  template <typename Element>
  ConstRows(const Element* data, int64_t row_stride = 0, int64_t row_batch = kDense)
      : Operand(data, row_stride), batch(row_batch) {}

  // The rows from row i of batch row b on.
  ConstRows From(int64_t b, int64_t i, int64_t positions) const {
    return *this + (b * (batch == kDense ? positions * stride : batch) + i * stride);
  }
  const float* Row(int64_t b, int64_t i, int64_t positions) const { return From(b, i, positions).data(); }
  ConstRows operator+(int64_t elements) const {
    ConstRows moved = *this;
    static_cast<Operand&>(moved) = Operand::operator+(elements);
    return moved;
  }

  int64_t batch = kDense;
};
// A result's rows: row i begins at data + i · stride.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;
};

// The mixings are contiguous except the rows of R_M; each is read where the shape has it.
using AttentionCall = AttentionCallOf<ConstRows, const uint8_t*, const int32_t*>;

// Statistics that backward needs besides the inputs, each [b, h, n]: W = e^(L - row_max) · inv_row_sum, with L to the
// last bit as forward had it. row_max is a running maximum over m, at most 60 below the true one (ExponentialsOnline
// says why that is enough); inv_row_sum is 1 / Σ_m e^(L - row_max), 0 where nothing is attended to. In bfloat16 each
// e^(L - row_max) is rounded to it, in the sum as everywhere else.
struct SoftmaxStats {
  float* row_max = nullptr;
  float* inv_row_sum = nullptr;
  // L itself, KeptLogits(shape) elements, for backward to read instead of computing it again; null: it does.
  float* L = nullptr;
};

// Whether the kernel computes such a shape: convolutions are not beside dynamic projections.
bool IsSupported(const AttentionShape& shape);

// Throws a usage error unless the heads of K and of V divide those that read them.
void CheckMemoryHeads(const AttentionShape& shape);

// How many elements of L are worth keeping: [b, h, n, m], m rounded up to whole chunks, where nothing is mixed and keys
// are at least as long as that, so that L takes no more room than Q in float; a fifth of backward's products is saved.
// 0 elsewhere, and for the few queries of decoding.
int64_t KeptLogits(const AttentionShape& shape);

// Gradients of a call's operands, contiguous except the rows of Q, K and V; overwritten. Those three always; of the
// others those that are not null (where the shape has them).
using AttentionGradients = AttentionOperands<Rows>;

// Bytes of workspace for at most `threads` threads; the call uses no more. They grow as n + m (and as the buckets of a
// relative position bias), not as n·m.
size_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads);
size_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads);

// O[b·n, h_v·d_v] and the softmax stats. `workspace` is aligned to 64 bytes and holds what
// AttentionForwardWorkspaceBytes(call.shape, threads) says; its contents do not matter before or after. Throws a usage
// error for a shape that is none of the family.
void AttentionForward(const AttentionCall& call, const Rows& O, const SoftmaxStats& stats, void* workspace,
                      int threads);

// The gradients of everything, from dO[b·n, h_v·d_v], the forward call and its results. O is not read where the weights
// are mixed.
void AttentionBackward(const AttentionCall& call, const ConstRows& O, const SoftmaxStats& stats, const ConstRows& dO,
                       const AttentionGradients& gradients, void* workspace, int threads);

}  // namespace kernels
}  // namespace crosstalk
#pragma GCC visibility pop
