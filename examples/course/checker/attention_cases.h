// Random attention to check exercises of chapters 3, 5 and 8 on, and the reference's answers: the plain loops of
// kernels/reference/attention.h.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "examples/course/checker/checker.h"

namespace course {

using Core = crosstalk::kernels::reference::CoreInputs<double>;

// First equal numbers of heads, with which a matrix of heads may be read either way; then all of them distinct.
struct CoreSizes {
  int64_t b, n, m, d_k, d_v, h_k, h, h_v;
};
inline constexpr CoreSizes kSquare = {2, 3, 4, 2, 2, 3, 3, 3};
inline constexpr CoreSizes kDistinct = {2, 4, 7, 5, 6, 2, 3, 5};
std::string Describe(const CoreSizes& sizes);

// Q[b, n, d_k, h_k], K[b, m, d_k, h_k], V[b, m, d_v, h_v], scale = 1/√d_k; with P_l[h_k, h] and P_w[h, h_v].
Core TalkingCore(const CoreSizes& sizes);
// The same without projections, of h_k heads.
Core MultiHeadCore(const CoreSizes& sizes);
// mask[b, n, m], 1 = attend. kOneEach: of each query one other position is masked; kBlindQuery: of the last one all.
enum class MaskKind { kNone, kOneEach, kBlindQuery };
Array MakeMask(const CoreSizes& sizes, MaskKind kind);
void SetMask(const Array& mask, Core& core);

// kernels/reference's results, with brackets.
Results Forward(const Core& core);  // O
Array Logits(const Core& core);     // J, which P_l mixes
Array DO(const Core& core);         // random, of O's sizes

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// e^(x - subtracted) / sum as it is written down, overflow and all.
std::vector<double> PlainSoftmax(const std::vector<double>& x, double subtracted);

}  // namespace course
