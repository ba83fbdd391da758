// Chapter 5: heads that talk.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "examples/course/checker/attention_cases.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

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

struct Case_5_2 {
  std::string name;
  MaskKind mask = MaskKind::kNone;
  double scale = 1;  // of all logits; where it is large, keys of different positions are as much alike
};

void CheckTalkingHeads(AnyFunction function, Checker& checker, const CoreSizes& s, const Case_5_2& c) {
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
  SetMask(mask, core);
  const Array Q("Q[b, n, d_k, h_k]", core.Q), K("K[b, m, d_k, h_k]", core.K), V("V[b, m, d_v, h_v]", core.V);
  const Array P_l("P_l[h_k, h]", core.P_l), P_w("P_w[h, h_v]", core.P_w);
  std::vector<Change<ForwardCase>> changes = MixingSlips(core);
  changes.push_back({"P_w before the softmax",
                     "P_w stands before the softmax: there it is one more matrix beside P_l. It mixes W, what the "
                     "softmax gave.",
                     [](ForwardCase& c) {
                       if (!c.core.P_w.present() || !c.core.P_l.present() || c.core.P_w.size(0) != c.core.P_w.size(1)) {
                         return;
                       }
                       Array both({c.core.P_l.size(0), c.core.P_w.size(1)});
                       for (int64_t k = 0; k < both.size(0); ++k)
                         for (int64_t h = 0; h < c.core.P_l.size(1); ++h)
                           for (int64_t v = 0; v < both.size(1); ++v) {
                             both(k, v) += c.core.P_l(k, h) * c.core.P_w(h, v);
                           }
                       c.core.P_l = both, c.core.P_w = {};
                     }});
  for (const auto& more : {MaskSlips(), AxisSlips(), MaximumSlips()})
    changes.insert(changes.end(), more.begin(), more.end());
  checker.Expect(
      Describe(s) + c.name, [&] { return Results{As<Signature_5_2>(function)(Q, K, V, P_l, P_w, mask, core.scale)}; },
      Forward(core),
      SlipsOf<ForwardCase>({core}, changes, [](const ForwardCase& changed) { return Results{ForwardOf(changed)}; }));
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
        SlipsOf<BackwardCase>({core}, BackwardSlips(core), [&](const BackwardCase& c) { return BackwardOf(c, dO); }));
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
