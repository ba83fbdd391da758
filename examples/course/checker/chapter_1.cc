// Chapter 1: tensors with named dimensions, and einsum.
#include "examples/course/checker/checker.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

Results StridesOf(const std::vector<int64_t>& values) {
  Array array({static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) array(i) = static_cast<double>(values[i]);
  return {Array("strides[i]", array)};
}

void Check_1_1(AnyFunction function, Checker& checker) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{2, 3, 5}, {7}, {4, 1, 6, 2}}) {
    const int64_t rank = static_cast<int64_t>(sizes.size());
    std::vector<int64_t> right(sizes.size(), 1), own = sizes, columns(sizes.size(), 1);
    for (int64_t i = rank - 2; i >= 0; --i) right[i] = right[i + 1] * sizes[i + 1];
    for (int64_t i = rank - 2; i >= 0; --i) own[i] *= own[i + 1];
    for (int64_t i = 1; i < rank; ++i) columns[i] = columns[i - 1] * sizes[i - 1];
    checker.Expect("sizes " + ListOf(sizes), [&] { return StridesOf(As<Signature_1_1>(function)(sizes)); },
                   StridesOf(right),
                   {{"column-major", "here the last dimension is contiguous, its stride is 1: begin at the end.",
                     [&] { return StridesOf(columns); }},
                    {"own size included",
                     "a step along a dimension passes over all the later ones, but not over the dimension itself.",
                     [&] { return StridesOf(own); }}});
  }
}

void Check_1_2(AnyFunction function, Checker& checker) {
  struct Sizes {
    int64_t n, d_Y, d_v, h;
  };
  for (const Sizes& s : {Sizes{3, 4, 2, 2}, Sizes{3, 5, 4, 2}}) {
    const Array O = Random("O[n, d_v, h]", {s.n, s.d_v, s.h}), P_o = Random("P_o[d_Y, d_v, h]", {s.d_Y, s.d_v, s.h});
    const auto project = [&](auto P, auto counts) {
      Array Y("Y[n, d_Y]", Array({s.n, s.d_Y}));
      for (int64_t n = 0; n < s.n; ++n)
        for (int64_t y = 0; y < s.d_Y; ++y)
          for (int64_t d = 0; d < s.d_v; ++d)
            for (int64_t h = 0; h < s.h; ++h)
              if (counts(d, h)) Y(n, y) += O(n, d, h) * P(y, d, h);
      return Results{Y};
    };
    const auto plain = [&](int64_t y, int64_t d, int64_t h) { return P_o(y, d, h); };
    const auto swapped = [&](int64_t y, int64_t d, int64_t h) { return P_o(y, h, d); };
    const auto all = [](int64_t, int64_t) { return true; };
    checker.Expect(
        crosstalk::StrCat("n=", s.n, " d_Y=", s.d_Y, " d_v=", s.d_v, " h=", s.h),
        [&] { return Results{As<Signature_1_2>(function)(O, P_o)}; }, project(plain, all),
        {{"sum overwritten", "only the last term is left: a dimension that Y does not name is summed over, with +=.",
          [&] { return project(plain, [&](int64_t d, int64_t h) { return d == s.d_v - 1 && h == s.h - 1; }); }},
         {"one head alone", "the sum runs over d_v and over h: the heads are added up.",
          [&] { return project(plain, [](int64_t, int64_t h) { return h == 0; }); }},
         {"P_o's dimensions swapped", "P_o[d_Y, d_v, h] is read as P_o[d_Y, h, d_v].",
          [&] { return project(swapped, all); }}});
  }
}

// The product over all names, in the order of `result`; `keeps` says which of the sums' terms count.
Results Contract(const Names& result, const Array& a, const Names& of_a, const Array& b, const Names& of_b, bool add) {
  Names names = of_a;
  std::vector<int64_t> sizes = a.sizes();
  for (size_t i = 0; i < of_b.size(); ++i) {
    if (std::find(names.begin(), names.end(), of_b[i]) != names.end()) continue;
    names.push_back(of_b[i]);
    sizes.push_back(b.size(static_cast<int>(i)));
  }
  const auto size_of = [&](const std::string& name) {
    return sizes[static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
  };
  std::vector<int64_t> of_result;
  std::string bracket = "C[";
  for (const std::string& name : result) {
    of_result.push_back(size_of(name));
    bracket += (of_result.size() == 1 ? "" : ", ") + name;
  }
  Array c(bracket + "]", Array(of_result));
  std::vector<int64_t> index(names.size());
  const auto offset = [&](const Names& of) {
    int64_t at = 0;
    for (const std::string& name : of) {
      at = at * size_of(name) + index[static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
    }
    return static_cast<size_t>(at);
  };
  for (;;) {
    double& element = c.values()[offset(result)];
    element = (add ? element : 0) + a.values()[offset(of_a)] * b.values()[offset(of_b)];
    size_t dim = names.size();
    while (dim > 0 && ++index[dim - 1] == sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return {c};
  }
}

void Check_1_3(AnyFunction function, Checker& checker) {
  struct Case {
    Names result, of_a, of_b;
    std::vector<int64_t> a, b;
  };
  for (const Case& c :
       {Case{{"n", "m"}, {"n", "d"}, {"m", "d"}, {2, 3}, {4, 3}}, Case{{"d", "n"}, {"n", "d"}, {"d"}, {3, 3}, {3}},
        Case{{"b", "n", "m", "h"}, {"b", "n", "d", "h"}, {"b", "m", "d", "h"}, {2, 2, 3, 2}, {2, 4, 3, 2}},
        Case{{"h", "k"}, {"n", "h"}, {"n", "k"}, {4, 2}, {4, 3}}}) {
    const Array a = Random("A", c.a), b = Random("B", c.b);
    const auto list = [](const Names& names) {
      std::string text;
      for (const std::string& name : names) text += (text.empty() ? "[" : ", ") + name;
      return text + "]";
    };
    checker.Expect("C" + list(c.result) + " = einsum(A" + list(c.of_a) + ", B" + list(c.of_b) + ")",
                   [&] { return Results{As<Signature_1_3>(function)(c.result, a, c.of_a, b, c.of_b)}; },
                   Contract(c.result, a, c.of_a, b, c.of_b, true),
                   {{"sum overwritten", "a dimension that the result does not name is summed over, with +=.",
                     [&] { return Contract(c.result, a, c.of_a, b, c.of_b, false); }},
                    {"order of the operands",
                     "the result's dimensions stand in the order of its own names, not in that of the operands.", [&] {
                       Names sorted;
                       for (const Names* of : {&c.of_a, &c.of_b})
                         for (const std::string& name : *of)
                           if (std::find(c.result.begin(), c.result.end(), name) != c.result.end() &&
                               std::find(sorted.begin(), sorted.end(), name) == sorted.end())
                             sorted.push_back(name);
                       return Contract(sorted, a, c.of_a, b, c.of_b, true);
                     }}});
  }
}

void Check_1_4(AnyFunction function, Checker& checker) {
  struct Sizes {
    int64_t n, d_X, d_k, h;
  };
  for (const Sizes& s : {Sizes{3, 2, 2, 2}, Sizes{4, 5, 2, 3}}) {
    const Array X = Random("X[n, d_X]", {s.n, s.d_X}), P_q = Random("P_q[d_X, d_k, h]", {s.d_X, s.d_k, s.h});
    const Array dQ = Random("dQ[n, d_k, h]", {s.n, s.d_k, s.h});
    const auto gradients = [&](bool last_n, bool last_head, bool swapped) {
      Array dX("dX[n, d_X]", Array(X.sizes())), dP_q("dP_q[d_X, d_k, h]", Array(P_q.sizes()));
      for (int64_t n = 0; n < s.n; ++n)
        for (int64_t x = 0; x < s.d_X; ++x)
          for (int64_t d = 0; d < s.d_k; ++d)
            for (int64_t h = 0; h < s.h; ++h) {
              if (!last_head || (h == s.h - 1 && d == s.d_k - 1))
                dX(n, x) += dQ(n, d, h) * (swapped ? P_q(d, x, h) : P_q(x, d, h));
              if (!last_n || n == s.n - 1) dP_q(x, d, h) += X(n, x) * dQ(n, d, h);
            }
      return Results{dX, dP_q};
    };
    checker.Expect(crosstalk::StrCat("n=", s.n, " d_X=", s.d_X, " d_k=", s.d_k, " h=", s.h),
                   [&] {
                     const ProjectionGradients g = As<Signature_1_4>(function)(X, P_q, dQ);
                     return Results{g.dX, g.dP_q};
                   },
                   gradients(false, false, false),
                   {{"dX overwritten", "dX sums over d_k and h: all numbers of Q that X[n, d_X] went into.",
                     [&] { return gradients(false, true, false); }},
                    {"dP_q overwritten", "dP_q sums over n: a parameter is used at every position.",
                     [&] { return gradients(true, false, false); }},
                    {"P_q transposed", "P_q[d_X, d_k, h] is read as P_q[d_k, d_X, h].",
                     [&] { return gradients(false, false, true); }}});
  }
}

}  // namespace

std::vector<Exercise> Chapter1() {
  return {{"1.1", 1, "strides", Check_1_1},
          {"1.2", 1, "an einsum in loops", Check_1_2},
          {"1.3", 3, "any einsum of two operands", Check_1_3},
          {"1.4", 2, "the gradient of an einsum", Check_1_4}};
}

}  // namespace course
