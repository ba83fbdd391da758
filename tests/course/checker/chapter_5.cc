// Chapter 5: heads that talk.
#include <cmath>

#include "tests/course/checker/attention_cases.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

constexpr const char* kTransposedL =
    "P_l is read transposed: P_l[h_k, h] has the key heads in front, and the sum runs "
    "over them, L[h] = Σ_k J[k] · P_l[k, h].";
constexpr const char* kTransposedW =
    "P_w is read transposed: P_w[h, h_v] has the softmax heads in front, and the sum "
    "runs over them, U[v] = Σ_h W[h] · P_w[h, v].";

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
        Describe(s), [&] { return Results{As<Signature_5_1>(function)(J, P_l)}; }, mix(P_l),
        {{"P_l transposed", kTransposedL, [&] { return mix(Transposed(P_l)); }},
         {"heads that do not talk",
          "each head reads itself alone: L[h] is a sum over all key heads k, not J[h] · P_l[h, h].",
          with_J_and([](int64_t k, int64_t h) { return k == h; })},
         {"sum overwritten", "only the last key head is left in the sum: add to L with +=, which begins at 0.",
          with_J_and([&](int64_t k, int64_t) { return k == s.h_k - 1; })}});
  }
}

// J is masked, by a number as low as that, and then mixed.
Results MaskedBeforeP_l(const Core& core, const Array& mask, double low) {
  Core mixing = core;
  const auto values = reference::CoreForward(core);
  Array J = values.J;
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n < J.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t k = 0; k < J.size(3); ++k)
          if (mask(b, n, m) == 0) J(b, n, m, k) = low;
  Array L(values.L.sizes());
  reference::Mix<double>(J, core.P_l, reference::MixedBy::kStatic, L);
  // A row with ∞ or what is no number has no softmax, and one that is low throughout gets zeros or equal weights.
  Array W = reference::MaskedSoftmax<double>(L, {});
  for (int64_t b = 0; b < W.size(0); ++b)
    for (int64_t n = 0; n < W.size(1); ++n)
      for (int64_t h = 0; h < W.size(3); ++h) {
        bool lost = false, nothing = true;
        for (int64_t m = 0; m < W.size(2); ++m) {
          lost = lost || !(L(b, n, m, h) < std::numeric_limits<double>::infinity());
          nothing = nothing && L(b, n, m, h) == -std::numeric_limits<double>::infinity();
        }
        for (int64_t m = 0; m < W.size(2) && (lost || nothing); ++m) W(b, n, m, h) = lost ? std::nan("") : 0;
      }
  Array U(values.U.sizes());
  reference::Mix<double>(W, core.P_w, reference::MixedBy::kStatic, U);
  Array O("O[b, n, d_v, h_v]", Array(values.O.sizes()));
  for (int64_t b = 0; b < O.size(0); ++b)
    for (int64_t n = 0; n < O.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t d = 0; d < O.size(2); ++d)
          for (int64_t v = 0; v < O.size(3); ++v) O(b, n, d, v) += U(b, n, m, v) * core.V(b, m, d, v);
  return {O};
}

void Check_5_2(AnyFunction function, Checker& checker) {
  constexpr const char* kMaskFirst =
      "the mask stands before P_l: there -∞ of a masked position is spread over all heads, with the signs of P_l. "
      "Mask L, after P_l.";
  for (const CoreSizes& s : {kSquare, kDistinct}) {
    for (const MaskKind kind : {MaskKind::kNone, MaskKind::kOneEach, MaskKind::kBlindQuery}) {
      Core core = TalkingCore(s);
      const Array mask = MakeMask(s, kind);
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
      checker.Expect(
          Describe(s) + (kind == MaskKind::kNone      ? ""
                         : kind == MaskKind::kOneEach ? ", masked"
                                                      : ", the last query masked altogether"),
          [&] { return Results{As<Signature_5_2>(function)(Q, K, V, P_l, P_w, mask, core.scale)}; }, Forward(core),
          {{"P_l transposed", kTransposedL, with([&](Core& c) { c.P_l = Transposed(P_l); })},
           {"P_w transposed", kTransposedW, with([&](Core& c) { c.P_w = Transposed(P_w); })},
           {"scale twice", "the scale is applied twice: it belongs to J alone, once.",
            with([](Core& c) { c.scale *= c.scale; })},
           {"scale missing", "the scale is missing: J = scale · Q·K.", with([](Core& c) { c.scale = 1; })},
           {"P_w missing", "the weights are not mixed: U[v] = Σ_h W[h] · P_w[h, v], and U weighs the values, not W.",
            with([&](Core& c) {
              if (s.h == s.h_v) c.P_w = {};
            })},
           {"P_l missing", "the logits are not mixed: L[h] = Σ_k J[k] · P_l[k, h], and the softmax reads L.",
            with([&](Core& c) {
              if (s.h == s.h_k) c.P_l = {};
            })},
           {"P_w before the softmax",
            "P_w stands before the softmax: there it is one more matrix beside P_l. It mixes W, what the softmax gave.",
            with([&](Core& c) {
              if (s.h != s.h_v) return;
              Array both({s.h_k, s.h_v});
              for (int64_t k = 0; k < s.h_k; ++k)
                for (int64_t h = 0; h < s.h; ++h)
                  for (int64_t v = 0; v < s.h_v; ++v) both(k, v) += P_l(k, h) * P_w(h, v);
              c.P_l = both, c.P_w = {};
            })},
           {"mask before P_l", kMaskFirst, [&] { return MaskedBeforeP_l(core, mask, -1e9); }},
           {"-∞ before P_l", kMaskFirst,
            [&] { return MaskedBeforeP_l(core, mask, -std::numeric_limits<double>::infinity()); }},
           {"mask forgotten", "the mask is not used: where mask is 0, W is 0.", with([](Core& c) { c.mask = {}; })}});
    }
  }
}

// What a slip of the gradients does; each is one line of the plain loops, changed.
struct GradientSlips {
  bool no_D = false, D_of_U = false;
  bool P_l_not_transposed = false, P_w_not_transposed = false;
  double scale_power = 1;
};

Results TalkingBackward(const Core& in, const Array& dO, const GradientSlips& slips = {}) {
  const auto v = reference::CoreForward(in);
  const int64_t B = in.Q.size(0), N = in.Q.size(1), S = in.K.size(1);
  Array dU(v.U.sizes()), dV("dV[b, m, d_v, h_v]", Array(in.V.sizes()));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t e = 0; e < in.V.size(2); ++e)
          for (int64_t k = 0; k < dU.size(3); ++k) {
            dU(b, n, m, k) += dO(b, n, e, k) * in.V(b, m, e, k);
            dV(b, m, e, k) += v.U(b, n, m, k) * dO(b, n, e, k);
          }
  Array dW(v.W.sizes());
  reference::Array<double> dP_w, dP_l, ignored;
  reference::MixBackward<double>(v.W, in.P_w, reference::MixedBy::kStatic, dU, dW, dP_w);
  if (slips.P_w_not_transposed) {
    dW = Array(v.W.sizes());
    reference::Mix<double>(dU, in.P_w, reference::MixedBy::kStatic, dW);
  }
  Array dL(v.L.sizes());
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t h = 0; h < dL.size(3); ++h) {
        double D = 0;
        for (int64_t m = 0; m < S; ++m) D += v.W(b, n, m, h) * (slips.D_of_U ? dU(b, n, m, h) : dW(b, n, m, h));
        for (int64_t m = 0; m < S; ++m) dL(b, n, m, h) = v.W(b, n, m, h) * (dW(b, n, m, h) - (slips.no_D ? 0 : D));
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
            dQ(b, n, e, k) += scale * dJ(b, n, m, k) * in.K(b, m, e, k);
            dK(b, m, e, k) += scale * dJ(b, n, m, k) * in.Q(b, n, e, k);
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
         {"scale missing", "dQ and dK lack the scale: J = scale · Q·K, so dQ = scale · Σ_m dJ · K.",
          with({.scale_power = 0})},
         {"scale twice", "dQ and dK have the scale twice: once with J is enough.", with({.scale_power = 2})}});
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
    const auto compose = [&](const Array& mix) {
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
        [&] { return Results{As<Signature_5_4>(function)(P_q, P_k, P_l)}; }, compose(P_l),
        {{"P_l missing",
          "without P_l each head has rank d_k alone: P[h] = Σ_k P_l[k, h] · P_q[k]·P_k[k]ᵀ is a sum over key heads.",
          [&] { return compose(one); }},
         {"P_l transposed", kTransposedL, [&] { return compose(Transposed(P_l)); }},
         {"all heads summed", "all heads are summed alike: each key head k enters head h with the weight P_l[k, h].",
          [&] { return compose(sums); }}});
  }
}

void Check_5_5(AnyFunction function, Checker& checker) {
  constexpr int64_t d = 3;
  for (const CoreSizes& s : {CoreSizes{2, 4, 4, 2, 2, 3, 3, 3}, kDistinct}) {
    const Core core = TalkingCore(s);
    const Array J = Logits(core), P_l("P_l[h_k, h]", core.P_l);
    const Array X = Random("X[b, n, d_X]", {s.b, s.n, d}), M = Random("M[b, m, d_M]", {s.b, s.m, d});
    const Array P_Xl = Random("P_Xl[d_X, h_k, h]", {d, s.h_k, s.h}),
                P_Ml = Random("P_Ml[d_M, h_k, h]", {d, s.h_k, s.h});
    const Array R_Xl = reference::Project<double>(X, P_Xl), R_Ml = reference::Project<double>(M, P_Ml);
    const auto logits = [&](bool fixed, bool of_query, bool of_memory, reference::MixedBy memory) {
      Array L("L[b, n, m, h]", Array({s.b, s.n, s.m, s.h}));
      if (fixed) reference::Mix<double>(J, P_l, reference::MixedBy::kStatic, L);
      if (of_query) reference::Mix<double>(J, R_Xl, reference::MixedBy::kQuery, L);
      if (of_memory && (memory == reference::MixedBy::kMemory || s.n <= s.m)) {
        reference::Mix<double>(J, R_Ml, memory, L);
      }
      return Results{L};
    };
    using reference::MixedBy;
    checker.Expect(
        Describe(s) + " d_X=3 d_M=3", [&] { return Results{As<Signature_5_5>(function)(J, P_l, X, M, P_Xl, P_Ml)}; },
        logits(true, true, true, MixedBy::kMemory),
        {{"static projection missing",
          "P_l is missing: the dynamic projections are added to it, P_l + R_Xl[n] + R_Ml[m].",
          [&] { return logits(false, true, true, MixedBy::kMemory); }},
         {"R_Ml missing", "R_Ml is missing: each memory position m has a matrix of its own, R_Ml[m] = M[m]·P_Ml.",
          [&] { return logits(true, true, false, MixedBy::kMemory); }},
         {"R_Xl missing", "R_Xl is missing: each query n has a matrix of its own, R_Xl[n] = X[n]·P_Xl.",
          [&] { return logits(true, false, true, MixedBy::kMemory); }},
         {"R_Ml of the query", "R_Ml is taken at the query's place n: it belongs to the memory position, R_Ml[m].",
          [&] { return logits(true, true, true, MixedBy::kQuery); }}});
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
