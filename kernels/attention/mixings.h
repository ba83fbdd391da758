// The table of head mixings. A side is a product of one tile with a matrix of heads, the sum of its mixings:
//
//   y[out] = x[in] · (P + R_X + R_M + R(F_X) + R(F_M))     from J to L, and from W to U
//
// Packing, tiles, sums and gradients are loops over the sides and switches over the kinds; docs/kernel.md says how a
// mixing is added.
#pragma once

#include <cstdint>
#include <string_view>

#include "crosstalk/kernels/attention/call.h"

namespace crosstalk::kernels {

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

  int64_t size() const { return in * out; }  // of one matrix
  int64_t size(MixingForm form) const { return form == kMatrix ? size() : kMixingFactors * in; }
  bool has_factors() const { return has[kFactorsPerQuery]; }
  // Whether a position has a part in the mixing: of the weights only a mixing by matrices of queries alone can take
  // the normalisers into its matrices.
  bool MixesByPosition() const { return has[kPerPosition] || has_factors(); }
  // Each tile packs its own P + R_X; else all read P as it is packed once.
  bool PacksEachTile() const { return has[kPerQuery]; }
};

// A side's convolution; 0 queries: there is none.
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
