// Chapter 8: decoding with a cache.
#include <cmath>

#include "examples/course/checker/attention_cases.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

void Check_8_1(AnyFunction function, Checker& checker) {
  constexpr int64_t steps = 5, h = 2, d_k = 3, d_v = 2;
  const CoreSizes sizes = {1, steps, steps, d_k, d_v, h, h, h};
  Core core = MultiHeadCore(sizes);
  // Row i of [1, n, d, h], head after head.
  const auto row = [](const Array::Base& array, int64_t i) {
    std::vector<double> values;
    for (int64_t k = 0; k < array.size(3); ++k)
      for (int64_t d = 0; d < array.size(2); ++d) values.push_back(array(int64_t{0}, i, d, k));
    return values;
  };
  const auto results = [&](auto attends, double scale) {
    Core changed = core;
    changed.scale = scale;
    changed.mask = reference::Array<uint8_t>({1, steps, steps});
    for (int64_t n = 0; n < steps; ++n)
      for (int64_t m = 0; m < steps; ++m) changed.mask(int64_t{0}, n, m) = attends(n, m);
    const auto O = reference::CoreForward(changed).O;
    Array array("O[step, h, d_v]", Array({steps, h, d_v}));
    for (int64_t n = 0; n < steps; ++n)
      for (int64_t k = 0; k < h; ++k)
        for (int64_t d = 0; d < d_v; ++d) array(n, k, d) = O(int64_t{0}, n, d, k);
    return Results{array};
  };
  const auto causal = [](int64_t n, int64_t m) { return m <= n; };
  const auto interleaved = [&] {
    // Element i of head after head is read as element i / h of head i % h.
    const auto reread = [&](const Array::Base& array) {
      Array::Base result(array.sizes());
      for (int64_t n = 0; n < steps; ++n)
        for (int64_t i = 0; i < h * array.size(2); ++i) {
          result(int64_t{0}, n, i / h, i % h) = array(int64_t{0}, n, i % array.size(2), i / array.size(2));
        }
      return result;
    };
    const Core in_order = core;
    core.Q = reread(in_order.Q), core.K = reread(in_order.K), core.V = reread(in_order.V);
    const Array O = results(causal, core.scale)[0];
    core = in_order;
    Array wrong("O[step, h, d_v]", Array({steps, h, d_v}));
    for (int64_t n = 0; n < steps; ++n)
      for (int64_t i = 0; i < h * d_v; ++i) wrong.values()[static_cast<size_t>(n * h * d_v + i)] = O(n, i % h, i / h);
    return Results{wrong};
  };
  checker.Expect(
      crosstalk::StrCat("h=", h, " d_k=", d_k, " d_v=", d_v),
      [&] {
        Cache cache;
        Array array({steps, h, d_v});
        for (int64_t n = 0; n < steps; ++n) {
          const std::vector<double> o =
              As<Signature_8_1>(function)(row(core.Q, n), row(core.K, n), row(core.V, n), h, cache);
          if (o.size() != static_cast<size_t>(h * d_v)) {
            throw NoResult(crosstalk::StrCat("a step gives ", o.size(), " numbers, should give h·d_v = ", h * d_v));
          }
          for (int64_t i = 0; i < h * d_v; ++i) array.values()[static_cast<size_t>(n * h * d_v + i)] = o[i];
        }
        return Results{array};
      },
      results(causal, core.scale),
      {{"scale missing", "the scale is missing: 1/√d_k, with d_k = the length of a key over the heads.",
        [&] { return results(causal, 1); }},
       {"scale of all heads", "the scale is 1/√d_k, and d_k is the length of a key in one head: not of all of k.",
        [&] { return results(causal, core.scale / std::sqrt(static_cast<double>(h))); }},
       {"heads interleaved", "q, k and v hold head after head: head h of q begins at q[h · d_k].", interleaved},
       {"token itself missing", "the token attends to itself as well: put its key and value into the cache first.",
        [&] { return results([](int64_t n, int64_t m) { return m < n; }, core.scale); }},
       {"nothing kept", "each step sees its own token alone: keys and values of the earlier ones are in the cache.",
        [&] { return results([](int64_t n, int64_t m) { return m == n; }, core.scale); }}});
}

void Check_8_2(AnyFunction function, Checker& checker) {
  for (const bool dynamic : {false, true}) {
    const LayerSizes s = {.n = 1, .m = 100, .h_k = 4, .h = 6, .h_v = 8, .d_k = 16, .d_v = 12};
    const auto number = [](int64_t count) { return Results{Array("numbers", Array({1}, static_cast<double>(count)))}; };
    const int64_t keys = s.h_k * s.d_k, values = s.h_v * s.d_v, mixings = s.h_k * s.h + s.h * s.h_v;
    checker.Expect(
        crosstalk::StrCat("h_k=4 h=6 h_v=8 d_k=16 d_v=12", dynamic ? ", dynamic" : ", static"),
        [&] { return number(As<Signature_8_2>(function)(s, dynamic)); },
        number(keys + values + (dynamic ? mixings : 0)),
        {{"static projections counted", "P_l and P_w are parameters: the same at every position, they are not kept.",
          [&] { return number(keys + values + mixings); }},
         {"mixings missing", "R_Ml[h_k, h] and R_Mw[h, h_v] belong to a position, as its key and value do.",
          [&] { return number(keys + values); }},
         {"values missing", "values are kept beside the keys: h_v·d_v.",
          [&] { return number(keys + (dynamic ? mixings : 0)); }},
         {"times m", "the question is about one position.",
          [&] { return number(s.m * (keys + values + (dynamic ? mixings : 0))); }}});
  }
}

void Check_8_3(AnyFunction function, Checker& checker) {
  constexpr int64_t steps = 4, d = 3, d_k = 2, h_k = 2, h = 2;
  const Array X = Random("X[n, d_X]", {steps, d});
  const Array P_q = Random("P_q[d_X, d_k, h_k]", {d, d_k, h_k}), P_k = Random("P_k[d_M, d_k, h_k]", {d, d_k, h_k});
  const Array P_l = Random("P_l[h_k, h]", {h_k, h}), P_Ml = Random("P_Ml[d_M, h_k, h]", {d, h_k, h});
  const double scale = 1 / std::sqrt(static_cast<double>(d_k));
  // L[n, m, h] of all steps; R_Ml of the position that `of` says.
  const auto logits = [&](auto of, bool fixed, double factor, bool transposed = false) {
    Array L("L[step, m, h]", Array({steps, steps, h}));
    for (int64_t n = 0; n < steps; ++n)
      for (int64_t m = 0; m <= n; ++m)
        for (int64_t k = 0; k < h_k; ++k) {
          double J = 0;
          for (int64_t e = 0; e < d_k; ++e) {
            double q = 0, key = 0;
            for (int64_t x = 0; x < d; ++x) q += X(n, x) * P_q(x, e, k), key += X(m, x) * P_k(x, e, k);
            J += factor * q * key;
          }
          for (int64_t i = 0; i < h; ++i) {
            double R = !fixed ? 0 : transposed ? P_l(i, k) : P_l(k, i);
            for (int64_t x = 0; x < d && of(n, m) >= 0; ++x) R += X(of(n, m), x) * P_Ml(x, k, i);
            L(n, m, i) += J * R;
          }
        }
    return Results{L};
  };
  const auto position = [](int64_t, int64_t m) { return m; };
  checker.Expect(
      "d_X=3 d_k=2 h_k=2 h=2",
      [&] {
        MixingCache cache;
        Array L({steps, steps, h});
        for (int64_t n = 0; n < steps; ++n) {
          Array x("x[d_X]", Array({d}));
          for (int64_t i = 0; i < d; ++i) x(i) = X(n, i);
          const Array row = As<Signature_8_3>(function)(x, P_q, P_k, P_l, P_Ml, cache);
          if (row.sizes() != std::vector<int64_t>{n + 1, h}) {
            throw NoResult(crosstalk::StrCat("step ", n, " gives L of the sizes ", ListOf(row.sizes()), ", should be ",
                                             ListOf({n + 1, h}), ": m and h"));
          }
          for (int64_t m = 0; m <= n; ++m)
            for (int64_t i = 0; i < h; ++i) L(n, m, i) = row(m, i);
        }
        return Results{L};
      },
      logits(position, true, scale),
      {{"R_Ml of the current token",
        "R_Ml of the token that is written is used for all positions: that is the defect of the published code. Each "
        "position keeps its own, R_Ml[m], in the cache.",
        [&] { return logits([](int64_t n, int64_t) { return n; }, true, scale); }},
       {"R_Ml missing", "R_Ml[m] is missing: L[m] = J[m]·(P_l + R_Ml[m]).",
        [&] { return logits([](int64_t, int64_t) { return -1; }, true, scale); }},
       {"static projection missing", "P_l is missing: L[m] = J[m]·(P_l + R_Ml[m]).",
        [&] { return logits(position, false, scale); }},
       {"P_l transposed",
        "P_l is read transposed: the first index of P_l[h_k, h] is the key head, and the sum runs over it.",
        [&] { return logits(position, true, scale, /*transposed=*/true); }},
       {"scale missing", "the scale is missing: 1/√d_k.", [&] { return logits(position, true, 1); }}});
}

}  // namespace

std::vector<Exercise> Chapter8() {
  return {{"8.1", 2, "a step with a cache", Check_8_1},
          {"8.2", 1, "what a position takes", Check_8_2},
          {"8.3", 3, "a cache of dynamic projections", Check_8_3}};
}

}  // namespace course
