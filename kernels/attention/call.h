// One call of the attention, from a layer to the kernel: its shape, its operands, its masks and its bias, by one name
// each. The operands are Variables in nn/ and on the tape (autograd/ops_attention.h), tensors in what backward keeps,
// rows of floats in the kernel.
//
//   J[b, n, m, h_k] = scale · Q·K              L[b, n, m, h]   = J·P_l + J·R_Xl + J·R_Ml + bias, masked
//   W[b, n, m, h]   = softmax of L over m      U[b, n, m, h_v] = dropout(W·P_w + W·R_Xw + W·R_Mw)
//   O[b, n, h_v, d_v] = U·V
//
// With factors F_Xl and F_Ml L is also J·R(F_Xl) + J·R(F_Ml), and U likewise, where F[5, h] is a form of the matrix of
// rank 2 and a diagonal R(F)[s, t] = F[0, s]·F[2, t] + F[1, s]·F[3, t] + δ_st·F[4, s].
//
// With conv_l, J is conv(J), and with conv_w W is conv(W) where U is made of it, both read and give 0 where a query may
// not attend: conv(S)[n, m] = Σ_{a<c_q, k<c_k} filter[a, k] · S[n - (c_q - 1) + a, m - left + k], head by head. The
// kernel has them beside P_l and P_w.
//
// Multi-head: no mixing. General bilinear: Q = X·P with d_k = d_M, K = V = M of one head. Where K or V has fewer heads
// than h_k or h_v, several heads of Q or U read one of them; what is mixed and convolved are J and W of their readers.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/random.h"

#pragma GCC visibility push(default)
namespace crosstalk {
namespace kernels {

// Which head of K a query head reads, if there are fewer, r of them for each.
enum class KeySharing {
  kConsecutive,  // head i reads i / r (multi-query, Shazeer 2019; grouped-query attention, Ainslie et al. 2023)
  kPairs,        // member p of pair g reads member p of pair g / r (differential attention's flash module)
};
// kCausal: query i sees the memory positions j ≤ i + m - n (with n = m: 0 … i). Needs n ≤ m.
enum class AttentionCausality { kNone, kCausal };
// kDense: bias[h, n, m]. kRelativePosition, T5's: bias_table[h, buckets], read at distance_bucket[j - i + n - 1].
enum class AttentionBias { kNone, kDense, kRelativePosition };

inline constexpr int64_t kMixingRank = 2;                       // a mixing by factors has it
inline constexpr int64_t kMixingFactors = 2 * kMixingRank + 1;  // rows of F: A_0, A_1, B_0, B_1 and the diagonal

// The parameters of its work and memory.
struct AttentionShape {
  int64_t b = 0, n = 0, m = 0;      // batch, queries, memory positions
  int64_t h_k = 0, h = 0, h_v = 0;  // heads of keys, softmax, values
  int64_t d_k = 0, d_v = 0;         // size of a key, of a value
  // Head mixings. Without one between two head dimensions those must be equal.
  bool P_l = false, R_Xl = false, R_Ml = false;
  bool P_w = false, R_Xw = false, R_Mw = false;
  // Factors, of queries and memory positions together: h_k = h, or h = h_v.
  bool F_Xl = false, F_Ml = false, F_Xw = false, F_Mw = false;
  int64_t c_ql = 0, c_kl = 0;  // queries and keys that conv_l reads; 0: no conv_l
  int64_t c_qw = 0, c_kw = 0;  // conv_w
  int64_t g_k = 0, g_v = 0;    // heads of K and of V, which divide h_k and h_v; 0: as many
  KeySharing key_sharing = KeySharing::kConsecutive;
  AttentionCausality causality = AttentionCausality::kNone;
  // kCausal, without convolutions: of the positions up to its own, a query sees the last `window`; 0: all.
  int64_t window = 0;
  AttentionBias bias = AttentionBias::kNone;
  int64_t buckets = 0;  // in bias_table
  // What the products' operands are rounded to, except those of the mixing of logits, which is in float.
  Precision precision = Precision::kFloat32;

  bool MixesLogits() const { return P_l || R_Xl || R_Ml || F_Xl; }
  bool MixesWeights() const { return P_w || R_Xw || R_Mw || F_Xw; }
  bool Convolves() const { return c_ql > 0 || c_qw > 0; }
  bool operator==(const AttentionShape&) const = default;
};

// In the order of AttentionOperands.
enum class AttentionOperand {
  kQ,
  kK,
  kV,
  kP_l,
  kP_w,
  kR_Xl,
  kR_Ml,
  kR_Xw,
  kR_Mw,
  kF_Xl,
  kF_Ml,
  kF_Xw,
  kF_Mw,
  kBias,
  kBiasTable,
  kConvL,
  kConvW
};
inline constexpr int kAttentionOperands = 17;

// The operands with gradients, or the gradients. Absent where the call has none.
template <typename T>
struct AttentionOperands {
  T Q = {};           // [b, n, h_k, d_k]
  T K = {};           // [b, m, g_k, d_k]; of one head also [b, m, d_k]
  T V = {};           // [b, m, g_v, d_v]; of one head also [b, m, d_v]
  T P_l = {};         // [h_k, h]
  T P_w = {};         // [h, h_v]
  T R_Xl = {};        // [b, n, h_k, h]
  T R_Ml = {};        // [b, m, h_k, h]
  T R_Xw = {};        // [b, n, h, h_v]
  T R_Mw = {};        // [b, m, h, h_v]
  T F_Xl = {};        // [b, n, 5, h]
  T F_Ml = {};        // [b, m, 5, h]
  T F_Xw = {};        // [b, n, 5, h]
  T F_Mw = {};        // [b, m, 5, h]
  T bias = {};        // kDense: [h, n, m]
  T bias_table = {};  // kRelativePosition: [h, buckets]
  T conv_l = {};      // [c_ql, c_kl, h_k]: a convolution of J before the mixing of logits
  T conv_w = {};      // [c_qw, c_kw, h]: of W before the mixing of weights

  T& operator[](AttentionOperand i) { return const_cast<T&>(std::as_const(*this)[i]); }
  const T& operator[](AttentionOperand i) const {
    static constexpr T AttentionOperands::*kMembers[kAttentionOperands] = {
        &AttentionOperands::Q,     &AttentionOperands::K,    &AttentionOperands::V,          &AttentionOperands::P_l,
        &AttentionOperands::P_w,   &AttentionOperands::R_Xl, &AttentionOperands::R_Ml,       &AttentionOperands::R_Xw,
        &AttentionOperands::R_Mw,  &AttentionOperands::F_Xl, &AttentionOperands::F_Ml,       &AttentionOperands::F_Xw,
        &AttentionOperands::F_Mw,  &AttentionOperands::bias, &AttentionOperands::bias_table, &AttentionOperands::conv_l,
        &AttentionOperands::conv_w};
    return this->*kMembers[static_cast<int>(i)];
  }
};

struct AttentionSettings {
  AttentionShape shape;
  double scale = 1.0;              // J is multiplied by it
  int64_t left_l = 0, left_w = 0;  // keys before its own that conv_l and conv_w read
  // U's element ((b·h_v + k)·n + i)·m + j is dropped where Uniform(dropout_key, element) < dropout_rate, else divided
  // by 1 - dropout_rate. 0 ≤ rate < 1; 0 is no dropout.
  double dropout_rate = 0.0;
  RandomKey dropout_key;
};

template <typename Operand, typename Mask, typename Buckets>
struct AttentionCallOf : AttentionSettings, AttentionOperands<Operand> {
  // bool, 1 = attend, 0 = not; absent: everywhere. Both must allow.
  Mask key_padding_mask = {};    // [b, m]
  Mask attention_mask = {};      // [b, n, m]
  Buckets distance_bucket = {};  // int32[n + m - 1], each in [0, buckets), for bias_table
};

}  // namespace kernels
}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk::kernels {

// The table of head mixings. A side is a product of one tile with a matrix of heads, the sum of its mixings:
//
//   y[out] = x[in] · (P + R_X + R_M + R(F_X) + R(F_M))     from J to L, and from W to U
//
// Packing, tiles, sums and gradients are loops over the sides and switches over the kinds; docs/kernel.md says how a
// mixing is added.

enum MixingSide { kLogits, kWeights };
inline constexpr MixingSide kMixingSides[] = {kLogits, kWeights};

enum MixingKind {
  // One matrix [in, out]. Packed once a call. Its gradient: partial sums of each task, added up in their order.
  kStatic,
  // One for each query, [b, n, in, out]. Packed with P added, once a tile. Its gradient: the tile's alone.
  kPerQuery,
  // One for each memory position, [b, m, in, out]. Packed once a call, by chunks. Its gradient: sums of a chunk, to
  // which the tasks add in their order.
  kPerPosition,
  // Factors for each query, [b, n, 5, h], and for each memory position, [b, m, 5, h], read as they are and packed once
  // a call: factors-inl.h. Their gradients: as those of kPerQuery and kPerPosition.
  kFactorsPerQuery,
  kFactorsPerPosition,
};
inline constexpr int kMixingKinds = 5;
// In what form a query or a position says how its heads are mixed, and the kinds by it.
enum MixingForm { kMatrix, kFactors };
inline constexpr MixingForm kMixingForms[] = {kMatrix, kFactors};
inline constexpr MixingKind kByQuery[] = {kPerQuery, kFactorsPerQuery};
inline constexpr MixingKind kByPosition[] = {kPerPosition, kFactorsPerPosition};

struct MixingRow {
  std::string_view bracket;
  bool AttentionShape::*present;
  AttentionOperand operand;
};
inline constexpr MixingRow kMixings[][kMixingKinds] = {
    {{"P_l[h_k, h]", &AttentionShape::P_l, AttentionOperand::kP_l},
     {"R_Xl[b, n, h_k, h]", &AttentionShape::R_Xl, AttentionOperand::kR_Xl},
     {"R_Ml[b, m, h_k, h]", &AttentionShape::R_Ml, AttentionOperand::kR_Ml},
     {"F_Xl[b, n, factors, h_k]", &AttentionShape::F_Xl, AttentionOperand::kF_Xl},
     {"F_Ml[b, m, factors, h_k]", &AttentionShape::F_Ml, AttentionOperand::kF_Ml}},
    {{"P_w[h, h_v]", &AttentionShape::P_w, AttentionOperand::kP_w},
     {"R_Xw[b, n, h, h_v]", &AttentionShape::R_Xw, AttentionOperand::kR_Xw},
     {"R_Mw[b, m, h, h_v]", &AttentionShape::R_Mw, AttentionOperand::kR_Mw},
     {"F_Xw[b, n, factors, h]", &AttentionShape::F_Xw, AttentionOperand::kF_Xw},
     {"F_Mw[b, m, factors, h]", &AttentionShape::F_Mw, AttentionOperand::kF_Mw}}};

// Whether an operand is a matrix, or factors, for each memory position: its rows may lie apart.
constexpr bool IsPerPosition(AttentionOperand operand) {
  for (const auto& side : kMixings) {
    for (const MixingKind kind : kByPosition) {
      if (side[kind].operand == operand) return true;
    }
  }
  return false;
}

// A side of a shape.
struct SideShape {
  SideShape() = default;
  SideShape(const AttentionShape& s, MixingSide side)
      : in(side == kLogits ? s.h_k : s.h), out(side == kLogits ? s.h : s.h_v) {
    for (int kind = 0; kind < kMixingKinds; ++kind) has[kind] = s.*kMixings[side][kind].present;
  }
  int64_t in = 0, out = 0;  // heads
  bool has[kMixingKinds] = {};

  int64_t size() const { return in * out; }  // one matrix
  int64_t size(MixingForm form) const { return form == kMatrix ? size() : kMixingFactors * in; }
  bool has_factors() const { return has[kFactorsPerQuery]; }
  // Whether a position has a part in the mixing. Only a mixing of weights by matrices of queries alone can take the
  // normalisers into its matrices.
  bool MixesByPosition() const { return has[kPerPosition] || has_factors(); }
  // Each tile packs its own P + R_X; else all read P as it is packed once.
  bool PacksEachTile() const { return has[kPerQuery]; }
};

// A side's convolution; 0 queries: it has none.
struct FilterShape {
  FilterShape() = default;
  FilterShape(const AttentionShape& s, MixingSide side)
      : c_q(side == kLogits ? s.c_ql : s.c_qw), c_k(side == kLogits ? s.c_kl : s.c_kw) {}
  int64_t c_q = 0, c_k = 0;

  bool present() const { return c_q > 0; }
  int64_t taps() const { return c_q * c_k; }
  int64_t queries_before() const { return present() ? c_q - 1 : 0; }
};
inline constexpr AttentionOperand kFilters[] = {AttentionOperand::kConvL, AttentionOperand::kConvW};  // by MixingSide

// An operand of a call, or its gradient.
template <typename T>
const T& MixingOf(const AttentionOperands<T>& operands, MixingSide side, MixingKind kind) {
  return operands[kMixings[side][kind].operand];
}

}  // namespace crosstalk::kernels
