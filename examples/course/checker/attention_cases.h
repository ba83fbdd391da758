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

// Talking heads, forward, and what a slip changes in them: each is one line of the plain loops.
struct ForwardCase {
  Core core;
  enum class Softmax { kOverMemory, kOverQueries, kOverHeads } softmax = Softmax::kOverMemory;
  // Where the mask is 0: L is -∞, or very low; L · mask is taken, or W · mask; J is -∞, or very low.
  enum class Masked { kLogits, kLowLogits, kTimes, kWeights, kJ, kLowJ } masked = Masked::kLogits;
  // What is subtracted from a row of logits: its largest, that or 0, or nothing.
  enum class Subtracted { kLargest, kLargestFrom0, kNothing } subtracted = Subtracted::kLargest;
  bool zeros_for_blind = true;  // a query that may attend to nothing has the weights 0, not 0/0
  bool last_alone = false;      // of the sum over key heads: = for +=
};
Array ForwardOf(const ForwardCase& c);  // O[b, n, d_v, h_v]
// Slips of P_l, P_w and the scale; of what the softmax runs over; of its maximum; of a mask.
std::vector<Change<ForwardCase>> MixingSlips(const Core& core);
std::vector<Change<ForwardCase>> AxisSlips();
std::vector<Change<ForwardCase>> MaximumSlips();
std::vector<Change<ForwardCase>> MaskSlips();

// Talking heads, backward, and what a slip changes in them.
struct BackwardCase {
  Core core;
  bool no_D = false, D_without_W = false, D_of_U = false, no_W = false;
  bool dV_of_W = false, dP_w_of_U = false;
  bool last_alone = false;  // of the sums dV, dK, dP_l and dP_w over n, of dQ over m: = for +=
  bool P_l_not_transposed = false, P_w_not_transposed = false;
  bool dP_l_transposed = false, dP_w_transposed = false;
  bool no_scale_in_J = false;
  double scale_power = 1;
};
// dV[b, m, d_v, h_v], dP_w[h, h_v], dP_l[h_k, h], dQ[b, n, d_k, h_k], dK[b, m, d_k, h_k]
Results BackwardOf(const BackwardCase& c, const Array& dO);
std::vector<Change<BackwardCase>> BackwardSlips(const Core& core);

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr const char* kTransposedL =
    "P_l is read transposed: the first index of P_l[h_k, h] is the key head, and the sum runs over it, "
    "L[h] = Σ_k J[k] · P_l[k, h].";
// e^(x - subtracted) / sum as it is written down, overflow and all.
std::vector<double> PlainSoftmax(const std::vector<double>& x, double subtracted);

}  // namespace course
