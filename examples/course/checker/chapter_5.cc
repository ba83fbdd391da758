// Chapter 5: heads that talk.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "examples/course/checker/attention_cases.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

constexpr const char* kTransposedL =
    "P_l is read transposed: the first index of P_l[h_k, h] is the key head, and the sum runs over it, "
    "L[h] = Σ_k J[k] · P_l[k, h].";
constexpr const char* kTransposedW =
    "P_w is read transposed: the first index of P_w[h, h_v] is the softmax head, and the sum runs over it, "
    "U[v] = Σ_h W[h] · P_w[h, v].";

void Check_5_1(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kSquare, kDistinct}) {
    const Core core = TalkingCore(s);
    const Array J = Logits(core), P_l("P_l[h_k, h]", core.P_l);
    const auto mix = [&](const Array& P) {
      Array L("L[b, n, m, h]", Array({s.b, s.n, s.m, P.size(1)}));
      reference::Mix<double>(J, P, reference::MixedBy::kStatic, L);
      return Results{L};
    };
    const auto with_J_and = [&](auto changed) {
      return [&, changed] {
        Array P = P_l;
        for (int64_t k = 0; k < s.h_k; ++k)
          for (int64_t h = 0; h < s.h; ++h)
            if (!changed(k, h)) P(k, h) = 0;
        return mix(P);
      };
    };
    checker.Expect(
        crosstalk::StrCat("b=", s.b, " n=", s.n, " m=", s.m, " h_k=", s.h_k, " h=", s.h),
        [&] { return Results{As<Signature_5_1>(function)(J, P_l)}; }, mix(P_l),
        {{"P_l transposed", kTransposedL, [&] { return mix(Transposed(P_l)); }},
         {"heads that do not talk",
          "each head reads itself alone: L[h] is a sum over all key heads k, not J[h] · P_l[h, h].",
          with_J_and([](int64_t k, int64_t h) { return k == h; })},
         {"sum overwritten", "only the last key head is left in the sum: add to L with +=, which begins at 0.",
          with_J_and([&](int64_t k, int64_t) { return k == s.h_k - 1; })}});
  }
}

// The weights of a row, from its logits and its mask.
using RowWeights = std::vector<double>(const std::vector<double>& L, const std::vector<double>& mask);

double Largest(const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }

// O[b, n, d_v, h_v] where the weights are made of L[b, n, m, h] in this way.
Results ForwardWith(const Core& core, const Array& L, const Array& mask, const std::function<RowWeights>& weights) {
  Array W(L.sizes());
  for (int64_t b = 0; b < L.size(0); ++b)
    for (int64_t n = 0; n < L.size(1); ++n)
      for (int64_t h = 0; h < L.size(3); ++h) {
        std::vector<double> row, attends;
        for (int64_t m = 0; m < L.size(2); ++m) row.push_back(L(b, n, m, h)), attends.push_back(mask(b, n, m));
        row = weights(row, attends);
        for (int64_t m = 0; m < L.size(2); ++m) W(b, n, m, h) = row[static_cast<size_t>(m)];
      }
  Array U({L.size(0), L.size(1), L.size(2), core.V.size(3)});
  reference::Mix<double>(W, core.P_w, reference::MixedBy::kStatic, U);
  Array O("O[b, n, d_v, h_v]", Array({L.size(0), L.size(1), core.V.size(2), core.V.size(3)}));
  for (int64_t b = 0; b < O.size(0); ++b)
    for (int64_t n = 0; n < O.size(1); ++n)
      for (int64_t m = 0; m < L.size(2); ++m)
        for (int64_t d = 0; d < O.size(2); ++d)
          for (int64_t v = 0; v < O.size(3); ++v) O(b, n, d, v) += U(b, n, m, v) * core.V(b, m, d, v);
  return {O};
}

// J is masked, by a number as low as that, and then mixed.
Results MaskedBeforeP_l(const Core& core, const Array& mask, double low) {
  Array J = Logits(core);
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n < J.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t k = 0; k < J.size(3); ++k)
          if (mask(b, n, m) == 0) J(b, n, m, k) = low;
  Array L({J.size(0), J.size(1), J.size(2), core.P_l.size(1)});
  reference::Mix<double>(J, core.P_l, reference::MixedBy::kStatic, L);
  return ForwardWith(core, L, mask, [](const std::vector<double>& row, const std::vector<double>&) {
    const double largest = Largest(row);
    return largest == -kInfinity ? std::vector<double>(row.size()) : PlainSoftmax(row, largest);
  });
}

struct Case_5_2 {
  std::string name;
  MaskKind mask = MaskKind::kNone;
  double scale = 1;  // of all logits; where it is large, keys of different positions are as much alike
};

void CheckTalkingHeads(AnyFunction function, Checker& checker, const CoreSizes& s, const Case_5_2& c) {
  constexpr const char* kMaskFirst =
      "the mask stands before P_l: there -∞ of a masked position is spread over all heads, with the signs of P_l. "
      "Mask L, after P_l.";
  Core core = TalkingCore(s);
  core.scale *= c.scale;
  // Logits that are all large or all far below 0, and differ by some units in a row.
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t m = s.m - 1; m >= 0; --m)
      for (int64_t d = 0; d < s.d_k; ++d)
        for (int64_t k = 0; k < s.h_k; ++k) {
          const double first = core.K(b, int64_t{0}, d, k);
          core.K(b, m, d, k) = first + (core.K(b, m, d, k) - first) / c.scale;
        }
  const Array mask = MakeMask(s, c.mask);
  const Array unmasked("L[b, n, m, h]", reference::CoreForward(core).L);
  SetMask(mask, core);
  const Array Q("Q[b, n, d_k, h_k]", core.Q), K("K[b, m, d_k, h_k]", core.K), V("V[b, m, d_v, h_v]", core.V);
  const Array P_l("P_l[h_k, h]", core.P_l), P_w("P_w[h, h_v]", core.P_w);
  const auto with = [&](auto change) {
    return [&core, change] {
      Core changed = core;
      change(changed);
      return Forward(changed);
    };
  };
  // The softmax of `logit` of each logit and its mask, with this subtracted.
  const auto softmax_of = [&](auto logit, auto subtracted) {
    return [&, logit, subtracted] {
      return ForwardWith(core, unmasked, mask, [&](std::vector<double> row, const std::vector<double>& attends) {
        for (size_t m = 0; m < row.size(); ++m) row[m] = logit(row[m], attends[m]);
        return PlainSoftmax(row, subtracted(row));
      });
    };
  };
  const auto infinite = [](double l, double attends) { return attends != 0 ? l : -kInfinity; };
  checker.Expect(
      Describe(s) + c.name, [&] { return Results{As<Signature_5_2>(function)(Q, K, V, P_l, P_w, mask, core.scale)}; },
      Forward(core),
      {{"P_l transposed", kTransposedL, with([&](Core& core) { core.P_l = Transposed(P_l); })},
       {"P_w transposed", kTransposedW, with([&](Core& core) { core.P_w = Transposed(P_w); })},
       {"both transposed",
        "P_l and P_w are read transposed: L[h] = Σ_k J[k] · P_l[k, h] and U[v] = Σ_h W[h] · P_w[h, v].",
        with([&](Core& core) { core.P_l = Transposed(P_l), core.P_w = Transposed(P_w); })},
       {"scale twice", "the scale is applied twice: it belongs to J alone, once.",
        with([&](Core& core) { core.scale *= core.scale; })},
       {"scale missing", "the scale is missing: J = scale · Q·K.", with([](Core& core) { core.scale = 1; })},
       {"P_w missing", "the weights are not mixed: U[v] = Σ_h W[h] · P_w[h, v], and U weighs the values, not W.",
        with([&](Core& core) {
          if (s.h == s.h_v) core.P_w = {};
        })},
       {"P_l missing", "the logits are not mixed: L[h] = Σ_k J[k] · P_l[k, h], and the softmax reads L.",
        with([&](Core& core) {
          if (s.h == s.h_k) core.P_l = {};
        })},
       {"P_w before the softmax",
        "P_w stands before the softmax: there it is one more matrix beside P_l. It mixes W, what the softmax gave.",
        with([&](Core& core) {
          if (s.h != s.h_v) return;
          Array both({s.h_k, s.h_v});
          for (int64_t k = 0; k < s.h_k; ++k)
            for (int64_t h = 0; h < s.h; ++h)
              for (int64_t v = 0; v < s.h_v; ++v) both(k, v) += P_l(k, h) * P_w(h, v);
          core.P_l = both, core.P_w = {};
        })},
       {"mask before P_l", kMaskFirst, [&] { return MaskedBeforeP_l(core, mask, -1e9); }},
       {"-∞ before P_l", kMaskFirst, [&] { return MaskedBeforeP_l(core, mask, -kInfinity); }},
       {"mask forgotten", "the mask is not used: where mask is 0, W is 0.", with([](Core& core) { core.mask = {}; })},
       {"mask inverted", "the mask is 1 where a query may attend, 0 where it may not.", with([](Core& core) {
          for (uint8_t& attends : core.mask.values()) attends = attends == 0;
        })},
       {"masked after the softmax",
        "the mask comes after the softmax, so the weights no longer sum to 1. Mask L, before the softmax.",
        [&] {
          return ForwardWith(core, unmasked, mask,
                             [](const std::vector<double>& row, const std::vector<double>& attends) {
                               std::vector<double> weights = PlainSoftmax(row, Largest(row));
                               for (size_t m = 0; m < row.size(); ++m) weights[m] *= attends[m];
                               return weights;
                             });
        }},
       {"logits times mask",
        "L · mask is 0 at a masked position, and e^0 = 1 is a weight like any other. Put -∞ there.",
        softmax_of([](double l, double attends) { return l * attends; }, Largest)},
       {"nothing to attend to: uniform",
        "a query that may attend to nothing gets equal weights, for all its logits are equally low. Give it zeros.",
        softmax_of([](double l, double attends) { return attends != 0 ? l : -1e9; }, Largest)},
       {"nothing to attend to: no number",
        "a query that may attend to nothing gets 0/0. Give it zeros where its largest logit is -∞.",
        softmax_of(infinite, Largest)},
       {"e^x overflows",
        "e^L overflows, or all of a row is 0: subtract the row's largest L first, and look for it from -∞ on, not from "
        "0.",
        softmax_of(infinite, [](const std::vector<double>&) { return 0.0; })},
       {"maximum from 0", "all logits of a row may be far below 0: look for the largest from -∞ on, not from 0.", [&] {
          return ForwardWith(core, unmasked, mask, [&](std::vector<double> row, const std::vector<double>& attends) {
            for (size_t m = 0; m < row.size(); ++m) row[m] = infinite(row[m], attends[m]);
            row = PlainSoftmax(row, std::max(0.0, Largest(row)));
            for (double& w : row) w = std::isnan(w) ? 0 : w;  // of 0/0
            return row;
          });
        }}});
}

void Check_5_2(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kSquare, kDistinct}) {
    for (const Case_5_2& c : {Case_5_2{""}, Case_5_2{", masked", MaskKind::kOneEach},
                              Case_5_2{", the last query masked altogether", MaskKind::kBlindQuery},
                              Case_5_2{", logits of thousands", MaskKind::kNone, 1000}}) {
      CheckTalkingHeads(function, checker, s, c);
    }
  }
}

// What a slip of the gradients does; each is one line of the plain loops, changed.
struct GradientSlips {
  bool no_D = false, D_without_W = false, D_of_U = false, no_W = false;
  bool dV_of_W = false, dP_w_of_U = false;
  bool last_alone = false;  // of the sums dV, dK, dP_l and dP_w over n, of dQ over m: = for +=
  bool P_l_not_transposed = false, P_w_not_transposed = false;
  double scale_power = 1;
};

Results TalkingBackward(const Core& in, const Array& dO, const GradientSlips& slips = {}) {
  const auto v = reference::CoreForward(in);
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
  return {dV, Array("dP_w[h, h_v]", dP_w), Array("dP_l[h_k, h]", dP_l), dQ, dK};
}

void Check_5_3(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kSquare, kDistinct}) {
    const Core core = TalkingCore(s);
    const Array dO = DO(core);
    const auto d = reference::CoreBackward<double>(core, reference::CoreForward(core), dO);
    const Results right = {{"dV[b, m, d_v, h_v]", d.V},
                           {"dP_w[h, h_v]", d.P_w},
                           {"dP_l[h_k, h]", d.P_l},
                           {"dQ[b, n, d_k, h_k]", d.Q},
                           {"dK[b, m, d_k, h_k]", d.K}};
    const auto with = [&](const GradientSlips& slips) {
      return [&core, &dO, slips] { return TalkingBackward(core, dO, slips); };
    };
    const auto replaced = [&](size_t i, const Array& wrong) {
      return [right, i, wrong] {
        Results results = right;
        results[i] = wrong;
        return results;
      };
    };
    checker.Expect(
        Describe(s),
        [&] {
          const TalkingGradients g =
              As<Signature_5_3>(function)(Array("Q[b, n, d_k, h_k]", core.Q), Array("K[b, m, d_k, h_k]", core.K),
                                          Array("V[b, m, d_v, h_v]", core.V), Array("P_l[h_k, h]", core.P_l),
                                          Array("P_w[h, h_v]", core.P_w), core.scale, dO);
          return Results{g.dV, g.dP_w, g.dP_l, g.dQ, g.dK};
        },
        right,
        {{"missing D",
          "the softmax's gradient lacks D: dL = W · (dW - D) with D[b, n, h] = Σ_m W · dW, for all weights of a query "
          "sum to 1.",
          with({.no_D = true})},
         {"D without W", "D = Σ_m W · dW: the sum lacks the factor W.", with({.D_without_W = true})},
         {"W missing", "dL = W · (dW - D): the factor W is missing.", with({.no_W = true})},
         {"D of U", "D is made of dU: the softmax is between L and W, so D[b, n, h] = Σ_m W · dW with dW = dU·P_wᵀ.",
          with({.D_of_U = s.h == s.h_v})},
         {"dP_l transposed", "dP_l is transposed: dP_l[k, h] = Σ_bnm J[k] · dL[h] has the shape of P_l.",
          replaced(2, Transposed(right[2]))},
         {"dP_w transposed", "dP_w is transposed: dP_w[h, v] = Σ_bnm W[h] · dU[v] has the shape of P_w.",
          replaced(1, Transposed(right[1]))},
         {"P_l on the way back",
          "on the way back P_l is used as on the way there: dJ[k] = Σ_h dL[h] · P_l[k, h] sums over h.",
          with({.P_l_not_transposed = s.h == s.h_k})},
         {"P_w on the way back",
          "on the way back P_w is used as on the way there: dW[h] = Σ_v dU[v] · P_w[h, v] sums over h_v.",
          with({.P_w_not_transposed = s.h == s.h_v})},
         {"dV of W", "dV is made of W: the values are read with U, O = Σ_m U · V, so dV = Σ_n U · dO.",
          with({.dV_of_W = s.h == s.h_v})},
         {"dP_w of U", "dP_w is made of U: P_w multiplies W, U = W·P_w, so dP_w[h, v] = Σ_bnm W[h] · dU[v].",
          with({.dP_w_of_U = s.h == s.h_v})},
         {"sum overwritten",
          "only the last term is left in the sum. Where several numbers pass a gradient back, add with +=.",
          with({.last_alone = true})},
         {"logits without scale", "the scale is missing on the way there: J = scale · Q·K.",
          [&] {
            Core changed = core;
            changed.scale = 1;
            return TalkingBackward(changed, dO);
          }},
         {"scale missing",
          "this gradient lacks the scale: J = scale · Q·K, so dQ = scale · Σ_m dJ · K and dK = scale · Σ_n dJ · Q.",
          with({.scale_power = 0})},
         {"scale twice", "this gradient has the scale twice. Once is right: dQ = scale · Σ_m dJ · K.",
          with({.scale_power = 2})}});
  }
}

void Check_5_4(AnyFunction function, Checker& checker) {
  struct Sizes {
    int64_t d_X, d_M, d_k, h_k, h;
  };
  for (const Sizes& s : {Sizes{4, 5, 2, 3, 3}, Sizes{6, 4, 2, 3, 5}}) {
    const Array P_q = Random("P_q[d_X, d_k, h_k]", {s.d_X, s.d_k, s.h_k});
    const Array P_k = Random("P_k[d_M, d_k, h_k]", {s.d_M, s.d_k, s.h_k});
    const Array P_l = Random("P_l[h_k, h]", {s.h_k, s.h});
    const auto compose = [&](const Array& mix, const Array& P_q) {
      Array P("P[d_X, d_M, h]", Array({s.d_X, s.d_M, mix.size(1)}));
      for (int64_t x = 0; x < s.d_X; ++x)
        for (int64_t y = 0; y < s.d_M; ++y)
          for (int64_t d = 0; d < s.d_k; ++d)
            for (int64_t k = 0; k < s.h_k; ++k)
              for (int64_t h = 0; h < mix.size(1); ++h) P(x, y, h) += P_q(x, d, k) * P_k(y, d, k) * mix(k, h);
      return Results{P};
    };
    Array one({s.h_k, s.h_k});
    for (int64_t k = 0; k < s.h_k; ++k) one(k, k) = 1;
    Array sums({s.h_k, s.h}, 1);
    checker.Expect(
        crosstalk::StrCat("d_X=", s.d_X, " d_M=", s.d_M, " d_k=", s.d_k, " h_k=", s.h_k, " h=", s.h),
        [&] { return Results{As<Signature_5_4>(function)(P_q, P_k, P_l)}; }, compose(P_l, P_q),
        {{"P_l missing",
          "P_l is missing: P[h] = Σ_k P_l[k, h] · P_q[k]·P_k[k]ᵀ is a sum over all key heads k, not head h alone.",
          [&] { return compose(one, P_q); }},
         {"P_l transposed",
          "P_l is read transposed: the first index of P_l[h_k, h] is the key head, and the sum runs over it.",
          [&] { return compose(Transposed(P_l), P_q); }},
         {"all heads summed", "all heads are summed alike: each key head k enters head h with the weight P_l[k, h].",
          [&] { return compose(sums, P_q); }},
         {"sum overwritten", "only the last d_k and h_k are left in the sum: add to P with +=.", [&] {
            Array last({s.d_X, s.d_k, s.h_k});
            for (int64_t x = 0; x < s.d_X; ++x) last(x, s.d_k - 1, s.h_k - 1) = P_q(x, s.d_k - 1, s.h_k - 1);
            return compose(P_l, last);
          }}});
  }
}

void Check_5_5(AnyFunction function, Checker& checker) {
  // First as many queries as memory positions and as wide, where one may be taken for the other.
  struct Sizes {
    int64_t b, n, m, d_X, d_M, h_k, h;
  };
  for (const Sizes& s : {Sizes{2, 4, 4, 5, 5, 3, 3}, Sizes{2, 4, 7, 5, 6, 2, 3}}) {
    const Array J = Random("J[b, n, m, h_k]", {s.b, s.n, s.m, s.h_k}), P_l = Random("P_l[h_k, h]", {s.h_k, s.h});
    const Array X = Random("X[b, n, d_X]", {s.b, s.n, s.d_X}), M = Random("M[b, m, d_M]", {s.b, s.m, s.d_M});
    const Array P_Xl = Random("P_Xl[d_X, h_k, h]", {s.d_X, s.h_k, s.h}),
                P_Ml = Random("P_Ml[d_M, h_k, h]", {s.d_M, s.h_k, s.h});
    using reference::MixedBy;
    struct Mixing {
      Array R;
      MixedBy by;
    };
    const auto logits = [&](const std::vector<Mixing>& mixings) {
      Array L("L[b, n, m, h]", Array({s.b, s.n, s.m, s.h}));
      for (const Mixing& mixing : mixings) reference::Mix<double>(J, mixing.R, mixing.by, L);
      return Results{L};
    };
    const auto heads_exchanged = [](const Array& P) {  // P[d, h, h_k]
      Array result({P.size(0), P.size(2), P.size(1)});
      for (int64_t d = 0; d < P.size(0); ++d)
        for (int64_t k = 0; k < P.size(1); ++k)
          for (int64_t h = 0; h < P.size(2); ++h) result(d, h, k) = P(d, k, h);
      return result;
    };
    const Mixing fixed = {P_l, MixedBy::kStatic}, of_query = {reference::Project<double>(X, P_Xl), MixedBy::kQuery},
                 of_memory = {reference::Project<double>(M, P_Ml), MixedBy::kMemory};
    std::vector<Slip> slips = {
        {"static projection missing",
         "P_l is missing: the dynamic projections are added to it, P_l + R_Xl[n] + R_Ml[m].",
         [&] {
           return logits({of_query, of_memory});
         }},
        {"R_Ml missing", "R_Ml is missing: each memory position m has a matrix of its own, R_Ml[m] = M[m]·P_Ml.",
         [&] {
           return logits({fixed, of_query});
         }},
        {"R_Xl missing", "R_Xl is missing: each query n has a matrix of its own, R_Xl[n] = X[n]·P_Xl.", [&] {
           return logits({fixed, of_memory});
         }}};
    if (s.n == s.m && s.d_X == s.d_M && s.h_k == s.h) {
      slips.push_back({"R_Ml of the query",
                       "R_Ml is taken at the query's place n: it belongs to the memory position, R_Ml[m].", [&] {
                         return logits({fixed, of_query, {of_memory.R, MixedBy::kQuery}});
                       }});
      slips.push_back(
          {"R_Xl of the memory", "R_Xl is taken at the memory position m: it belongs to the query, R_Xl[n].", [&] {
             return logits({fixed, {of_query.R, MixedBy::kMemory}, of_memory});
           }});
      slips.push_back({"R_Ml made of X", "R_Ml is made of X: it belongs to the memory, R_Ml[m] = M[m]·P_Ml.", [&] {
                         return logits({fixed, of_query, {reference::Project<double>(X, P_Ml), MixedBy::kMemory}});
                       }});
      slips.push_back({"P_l transposed", kTransposedL, [&] {
                         return logits({{Transposed(P_l), MixedBy::kStatic}, of_query, of_memory});
                       }});
      slips.push_back(
          {"all transposed",
           "P_l, R_Xl and R_Ml are read transposed: of their two heads, h_k is the first, the one to sum over.", [&] {
             return logits({{Transposed(P_l), MixedBy::kStatic},
                            {reference::Project<double>(X, heads_exchanged(P_Xl)), MixedBy::kQuery},
                            {reference::Project<double>(M, heads_exchanged(P_Ml)), MixedBy::kMemory}});
           }});
    }
    checker.Expect(
        crosstalk::StrCat("b=", s.b, " n=", s.n, " m=", s.m, " d_X=", s.d_X, " d_M=", s.d_M, " h_k=", s.h_k,
                          " h=", s.h),
        [&] { return Results{As<Signature_5_5>(function)(J, P_l, X, M, P_Xl, P_Ml)}; },
        logits({fixed, of_query, of_memory}), slips);
  }
}

}  // namespace

std::vector<Exercise> Chapter5() {
  return {{"5.1", 1, "the logits projection", Check_5_1},
          {"5.2", 3, "talking heads, forward", Check_5_2},
          {"5.3", 4, "talking heads, backward", Check_5_3},
          {"5.4", 2, "the bilinear form of a head", Check_5_4},
          {"5.5", 2, "dynamic projections of the logits", Check_5_5}};
}

}  // namespace course
