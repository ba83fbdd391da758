// Chapter 4: softmax, masks, and an implementation that is stable.
#include <cmath>

#include "examples/course/checker/attention_cases.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

Array Row(const std::string& bracket, const std::vector<double>& values) {
  Array row({static_cast<int64_t>(values.size())});
  row.values() = values;
  return Array(bracket, row);
}

std::vector<double> RightSoftmax(const std::vector<double>& x) {
  Array L({1, 1, static_cast<int64_t>(x.size()), 1});
  L.values() = x;
  Array::Base W = reference::MaskedSoftmax<double>(L, {});
  for (double& w : W.values()) w = std::isnan(w) ? 0 : w;
  return W.values();
}

void Check_4_1(AnyFunction function, Checker& checker) {
  struct Case {
    std::string name;
    std::vector<double> x;
  };
  for (const Case& c : {Case{"x = {1, 2, 3}", {1, 2, 3}}, Case{"x = {1000, 1001, 999}", {1000, 1001, 999}},
                        Case{"x = {-1000, -1001}", {-1000, -1001}}, Case{"x = {0, -∞, 2}", {0, -kInfinity, 2}},
                        Case{"x = {-∞, -∞}, of which nothing may be attended to", {-kInfinity, -kInfinity}}}) {
    const double largest = *std::max_element(c.x.begin(), c.x.end());
    checker.Expect(
        c.name, [&] { return Results{Row("y[i]", As<Signature_4_1>(function)(c.x))}; },
        {Row("y[i]", RightSoftmax(c.x))},
        {{"nothing to attend to",
          "where all are -∞ the largest is, too, and -∞ - (-∞) is no number: such a row gets zeros.",
          [&] { return Results{Row("y[i]", PlainSoftmax(c.x, largest))}; }},
         {"maximum not subtracted",
          "e^1000 is infinite and e^-1000 is 0: subtract the largest x first, which changes no quotient.",
          [&] { return Results{Row("y[i]", PlainSoftmax(c.x, 0))}; }},
         {"nothing to attend to: uniform", "where all are -∞ there is nothing to attend to: zeros, not equal weights.",
          [&] { return Results{Row("y[i]", std::vector<double>(c.x.size(), 1.0 / c.x.size()))}; }},
         {"sum missing", "divide by the sum: the results sum to 1.", [&] {
            std::vector<double> y;
            for (const double value : c.x) y.push_back(std::exp(value - largest));
            return Results{Row("y[i]", y)};
          }}});
  }
}

void Check_4_2(AnyFunction function, Checker& checker) {
  for (const int64_t heads : {1, 3}) {
    const Array L = Random("L[b, n, m, h]", {2, 3, 5, heads});
    Array mask("mask[b, n, m]", Array({2, 3, 5}, 1));
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t n = 0; n < 3; ++n)
        for (int64_t m = 0; m < 5; ++m) mask(b, n, m) = m <= n + b;
    mask(0, 2, 1) = 0;  // attended to on both sides
    mask(1, 2, 0) = 0;
    for (int64_t m = 0; m < 5; ++m) mask(1, 1, m) = 0;
    Array::Base zeros_and_ones = mask;
    reference::Array<uint8_t> attends(mask.sizes());
    for (size_t i = 0; i < mask.values().size(); ++i) attends.values()[i] = mask.values()[i] != 0;
    // of each row: W = e^x / Σ e^x, x of L and the mask, then times a factor.
    const auto softmax = [&](auto x, auto factor) {
      Array W("W[b, n, m, h]", Array(L.sizes()));
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t n = 0; n < 3; ++n)
          for (int64_t h = 0; h < heads; ++h) {
            std::vector<double> row;
            for (int64_t m = 0; m < 5; ++m) row.push_back(x(L(b, n, m, h), mask(b, n, m)));
            row = PlainSoftmax(row, *std::max_element(row.begin(), row.end()));
            for (int64_t m = 0; m < 5; ++m) W(b, n, m, h) = row[static_cast<size_t>(m)] * factor(mask(b, n, m));
          }
      return Results{W};
    };
    const auto one = [](double) { return 1.0; };
    const auto low = [](double l, double attend) { return attend != 0 ? l : -1e9; };
    const auto infinite = [](double l, double attend) { return attend != 0 ? l : -kInfinity; };
    checker.Expect(
        "b=2 n=3 m=5 h=" + std::to_string(heads), [&] { return Results{As<Signature_4_2>(function)(L, mask)}; },
        {Array("W[b, n, m, h]", reference::MaskedSoftmax<double>(L, attends))},
        {{"masked after the softmax",
          "the weights are masked after they were normalised: what is left of a row no longer sums to 1. Mask L.",
          [&] { return softmax([](double l, double) { return l; }, [](double attend) { return attend; }); }},
         {"logits times mask", "L · mask is 0 where it is masked, and e^0 = 1 is a weight like any other: -∞ is none.",
          [&] { return softmax([](double l, double attend) { return l * attend; }, one); }},
         {"mask forgotten", "the mask is not used: where mask is 0, W is 0.",
          [&] { return softmax([](double l, double) { return l; }, one); }},
         {"nothing to attend to: uniform",
          "a query that may attend to nothing gets equal weights: with -1e9 for -∞ all are equally low. It gets zeros.",
          [&] { return softmax(low, one); }},
         {"nothing to attend to: no number",
          "a query that may attend to nothing gets 0/0: give it zeros where the sum is 0 or the largest logit -∞.",
          [&] { return softmax(infinite, one); }},
         {"stopped at the first masked", "the positions after a masked one count too: skip it, do not stop there.",
          [&] {
            auto until = attends;
            for (int64_t b = 0; b < 2; ++b)
              for (int64_t n = 0; n < 3; ++n)
                for (int64_t m = 1; m < 5; ++m) until(b, n, m) = until(b, n, m) && until(b, n, m - 1);
            return Results{Array("W[b, n, m, h]", reference::MaskedSoftmax<double>(L, until))};
          }},
         {"mask inverted", "the mask is 1 where a query may attend.",
          [&] { return softmax([](double l, double attend) { return attend == 0 ? l : -kInfinity; }, one); }}});
  }
}

void Check_4_3(AnyFunction function, Checker& checker) {
  for (const int64_t heads : {1, 3}) {
    const Array L = Random("L[b, n, m, h]", {2, 3, 4, heads}), dW = Random("dW[b, n, m, h]", {2, 3, 4, heads});
    const Array W("W[b, n, m, h]", reference::MaskedSoftmax<double>(L, {}));
    const auto gradient = [&](auto term_of_D, auto result) {
      Array dL("dL[b, n, m, h]", Array(W.sizes()));
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t n = 0; n < 3; ++n)
          for (int64_t h = 0; h < heads; ++h) {
            double D = 0;
            for (int64_t m = 0; m < 4; ++m) D += term_of_D(W(b, n, m, h), dW(b, n, m, h));
            for (int64_t m = 0; m < 4; ++m) dL(b, n, m, h) = result(W(b, n, m, h), dW(b, n, m, h), D);
          }
      return Results{dL};
    };
    const auto product = [](double w, double dw) { return w * dw; };
    const auto right = [](double w, double dw, double D) { return w * (dw - D); };
    checker.Expect(
        "b=2 n=3 m=4 h=" + std::to_string(heads), [&] { return Results{As<Signature_4_3>(function)(W, dW)}; },
        gradient(product, right),
        {{"missing D", "D is missing: dL = W · (dW - D) with D[b, n, h] = Σ_m W · dW.",
          [&] { return gradient(product, [](double w, double dw, double) { return w * dw; }); }},
         {"diagonal alone", "W · (1 - W) · dW is the diagonal of the Jacobian: every weight depends on every logit.",
          [&] { return gradient(product, [](double w, double dw, double) { return w * (1 - w) * dw; }); }},
         {"D without W", "D = Σ_m W · dW: the sum lacks the factor W.",
          [&] { return gradient([](double, double dw) { return dw; }, right); }},
         {"W missing", "dL = W · (dW - D): the factor W is missing.",
          [&] { return gradient(product, [](double, double dw, double D) { return dw - D; }); }}});
  }
}

struct Slips_4_4 {
  bool sum_not_rescaled = false, O_not_rescaled = false, max_of_chunk = false;
};

void RunningSoftmax(const std::vector<double>& L, const Array& V, RunningRow& row, const Slips_4_4& slips) {
  double largest = slips.max_of_chunk ? -kInfinity : row.max;
  for (const double l : L) largest = std::max(largest, l);
  const double shrink = row.max == -kInfinity ? 0 : std::exp(row.max - largest);
  if (!slips.sum_not_rescaled) row.sum *= slips.max_of_chunk ? 1 : shrink;
  for (double& o : row.O)
    if (!slips.O_not_rescaled) o *= slips.max_of_chunk ? 1 : shrink;
  row.max = largest;
  for (size_t m = 0; m < L.size(); ++m) {
    const double e = L[m] == -kInfinity ? 0 : std::exp(L[m] - largest);
    row.sum += e;
    for (size_t d = 0; d < row.O.size(); ++d) row.O[d] += e * V(m, d);
  }
}

void Check_4_4(AnyFunction function, Checker& checker) {
  // Rising logits, which begin with a chunk that is masked altogether; then large ones, and some that fall.
  for (const double height : {1.0, 400.0, -400.0}) {
    for (const bool masked_start : {false, true}) {
      const int64_t chunks = 4, size = 3, d_v = 2;
      const Array noise = Random("L[m]", {chunks * size});
      const auto run = [&](const std::function<void(const std::vector<double>&, const Array&, RunningRow&)>& step) {
        RunningRow row;
        row.O.assign(d_v, 0);
        Results results;
        for (int64_t c = 0; c < chunks; ++c) {
          std::vector<double> L;
          for (int64_t j = 0; j < size; ++j) {
            L.push_back(masked_start && c == 0 ? -kInfinity : height * static_cast<double>(c) + noise(c * size + j));
          }
          step(L, Random("V[m, d_v]", {size, d_v}, 1 + static_cast<double>(c)), row);
        }
        Array O({d_v});
        for (int64_t d = 0; d < d_v; ++d) O(d) = row.O[static_cast<size_t>(d)] / row.sum;
        // What is added up may be relative to any maximum that does not overflow; only the quotients count.
        return Results{Array("O[d_v]", O)};
      };
      const auto with = [&](const Slips_4_4& slips) {
        return [&run, slips] {
          return run([slips](const std::vector<double>& L, const Array& V, RunningRow& row) {
            RunningSoftmax(L, V, row, slips);
          });
        };
      };
      // What gives no number, and is not told before.
      struct NoNumber {
        const char *name, *hint;
      };
      const NoNumber no_number =
          masked_start
              ? NoNumber{"masked chunk", "e^(-∞ - (-∞)) is no number: a chunk that is masked altogether adds nothing."}
          : height == 1
              ? NoNumber{"factor inverted", "the factor is e^(old - new): at first the old largest is -∞, and it is 0."}
          : height > 0 ? NoNumber{"e^x overflows", "e^L overflows: subtract the largest first, e^(L - largest)."}
                       : NoNumber{"maximum goes down",
                                  "the largest never falls: it is that of all chunks so far, not of the last."};
      checker.Expect(
          (height > 0 ? "logits that rise by " : "logits that fall by ") +
              std::to_string(std::abs(static_cast<int>(height))) + " a chunk of 3" +
              (masked_start ? ", the first chunk masked" : ""),
          [&] { return run(As<Signature_4_4>(function)); }, with({})(),
          {{"sum not rescaled", "when the maximum grows from a to b, what the sum holds is e^(a - b) times too large.",
            with({.sum_not_rescaled = true})},
           {"O not rescaled", "when the maximum grows, O shrinks with the sum: by the same factor.",
            with({.O_not_rescaled = true})},
           {"maximum of the chunk",
            "each chunk is taken relative to its own maximum: the sums of two chunks then have different units.",
            with({.max_of_chunk = true})},
           {no_number.name, no_number.hint, [&] { return Results{Array("O[d_v]", Array({d_v}, std::nan("")))}; }}});
    }
  }
}

}  // namespace

std::vector<Exercise> Chapter4() {
  return {{"4.1", 1, "a softmax that does not overflow", Check_4_1},
          {"4.2", 2, "masks", Check_4_2},
          {"4.3", 2, "the softmax's gradient", Check_4_3},
          {"4.4", 3, "a softmax by chunks", Check_4_4}};
}

}  // namespace course
