#include "examples/course/checker/attention_cases.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/runtime/check.h"

namespace course {

std::string Describe(const CoreSizes& s) {
  return crosstalk::StrCat("b=", s.b, " n=", s.n, " m=", s.m, " d_k=", s.d_k, " d_v=", s.d_v, " h_k=", s.h_k,
                           " h=", s.h, " h_v=", s.h_v);
}

Core MultiHeadCore(const CoreSizes& s) {
  Core core;
  core.Q = Random("Q[b, n, d_k, h_k]", {s.b, s.n, s.d_k, s.h_k});
  core.K = Random("K[b, m, d_k, h_k]", {s.b, s.m, s.d_k, s.h_k});
  core.V = Random("V[b, m, d_v, h_k]", {s.b, s.m, s.d_v, s.h_k});
  core.scale = 1 / std::sqrt(static_cast<double>(s.d_k));
  return core;
}

Core TalkingCore(const CoreSizes& s) {
  Core core = MultiHeadCore(s);
  core.V = Random("V[b, m, d_v, h_v]", {s.b, s.m, s.d_v, s.h_v});
  core.P_l = Random("P_l[h_k, h]", {s.h_k, s.h});
  core.P_w = Random("P_w[h, h_v]", {s.h, s.h_v});
  return core;
}

Array MakeMask(const CoreSizes& s, MaskKind kind) {
  Array mask("mask[b, n, m]", Array({s.b, s.n, s.m}, 1));
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t m = 0; m < s.m; ++m) {
        const bool blind = kind == MaskKind::kBlindQuery && b + 1 == s.b && n + 1 == s.n;
        mask(b, n, m) = kind == MaskKind::kNone || (!blind && m != (n + b) % s.m);
      }
  return mask;
}

void SetMask(const Array& mask, Core& core) {
  core.mask = crosstalk::kernels::reference::Array<uint8_t>(mask.sizes());
  for (size_t i = 0; i < mask.values().size(); ++i) core.mask.values()[i] = mask.values()[i] != 0;
}

Results Forward(const Core& core) {
  return {Array("O[b, n, d_v, h_v]", crosstalk::kernels::reference::CoreForward(core).O)};
}

Array Logits(const Core& core) { return Array("J[b, n, m, h_k]", crosstalk::kernels::reference::CoreForward(core).J); }

Array DO(const Core& core) {
  return Random("dO[b, n, d_v, h_v]", crosstalk::kernels::reference::CoreForward(core).O.sizes());
}

std::vector<double> PlainSoftmax(const std::vector<double>& x, double subtracted) {
  std::vector<double> y;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - subtracted);
  for (const double value : x) y.push_back(std::exp(value - subtracted) / sum);
  return y;
}

namespace {

namespace reference = crosstalk::kernels::reference;

// The weights of a row of logits, of which attends says what is masked.
std::vector<double> WeightsOf(const ForwardCase& c, std::vector<double> row, const std::vector<double>& attends) {
  using Masked = ForwardCase::Masked;
  using Subtracted = ForwardCase::Subtracted;
  for (size_t i = 0; i < row.size(); ++i) {
    if (c.masked == Masked::kTimes) row[i] *= attends[i];
    if (attends[i] == 0 && c.masked == Masked::kLogits) row[i] = -kInfinity;
    if (attends[i] == 0 && c.masked == Masked::kLowLogits) row[i] = -1e9;
  }
  double subtracted = *std::max_element(row.begin(), row.end());
  if (subtracted == -kInfinity && c.zeros_for_blind) return std::vector<double>(row.size());
  if (c.subtracted == Subtracted::kLargestFrom0) subtracted = std::max(0.0, subtracted);
  if (c.subtracted == Subtracted::kNothing) subtracted = 0;
  row = PlainSoftmax(row, subtracted);
  for (size_t i = 0; i < row.size(); ++i) {
    if (c.subtracted == Subtracted::kLargestFrom0 && std::isnan(row[i])) row[i] = 0;  // a sum of 0 is not divided by
    if (c.masked == Masked::kWeights) row[i] *= attends[i];
  }
  return row;
}

Array WeightsOf(const ForwardCase& c, const Array& L) {
  Array W(L.sizes());
  const auto& mask = c.core.mask;
  const int dim = c.softmax == ForwardCase::Softmax::kOverMemory    ? 2
                  : c.softmax == ForwardCase::Softmax::kOverQueries ? 1
                                                                    : 3;
  int64_t stride = 1;
  for (int i = 3; i > dim; --i) stride *= L.size(i);
  for (int64_t first = 0; first < static_cast<int64_t>(L.values().size()); ++first) {
    if (first / stride % L.size(dim) != 0) continue;
    std::vector<double> row, attends;
    for (int64_t i = 0; i < L.size(dim); ++i) {
      const auto at = static_cast<size_t>(first + i * stride);
      row.push_back(L.values()[at]);
      attends.push_back(mask.present() ? mask.values()[at / static_cast<size_t>(L.size(3))] : 1);
    }
    row = WeightsOf(c, row, attends);
    for (int64_t i = 0; i < L.size(dim); ++i) W.values()[static_cast<size_t>(first + i * stride)] = row[i];
  }
  return W;
}

}  // namespace

Array ForwardOf(const ForwardCase& c) {
  using Masked = ForwardCase::Masked;
  Array J = Logits(c.core);
  const int64_t B = J.size(0), N = J.size(1), M = J.size(2);
  if (c.core.mask.present() && (c.masked == Masked::kJ || c.masked == Masked::kLowJ)) {
    for (size_t i = 0; i < J.values().size(); ++i) {
      if (c.core.mask.values()[i / static_cast<size_t>(J.size(3))] == 0) {
        J.values()[i] = c.masked == Masked::kJ ? -kInfinity : -1e9;
      }
    }
  }
  Core mixed = c.core;
  if (c.last_alone && mixed.P_l.present()) {
    for (int64_t k = 0; k + 1 < mixed.P_l.size(0); ++k)
      for (int64_t h = 0; h < mixed.P_l.size(1); ++h) mixed.P_l(k, h) = 0;
  }
  Array L = J;
  if (mixed.P_l.present()) {
    L = Array({B, N, M, mixed.P_l.size(1)});
    reference::Mix<double>(J, mixed.P_l, reference::MixedBy::kStatic, L);
  }
  const Array W = WeightsOf(c, L);
  Array U = W;
  if (mixed.P_w.present()) {
    U = Array({B, N, M, mixed.P_w.size(1)});
    reference::Mix<double>(W, mixed.P_w, reference::MixedBy::kStatic, U);
  }
  Array O("O[b, n, d_v, h_v]", Array({B, N, c.core.V.size(2), c.core.V.size(3)}));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < M; ++m)
        for (int64_t d = 0; d < O.size(2); ++d)
          for (int64_t v = 0; v < O.size(3); ++v) O(b, n, d, v) += U(b, n, m, v) * c.core.V(b, m, d, v);
  return O;
}

std::vector<Change<ForwardCase>> MixingSlips(const Core& core) {
  using Case = ForwardCase;
  const auto transpose = [](Array::Base& P) {
    if (P.present() && P.size(0) == P.size(1)) P = Transposed(Array("P[h, k]", P));
  };
  return {
      {"P_l transposed", kTransposedL, [=](Case& c) { transpose(c.core.P_l); }},
      {"P_w transposed",
       "P_w is read transposed: the first index of P_w[h, h_v] is the softmax head, and the sum runs over it, "
       "U[v] = Σ_h W[h] · P_w[h, v].",
       [=](Case& c) { transpose(c.core.P_w); }},
      {"scale twice", ScaledBy(core.scale * core.scale, core.scale), [](Case& c) { c.core.scale *= c.core.scale; }},
      {"scale missing", "the scale is missing: J = scale · Q·K.", [](Case& c) { c.core.scale = 1; }},
      {"P_w missing", "the weights are not mixed: U[v] = Σ_h W[h] · P_w[h, v], and U weighs the values, not W.",
       [](Case& c) {
         if (c.core.P_w.size(0) == c.core.P_w.size(1)) c.core.P_w = {};
       }},
      {"P_l missing", "the logits are not mixed: L[h] = Σ_k J[k] · P_l[k, h], and the softmax reads L.",
       [](Case& c) {
         if (c.core.P_l.size(0) == c.core.P_l.size(1)) c.core.P_l = {};
       }},
      {"sum overwritten", "only the last key head is left in L: add with +=.", [](Case& c) { c.last_alone = true; }}};
}

std::vector<Change<ForwardCase>> AxisSlips() {
  using Case = ForwardCase;
  return {{"softmax over queries", "the weights sum to 1 over the queries n: they should over the memory positions m.",
           [](Case& c) { c.softmax = Case::Softmax::kOverQueries; }},
          {"softmax over heads", "the weights sum to 1 over the heads h: they should over the memory positions m.",
           [](Case& c) { c.softmax = Case::Softmax::kOverHeads; }}};
}

std::vector<Change<ForwardCase>> MaximumSlips() {
  using Case = ForwardCase;
  return {{"e^x overflows",
           "e^L overflows, or all of a row is 0: subtract the row's largest L first, and look for it from -∞ on, not "
           "from 0.",
           [](Case& c) { c.subtracted = Case::Subtracted::kNothing; }},
          {"maximum from 0", "all logits of a row may be far below 0: look for the largest from -∞ on, not from 0.",
           [](Case& c) { c.subtracted = Case::Subtracted::kLargestFrom0; }}};
}

std::vector<Change<ForwardCase>> MaskSlips() {
  using Case = ForwardCase;
  constexpr const char* kMaskFirst =
      "the mask stands before P_l: there -∞ of a masked position is spread over all heads, with the signs of P_l. "
      "Mask L, after P_l.";
  const auto masked = [](Case::Masked how) { return [how](Case& c) { c.masked = how; }; };
  return {
      {"mask before P_l", kMaskFirst, masked(Case::Masked::kLowJ)},
      {"-∞ before P_l", kMaskFirst, masked(Case::Masked::kJ)},
      {"mask forgotten", "the mask is not used: where mask is 0, W is 0.", [](Case& c) { c.core.mask = {}; }},
      {"mask inverted", "the mask is 1 where a query may attend, 0 where it may not.",
       [](Case& c) {
         for (uint8_t& attends : c.core.mask.values()) attends = attends == 0;
       }},
      {"masked after the softmax",
       "the mask comes after the softmax, so the weights no longer sum to 1. Mask L, before the softmax.",
       masked(Case::Masked::kWeights)},
      {"logits times mask", "L · mask is 0 at a masked position, and e^0 = 1 is a weight like any other. Put -∞ there.",
       masked(Case::Masked::kTimes)},
      {"nothing to attend to: uniform",
       "a query that may attend to nothing gets equal weights, for all its logits are equally low. Give it zeros.",
       masked(Case::Masked::kLowLogits)},
      {"nothing to attend to: no number",
       "a query that may attend to nothing gets 0/0. Give it zeros where its largest logit is -∞.",
       [](Case& c) { c.zeros_for_blind = false; }}};
}

Results BackwardOf(const BackwardCase& slips, const Array& dO) {
  const Core& in = slips.core;
  Core forward = in;
  if (slips.no_scale_in_J) forward.scale = 1;
  const auto v = reference::CoreForward(forward);
  const int64_t B = in.Q.size(0), N = in.Q.size(1), S = in.K.size(1);
  const auto counts = [&](int64_t i, int64_t size) { return !slips.last_alone || i == size - 1; };
  Array dU(v.U.sizes()), dV("dV[b, m, d_v, h_v]", Array(in.V.sizes()));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t e = 0; e < in.V.size(2); ++e)
          for (int64_t k = 0; k < dU.size(3); ++k) {
            dU(b, n, m, k) += dO(b, n, e, k) * in.V(b, m, e, k);
            if (counts(n, N)) dV(b, m, e, k) += (slips.dV_of_W ? v.W : v.U)(b, n, m, k) * dO(b, n, e, k);
          }
  Array dW(v.W.sizes());
  reference::Array<double> dP_w, dP_l;
  reference::MixBackward<double>(v.W, in.P_w, reference::MixedBy::kStatic, dU, dW, dP_w);
  if (slips.dP_w_of_U) {
    dP_w = {};
    Array unused(v.W.sizes());
    reference::MixBackward<double>(v.U, in.P_w, reference::MixedBy::kStatic, dU, unused, dP_w);
  }
  if (slips.P_w_not_transposed) {
    dW = Array(v.W.sizes());
    reference::Mix<double>(dU, in.P_w, reference::MixedBy::kStatic, dW);
  }
  Array dL(v.L.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t h = 0; h < dL.size(3); ++h) {
        double D = 0;
        for (int64_t m = 0; m < S; ++m) {
          D += (slips.D_without_W ? 1 : v.W(b, n, m, h)) * (slips.D_of_U ? dU(b, n, m, h) : dW(b, n, m, h));
        }
        for (int64_t m = 0; m < S; ++m) {
          dL(b, n, m, h) = (slips.no_W ? 1 : v.W(b, n, m, h)) * (dW(b, n, m, h) - (slips.no_D ? 0 : D));
        }
      }
  Array dJ(v.J.sizes());
  reference::MixBackward<double>(v.J, in.P_l, reference::MixedBy::kStatic, dL, dJ, dP_l);
  if (slips.P_l_not_transposed) {
    dJ = Array(v.J.sizes());
    reference::Mix<double>(dL, in.P_l, reference::MixedBy::kStatic, dJ);
  }
  const double scale = std::pow(in.scale, slips.scale_power);
  Array dQ("dQ[b, n, d_k, h_k]", Array(in.Q.sizes())), dK("dK[b, m, d_k, h_k]", Array(in.K.sizes()));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t e = 0; e < in.Q.size(2); ++e)
          for (int64_t k = 0; k < dJ.size(3); ++k) {
            if (counts(m, S)) dQ(b, n, e, k) += scale * dJ(b, n, m, k) * in.K(b, m, e, k);
            if (counts(n, N)) dK(b, m, e, k) += scale * dJ(b, n, m, k) * in.Q(b, n, e, k);
          }
  if (slips.last_alone) {
    for (int64_t h = 0; h < dL.size(3); ++h) {
      for (int64_t k = 0; k < dJ.size(3); ++k) dP_l(k, h) = v.J(B - 1, N - 1, S - 1, k) * dL(B - 1, N - 1, S - 1, h);
      for (int64_t u = 0; u < dU.size(3); ++u) dP_w(h, u) = v.W(B - 1, N - 1, S - 1, h) * dU(B - 1, N - 1, S - 1, u);
    }
  }
  if (slips.dP_l_transposed) dP_l = Transposed(Array("dP_l[h_k, h]", dP_l));
  if (slips.dP_w_transposed) dP_w = Transposed(Array("dP_w[h, h_v]", dP_w));
  return {dV, Array("dP_w[h, h_v]", dP_w), Array("dP_l[h_k, h]", dP_l), dQ, dK};
}

std::vector<Change<BackwardCase>> BackwardSlips(const Core& core) {
  using Case = BackwardCase;
  const auto is_square = [](const Array::Base& P) { return P.size(0) == P.size(1); };
  const bool square = is_square(core.P_l) && is_square(core.P_w);  // one head may be taken for the other
  return {{"missing D",
           "the softmax's gradient lacks D: dL = W · (dW - D) with D[b, n, h] = Σ_m W · dW, for all weights of a query "
           "sum to 1.",
           [](Case& c) { c.no_D = true; }},
          {"D without W", "D = Σ_m W · dW: the sum lacks the factor W.", [](Case& c) { c.D_without_W = true; }},
          {"W missing", "dL = W · (dW - D): the factor W is missing.", [](Case& c) { c.no_W = true; }},
          {"D of U", "D is made of dU: the softmax is between L and W, so D[b, n, h] = Σ_m W · dW with dW = dU·P_wᵀ.",
           [=](Case& c) { c.D_of_U = square; }},
          {"dP_l transposed", "dP_l is transposed: dP_l[k, h] = Σ_bnm J[k] · dL[h] has the shape of P_l.",
           [](Case& c) { c.dP_l_transposed = true; }},
          {"dP_w transposed", "dP_w is transposed: dP_w[h, v] = Σ_bnm W[h] · dU[v] has the shape of P_w.",
           [](Case& c) { c.dP_w_transposed = true; }},
          {"P_l on the way back",
           "on the way back P_l is used as on the way there: dJ[k] = Σ_h dL[h] · P_l[k, h] sums over h.",
           [=](Case& c) { c.P_l_not_transposed = square; }},
          {"P_w on the way back",
           "on the way back P_w is used as on the way there: dW[h] = Σ_v dU[v] · P_w[h, v] sums over h_v.",
           [=](Case& c) { c.P_w_not_transposed = square; }},
          {"dV of W", "dV is made of W: the values are read with U, O = Σ_m U · V, so dV = Σ_n U · dO.",
           [=](Case& c) { c.dV_of_W = square; }},
          {"dP_w of U", "dP_w is made of U: P_w multiplies W, U = W·P_w, so dP_w[h, v] = Σ_bnm W[h] · dU[v].",
           [=](Case& c) { c.dP_w_of_U = square; }},
          {"sum overwritten",
           "only the last term is left in the sum. Where several numbers pass a gradient back, add with +=.",
           [](Case& c) { c.last_alone = true; }},
          {"logits without scale", "the scale is missing on the way there: J = scale · Q·K.",
           [](Case& c) { c.no_scale_in_J = true; }},
          {"scale missing",
           "this gradient lacks the scale: J = scale · Q·K, so dQ = scale · Σ_m dJ · K and dK = scale · Σ_n dJ · Q.",
           [](Case& c) { c.scale_power = 0; }},
          {"scale twice", GradientScaledBy(core.scale), [](Case& c) { c.scale_power = 2; }}};
}

}  // namespace course
