// The fused attention: everything between the input projections and the output projection, for the whole family, with
// nothing of size n·m kept but L where it is no larger than Q. Pointers and sizes only; kernels/reference/attention.h
// is its specification.
//
//   J[b, n, m, h_k] = scale · Q·K              L[b, n, m, h]   = J·P_l + J·R_Xl + J·R_Ml + bias, masked
//   W[b, n, m, h]   = softmax of L over m      U[b, n, m, h_v] = dropout(W·P_w + W·R_Xw + W·R_Mw)
//   O[b, n, h_v, d_v] = U·V
//
// Multi-head: no mixing. General bilinear: Q = X·P with d_k = d_M, K = V = M with MemoryHeads::kMultiQuery.
//
// A query that may attend to nothing gives O = 0 and no gradient; so does one whose logits are all below -1e38, as an
// additive mask of the smallest float makes them. The bits do not depend on the number of threads, nor, where
// multiply-adds are fused, on the width of the vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "crosstalk/runtime/precision.h"
#include "crosstalk/runtime/random.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {
namespace kernels {

// kMultiQuery: K[b, m, d_k] and V[b, m, d_v] have one head, which all heads use (Shazeer 2019).
enum class MemoryHeads { kPerHead, kMultiQuery };
// kCausal: query i sees the memory positions j ≤ i + m - n (with n = m: 0 … i). Needs n ≤ m.
enum class AttentionCausality { kNone, kCausal };
// kDense: bias[h, n, m]. kRelativePosition, T5's: bias_table[h, buckets], read at distance_bucket[j - i + n - 1].
enum class AttentionBias { kNone, kDense, kRelativePosition };

// What decides the work and the memory that it needs.
struct AttentionShape {
  int64_t b = 0, n = 0, m = 0;      // batch, queries, memory positions
  int64_t h_k = 0, h = 0, h_v = 0;  // heads of keys, softmax, values
  int64_t d_k = 0, d_v = 0;         // size of a key, of a value
  // Head mixings. Without one between two head dimensions those must be equal.
  bool P_l = false, R_Xl = false, R_Ml = false;
  bool P_w = false, R_Xw = false, R_Mw = false;
  MemoryHeads memory_heads = MemoryHeads::kPerHead;  // kMultiQuery: no mixing
  AttentionCausality causality = AttentionCausality::kNone;
  AttentionBias bias = AttentionBias::kNone;
  int64_t buckets = 0;  // of bias_table
  // Of the products' operands; all but those of the mixing of logits, which is in float.
  Precision precision = Precision::kFloat32;

  bool MixesLogits() const { return P_l || R_Xl || R_Ml; }
  bool MixesWeights() const { return P_w || R_Xw || R_Mw; }
  bool operator==(const AttentionShape&) const = default;
};

// An input's rows, one for each position: row i of batch row b begins at data + b · batch + i · stride. So a slice of a
// fused projection's product can be read in place, and a decoding buffer that has room for more positions.
struct ConstRows {
  static constexpr int64_t kDense = -1;  // batch = positions · stride
  const float* data = nullptr;
  int64_t stride = 0;
  int64_t batch = kDense;
  const uint16_t* rounded = nullptr;  // Q, K, V in bfloat16: their elements where `data` is null

  // The rows from row i of batch row b on.
  ConstRows From(int64_t b, int64_t i, int64_t positions) const {
    return Behind(b * (batch == kDense ? positions * stride : batch) + i * stride);
  }
  const float* Row(int64_t b, int64_t i, int64_t positions) const { return From(b, i, positions).data; }
  ConstRows Behind(int64_t elements) const {
    return {data == nullptr ? nullptr : data + elements, stride, batch,
            rounded == nullptr ? nullptr : rounded + elements};
  }
};
// A result's rows: row i begins at data + i · stride.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;
};

struct AttentionInputs {
  ConstRows Q;  // [b·n, h_k·d_k]
  ConstRows K;  // [b·m, h_k·d_k]; shared: [b·m, d_k]
  ConstRows V;  // [b·m, h_v·d_v]; shared: [b·m, d_v]
  // Head mixings, contiguous but for the rows of R_M; read where the shape says that they are there.
  const float* P_l = nullptr;   // [h_k, h]
  const float* P_w = nullptr;   // [h, h_v]
  const float* R_Xl = nullptr;  // [b, n, h_k, h]
  ConstRows R_Ml;               // [b·m, h_k·h]
  const float* R_Xw = nullptr;  // [b, n, h, h_v]
  ConstRows R_Mw;               // [b·m, h·h_v]
  float scale = 1.0f;           // of J

  const float* bias = nullptr;               // kDense: [h, n, m]
  const float* bias_table = nullptr;         // kRelativePosition: [h, buckets]
  const int32_t* distance_bucket = nullptr;  // kRelativePosition: [n + m - 1], each in [0, buckets)
  // 1 = attend, 0 = not; null: everywhere. Both must allow.
  const uint8_t* key_padding_mask = nullptr;  // [b, m]
  const uint8_t* attention_mask = nullptr;    // [b, n, m]

  // U's element ((b·h_v + k)·n + i)·m + j is dropped where Uniform(dropout_key, element) < dropout_rate, else divided
  // by 1 - dropout_rate. 0 ≤ rate < 1; 0 is no dropout.
  double dropout_rate = 0.0;
  RandomKey dropout_key;
};

// What backward needs beside the inputs, each [b, h, n]: W = e^(L - row_max) · inv_row_sum, with L to the last bit as
// forward had it. row_max is a running maximum over m, at most 60 below the true one (ExponentialsOnline says why that
// is enough); inv_row_sum is 1 / Σ_m e^(L - row_max), 0 where nothing is attended to. In bfloat16 each e^(L - row_max)
// is rounded to it, in the sum as everywhere else.
struct SoftmaxStats {
  float* row_max = nullptr;
  float* inv_row_sum = nullptr;
  // L itself, KeptLogits(shape) elements, for backward to read instead of computing it again; null: it does.
  float* L = nullptr;
};

// How many elements of L are worth keeping: [b, h, n, m], m rounded up to whole chunks, where nothing is mixed and keys
// are at least as long as that, so that L takes no more room than Q in float; a fifth of backward's products is saved.
// 0 elsewhere, and for the few queries of decoding.
int64_t KeptLogits(const AttentionShape& shape);

// Gradients, overwritten. Q, K, V always; of the others those that are not null (where the shape has them).
struct AttentionGradients {
  Rows dQ;                       // [b·n, h_k·d_k]
  Rows dK;                       // [b·m, h_k·d_k]; shared: [b·m, d_k]
  Rows dV;                       // [b·m, h_v·d_v]; shared: [b·m, d_v]
  float* dP_l = nullptr;         // [h_k, h]
  float* dP_w = nullptr;         // [h, h_v]
  float* dR_Xl = nullptr;        // [b, n, h_k, h]
  float* dR_Ml = nullptr;        // [b, m, h_k, h]
  float* dR_Xw = nullptr;        // [b, n, h, h_v]
  float* dR_Mw = nullptr;        // [b, m, h, h_v]
  float* dbias = nullptr;        // [h, n, m]
  float* dbias_table = nullptr;  // [h, buckets]
};

// Bytes of workspace for at most `threads` threads; the call uses no more. They grow as n + m (and as the buckets of a
// relative position bias), not as n·m.
size_t AttentionForwardWorkspaceBytes(const AttentionShape& shape, int threads);
size_t AttentionBackwardWorkspaceBytes(const AttentionShape& shape, int threads);

// O[b·n, h_v·d_v] and the softmax stats. `workspace` is aligned to 64 bytes and holds what
// AttentionForwardWorkspaceBytes(shape, threads) says; its contents do not matter before or after. Throws a usage
// error for a shape that is none of the family.
void AttentionForward(const AttentionShape& shape, const AttentionInputs& inputs, const Rows& O,
                      const SoftmaxStats& stats, void* workspace, int threads);

// The gradients of everything, from dO[b·n, h_v·d_v], the inputs of the forward call and its results. O is not read
// where the weights are mixed.
void AttentionBackward(const AttentionShape& shape, const AttentionInputs& inputs, const ConstRows& O,
                       const SoftmaxStats& stats, const ConstRows& dO, const AttentionGradients& gradients,
                       void* workspace, int threads);

}  // namespace kernels
}  // namespace crosstalk
