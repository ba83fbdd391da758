// Chapter 3: attention in loops, then in einsum, with its gradients by hand.
#include <cmath>

#include "examples/course/checker/attention_cases.h"
#include "examples/course/checker/library_exercise.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

// Queries and memory positions of one number, where one may be taken for the other; then all dimensions distinct.
constexpr CoreSizes kEqual3 = {2, 3, 3, 4, 5, 2, 2, 2}, kDistinct3 = {2, 4, 7, 5, 6, 3, 3, 3};

// With the widths that an exercise has: " d_k=4".
std::string Sizes3(const CoreSizes& s, const std::string& widths) {
  return crosstalk::StrCat("b=", s.b, " n=", s.n, " m=", s.m, widths, " h=", s.h);
}
std::string KeyWidth(const CoreSizes& s) { return crosstalk::StrCat(" d_k=", s.d_k); }
std::string ValueWidth(const CoreSizes& s) { return crosstalk::StrCat(" d_v=", s.d_v); }

void Check_3_1(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kEqual3, kDistinct3}) {
    const Core core = MultiHeadCore(s);
    const Array Q("Q[b, n, d_k, h]", core.Q), K("K[b, m, d_k, h]", core.K);
    const auto with_scale = [&](double scale) {
      return [&core, scale] {
        Core changed = core;
        changed.scale = scale;
        return Results{Array("J[b, n, m, h]", reference::CoreForward(changed).J)};
      };
    };
    const auto last_only = [&] {
      Core changed = core;
      for (int64_t b = 0; b < s.b; ++b)
        for (int64_t n = 0; n < s.n; ++n)
          for (int64_t d = 0; d + 1 < s.d_k; ++d)
            for (int64_t h = 0; h < s.h; ++h) changed.Q(b, n, d, h) = 0;
      return Results{Array("J[b, n, m, h]", reference::CoreForward(changed).J)};
    };
    const auto swapped = [&] {
      Core changed = core;
      std::swap(changed.Q, changed.K);
      return Results{Array("J[b, n, m, h]", reference::CoreForward(changed).J)};
    };
    checker.Expect(Sizes3(s, KeyWidth(s)), [&] { return Results{As<Signature_3_1>(function)(Q, K, core.scale)}; },
                   with_scale(core.scale)(),
                   {{"scale missing", "the scale is missing: J = scale · Σ_d Q · K.", with_scale(1)},
                    {"scale twice", ScaledBy(core.scale * core.scale, core.scale), with_scale(core.scale * core.scale)},
                    {"sum overwritten", "only the last d is left in the sum: add with +=.", last_only},
                    {"Q and K swapped", "Q and K are swapped: J[n, m] is the query at n with the key at m.", swapped}});
  }
}

enum class Softmax3 { kRight, kOverQueries, kOverHeads, kNotNormalised, kNone };

Array SoftmaxOf(const Array& J, Softmax3 kind) {
  Array W = J;
  const auto exponential = [&](int64_t b, int64_t n, int64_t m, int64_t h) { return std::exp(J(b, n, m, h)); };
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n < J.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t h = 0; h < J.size(3); ++h) {
          double sum = 0;
          if (kind == Softmax3::kRight)
            for (int64_t i = 0; i < J.size(2); ++i) sum += exponential(b, n, i, h);
          if (kind == Softmax3::kOverQueries)
            for (int64_t i = 0; i < J.size(1); ++i) sum += exponential(b, i, m, h);
          if (kind == Softmax3::kOverHeads)
            for (int64_t i = 0; i < J.size(3); ++i) sum += exponential(b, n, m, i);
          if (kind == Softmax3::kNotNormalised) sum = 1;
          W(b, n, m, h) = kind == Softmax3::kNone ? J(b, n, m, h) : exponential(b, n, m, h) / sum;
        }
  return W;
}

Results Attend(const Array& J, const Array& V, Softmax3 kind) {
  const Array W = SoftmaxOf(J, kind);
  Array O("O[b, n, d_v, h]", Array({J.size(0), J.size(1), V.size(2), J.size(3)}));
  for (int64_t b = 0; b < J.size(0); ++b)
    for (int64_t n = 0; n < J.size(1); ++n)
      for (int64_t m = 0; m < J.size(2); ++m)
        for (int64_t d = 0; d < V.size(2); ++d)
          for (int64_t h = 0; h < J.size(3); ++h) O(b, n, d, h) += W(b, n, m, h) * V(b, m, d, h);
  return {O};
}

void Check_3_2(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kEqual3, kDistinct3}) {
    const Core core = MultiHeadCore(s);
    const Array J("J[b, n, m, h]", Logits(core)), V("V[b, m, d_v, h]", core.V);
    const auto wrong = [&](Softmax3 kind) { return [&, kind] { return Attend(J, V, kind); }; };
    const auto last_only = [&] {
      Array last = V;
      for (int64_t b = 0; b < s.b; ++b)
        for (int64_t m = 0; m + 1 < s.m; ++m)
          for (int64_t d = 0; d < s.d_v; ++d)
            for (int64_t h = 0; h < s.h; ++h) last(b, m, d, h) = 0;
      return Attend(J, last, Softmax3::kRight);
    };
    checker.Expect(
        Sizes3(s, ValueWidth(s)), [&] { return Results{As<Signature_3_2>(function)(J, V)}; },
        {Array("O[b, n, d_v, h]", reference::CoreForward(core).O)},
        {{"softmax over queries",
          "your weights sum to 1 over the queries n. They must sum to 1 over the memory positions m.",
          wrong(Softmax3::kOverQueries)},
         {"softmax over heads",
          "your weights sum to 1 over the heads h. They must sum to 1 over the memory positions m.",
          wrong(Softmax3::kOverHeads)},
         {"not normalised", "the weights are not divided by their sum over m.", wrong(Softmax3::kNotNormalised)},
         {"no softmax", "the logits weigh the values themselves: W = softmax(J) over m is missing.",
          wrong(Softmax3::kNone)},
         {"sum overwritten", "only the last m is left in the sum: add to O with +=.", last_only}});
  }
}

void Check_3_3(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kEqual3, kDistinct3}) {
    const Core core = MultiHeadCore(s);
    const auto values = reference::CoreForward(core);
    const Array W("W[b, n, m, h]", values.W), V("V[b, m, d_v, h]", core.V);
    const Array dO = Random("dO[b, n, d_v, h]", values.O.sizes());
    // kept: whether a term of the sums counts.
    const auto gradients = [&](auto kept_W, auto kept_V) {
      Array dW("dW[b, n, m, h]", Array(W.sizes())), dV("dV[b, m, d_v, h]", Array(V.sizes()));
      for (int64_t b = 0; b < s.b; ++b)
        for (int64_t n = 0; n < s.n; ++n)
          for (int64_t m = 0; m < s.m; ++m)
            for (int64_t d = 0; d < s.d_v; ++d)
              for (int64_t h = 0; h < s.h; ++h) {
                if (kept_W(d)) dW(b, n, m, h) += dO(b, n, d, h) * V(b, m, d, h);
                if (kept_V(n)) dV(b, m, d, h) += W(b, n, m, h) * dO(b, n, d, h);
              }
      return Results{dW, dV};
    };
    const auto all = [](int64_t) { return true; };
    const Results right = gradients(all, all);
    checker.Expect(
        Sizes3(s, ValueWidth(s)),
        [&] {
          const WeightedSumGradients g = As<Signature_3_3>(function)(W, V, dO);
          return Results{g.dW, g.dV};
        },
        right,
        {{"dW overwritten", "dW keeps only the last d_v: the sum runs over all of them, dW = Σ_d dO · V.",
          [&] { return gradients([&](int64_t d) { return d == s.d_v - 1; }, all); }},
         {"dV overwritten", "dV keeps only the last query: each value was read by all queries, dV = Σ_n W · dO.",
          [&] { return gradients(all, [&](int64_t n) { return n == s.n - 1; }); }},
         {"W transposed in dV", "dV reads W[m, n] for W[n, m].", [&] {
            Results wrong = right;
            Array& dV = wrong[1];
            dV = Array(V.bracket(), Array(V.sizes()));
            for (int64_t b = 0; b < s.b; ++b)
              for (int64_t n = 0; n < s.n; ++n)
                for (int64_t m = 0; m < s.m; ++m)
                  for (int64_t d = 0; d < s.d_v; ++d)
                    for (int64_t h = 0; h < s.h; ++h) dV(b, m, d, h) += W(b, m, n, h) * dO(b, n, d, h);
            return wrong;
          }}});
  }
}

// The inputs, and what a slip of the gradients does; each is one line of the plain loops, changed.
struct Case_3_4 {
  Core core;
  Softmax3 softmax = Softmax3::kRight;
  bool no_D = false, D_without_W = false, no_W = false, D_added = false, D_outside = false, diagonal = false;
  bool last_alone = false;        // of each sum: = for +=
  bool inputs_exchanged = false;  // dQ is made of Q, dK of K
  bool no_scale_in_J = false;
  double scale_power = 1;
};

Results MultiHeadBackward(const Case_3_4& c, const Array& dO) {
  const Core& in = c.core;
  Core forward = in;
  if (c.no_scale_in_J) forward.scale = 1;
  const Array J("J[b, n, m, h]", Logits(forward));
  const Array W = SoftmaxOf(J, c.softmax);
  const int64_t B = in.Q.size(0), N = in.Q.size(1), S = in.K.size(1), H = in.Q.size(3);
  const auto counts = [&](int64_t i, int64_t size) { return !c.last_alone || i == size - 1; };
  Array dW(W.sizes()), dV("dV[b, m, d_v, h]", Array(in.V.sizes()));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t d = 0; d < in.V.size(2); ++d)
          for (int64_t h = 0; h < H; ++h) {
            dW(b, n, m, h) += dO(b, n, d, h) * in.V(b, m, d, h);
            if (counts(n, N)) dV(b, m, d, h) += W(b, n, m, h) * dO(b, n, d, h);
          }
  const double scale = std::pow(in.scale, c.scale_power);
  Array dQ("dQ[b, n, d_k, h]", Array(in.Q.sizes())), dK("dK[b, m, d_k, h]", Array(in.K.sizes()));
  const auto& for_dQ = c.inputs_exchanged ? in.Q : in.K;
  const auto& for_dK = c.inputs_exchanged ? in.K : in.Q;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t n = 0; n < N; ++n)
      for (int64_t m = 0; m < S; ++m)
        for (int64_t h = 0; h < H; ++h) {
          double D = 0;
          for (int64_t i = 0; i < S && !c.no_D; ++i) D += (c.D_without_W ? 1 : W(b, n, i, h)) * dW(b, n, i, h);
          if (c.D_added) D = -D;
          const double w = W(b, n, m, h), factor = c.no_W ? 1 : w;
          const double dJ = c.diagonal    ? factor * (1 - w) * dW(b, n, m, h)
                            : c.D_outside ? factor * dW(b, n, m, h) - D
                                          : factor * (dW(b, n, m, h) - D);
          for (int64_t d = 0; d < in.Q.size(2); ++d) {
            if (counts(m, S)) dQ(b, n, d, h) += scale * dJ * for_dQ(b, c.inputs_exchanged ? n : m, d, h);
            if (counts(n, N)) dK(b, m, d, h) += scale * dJ * for_dK(b, c.inputs_exchanged ? m : n, d, h);
          }
        }
  return {dV, dQ, dK};
}

void Check_3_4(AnyFunction function, Checker& checker) {
  for (const CoreSizes& s : {kEqual3, kDistinct3}) {
    const Core core = MultiHeadCore(s);
    const auto values = reference::CoreForward(core);
    const Array dO = Random("dO[b, n, d_v, h]", values.O.sizes());
    const auto d = reference::CoreBackward<double>(core, values, dO);
    using Case = Case_3_4;
    const std::vector<Change<Case>> changes = {
        {"missing D", "the softmax's gradient lacks D: dJ = W · (dW - D) with D[b, n, h] = Σ_m W · dW.",
         [](Case& c) { c.no_D = true; }},
        {"D without W", "D = Σ_m W · dW: the sum lacks the factor W.", [](Case& c) { c.D_without_W = true; }},
        {"D added", "D is subtracted: dJ = W · (dW - D).", [](Case& c) { c.D_added = true; }},
        {"D outside", "W multiplies D as well: dJ = W · (dW - D), not W · dW - D.",
         [](Case& c) { c.D_outside = true; }},
        {"diagonal alone",
         "W · (1 - W) · dW is the diagonal alone: a logit changes all weights of its query. dJ = W · (dW - D).",
         [](Case& c) { c.diagonal = true; }},
        {"W missing", "dJ = W · (dW - D): the factor W is missing.", [](Case& c) { c.no_W = true; }},
        {"sum overwritten", "only the last term is left in the sum, over n in dV and dK, over m in dQ: add with +=.",
         [](Case& c) { c.last_alone = true; }},
        {"inputs exchanged", "dQ is made of Q, and dK of K: dQ = scale · Σ_m dJ · K, dK = scale · Σ_n dJ · Q.",
         [](Case& c) { c.inputs_exchanged = true; }},
        {"softmax over queries", "the weights sum to 1 over the queries n: they should over the memory positions m.",
         [](Case& c) { c.softmax = Softmax3::kOverQueries; }},
        {"softmax over heads", "the weights sum to 1 over the heads h: they should over the memory positions m.",
         [](Case& c) { c.softmax = Softmax3::kOverHeads; }},
        {"not normalised", "the weights are not divided by their sum over m: W = e^J / Σ_m e^J.",
         [](Case& c) { c.softmax = Softmax3::kNotNormalised; }},
        {"logits without scale", "the scale is missing on the way there: J = scale · Σ_d Q · K.",
         [](Case& c) { c.no_scale_in_J = true; }},
        {"scale missing",
         "this gradient lacks the scale, which J has: dQ = scale · Σ_m dJ · K, dK = scale · Σ_n dJ · Q.",
         [](Case& c) { c.scale_power = 0; }},
        {"scale twice", GradientScaledBy(core.scale), [](Case& c) { c.scale_power = 2; }}};
    checker.Expect(
        Sizes3(s, KeyWidth(s) + ValueWidth(s)),
        [&] {
          const AttentionGradients g =
              As<Signature_3_4>(function)(Array("Q[b, n, d_k, h]", core.Q), Array("K[b, m, d_k, h]", core.K),
                                          Array("V[b, m, d_v, h]", core.V), core.scale, dO);
          return Results{g.dV, g.dQ, g.dK};
        },
        {{"dV[b, m, d_v, h]", d.V}, {"dQ[b, n, d_k, h]", d.Q}, {"dK[b, m, d_k, h]", d.K}},
        SlipsOf<Case>({core}, changes, [&](const Case& c) { return MultiHeadBackward(c, dO); }));
  }
}

void Check_3_5(AnyFunction function, Checker& checker) {
  using crosstalk::DType;
  using crosstalk::Shape;
  struct Sizes {
    int64_t b, n, m, d_X, d_M, d_Y, d_k, d_v, h;
  };
  for (const Sizes& s : {Sizes{2, 3, 3, 4, 4, 6, 5, 5, 2}, Sizes{2, 3, 4, 5, 6, 7, 2, 3, 4}}) {
    reference::AttentionInputs<double> in;
    in.X = Random("X[b, n, d_X]", {s.b, s.n, s.d_X});
    in.M = Random("M[b, m, d_M]", {s.b, s.m, s.d_M});
    in.P_q = Random("P_q[d_X, d_k, h]", {s.d_X, s.d_k, s.h});
    in.P_k = Random("P_k[d_M, d_k, h]", {s.d_M, s.d_k, s.h});
    in.P_v = Random("P_v[d_M, d_v, h]", {s.d_M, s.d_v, s.h});
    in.P_o = Random("P_o[d_Y, d_v, h]", {s.d_Y, s.d_v, s.h});
    in.scale = 1 / std::sqrt(static_cast<double>(s.d_k));
    const Array dY = Random("dY[b, n, d_Y]", {s.b, s.n, s.d_Y});
    const auto results = [&](const reference::AttentionInputs<double>& inputs) {
      const auto values = reference::AttentionForward(inputs);
      const auto d = reference::AttentionBackward<double>(inputs, values, dY);
      return Results{{"Y[b, n, d_Y]", values.Y},   {"dX[b, n, d_X]", d.X},       {"dM[b, m, d_M]", d.M},
                     {"dP_q[d_X, d_k, h]", d.P_q}, {"dP_k[d_M, d_k, h]", d.P_k}, {"dP_v[d_M, d_v, h]", d.P_v},
                     {"dP_o[d_Y, d_v, h]", d.P_o}};
    };
    const auto student = [&] {
      std::vector<Variable> leaves;
      for (const auto* array : {&in.X, &in.M, &in.P_q, &in.P_k, &in.P_v, &in.P_o}) {
        leaves.emplace_back(Tensor::FromValues<double>(Shape(array->sizes()), array->values()),
                            Variable::RequiresGrad::kYes);
      }
      const auto to_array = [](const Tensor& tensor) {
        Array array(tensor.shape().ToVector());
        array.values() = tensor.Contiguous().ToVector<double>();
        return array;
      };
      const Variable Y =
          As<Signature_3_5>(function)(leaves[0], leaves[1], leaves[2], leaves[3], leaves[4], leaves[5], in.scale);
      Results got = {to_array(Y.value())};
      if (got[0].sizes() == dY.sizes()) {
        Backward(Y, Tensor::FromValues<double>(Shape(dY.sizes()), dY.values()));
        for (const Variable& leaf : leaves) {
          got.push_back(leaf.grad().defined() ? to_array(leaf.grad()) : Array(leaf.shape().ToVector()));
        }
      }
      return got;
    };
    const auto with_scale = [&](double scale) {
      return [&, scale] {
        auto changed = in;
        changed.scale = scale;
        return results(changed);
      };
    };
    const auto with_softmax_over = [&](Softmax3 kind) {
      return [&, kind] {
        const auto values = reference::AttentionForward(in);
        Results wrong = results(in);
        const Array O = Attend(values.J, values.core.V, kind)[0];
        Array Y("Y[b, n, d_Y]", Array(values.Y.sizes()));
        for (int64_t b = 0; b < s.b; ++b)
          for (int64_t n = 0; n < s.n; ++n)
            for (int64_t y = 0; y < s.d_Y; ++y)
              for (int64_t d = 0; d < s.d_v; ++d)
                for (int64_t h = 0; h < s.h; ++h) Y(b, n, y) += O(b, n, d, h) * in.P_o(y, d, h);
        wrong[0] = Y;
        return wrong;
      };
    };
    const auto memory_of_queries = [&] {
      auto changed = in;
      if (in.X.sizes() == in.M.sizes()) changed.M = in.X;
      return results(changed);
    };
    const auto keys_for_values = [&] {
      auto changed = in;
      if (s.d_k == s.d_v) changed.P_v = in.P_k;
      return results(changed);
    };
    checker.Expect(
        crosstalk::StrCat("b=", s.b, " n=", s.n, " m=", s.m, " d_X=", s.d_X, " d_M=", s.d_M, " d_Y=", s.d_Y,
                          " d_k=", s.d_k, " d_v=", s.d_v, " h=", s.h),
        student, results(in),
        {{"scale missing", "the scale is missing: Scale(J, scale).", with_scale(1)},
         {"scale twice", ScaledBy(in.scale * in.scale, in.scale), with_scale(in.scale * in.scale)},
         {"softmax over heads", "the softmax is over the last dimension of J[b, n, m, h], the heads: m is dimension 2.",
          with_softmax_over(Softmax3::kOverHeads)},
         {"softmax over queries", "the softmax is over dimension 1 of J[b, n, m, h], the queries: m is dimension 2.",
          with_softmax_over(Softmax3::kOverQueries)},
         {"memory of the queries", "K and V are made of the memory: K = einsum(M, P_k), V = einsum(M, P_v).",
          memory_of_queries},
         {"keys for values", "P_k makes the values: V = einsum(M, P_v).", keys_for_values}});
  }
}

}  // namespace

std::vector<Exercise> Chapter3() {
  return {{"3.1", 1, "logits", Check_3_1},
          {"3.2", 2, "weights and values", Check_3_2},
          {"3.3", 2, "gradients of a weighted sum", Check_3_3},
          {"3.4", 3, "attention, backward", Check_3_4},
          {"3.5", 2, "attention in einsum", Check_3_5}};
}

}  // namespace course
