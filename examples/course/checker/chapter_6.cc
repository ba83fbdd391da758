// Chapter 6: the fused kernel. kernel_checks.cc has the exercises that ask for kernels.
#include <cmath>
#include <limits>
#include <map>

#include "examples/course/checker/attention_cases.h"
#include "examples/course/checker/kernel_checks.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

void Check_6_1(AnyFunction function, Checker& checker) {
  for (const LayerSizes& s : {LayerSizes{512, 512, 12, 12, 12, 64, 64}, LayerSizes{7, 11, 2, 3, 5, 13, 17}}) {
    const auto number = [](int64_t count) {
      return Results{Array("multiplications", Array({1}, static_cast<double>(count)))};
    };
    const int64_t pairs = s.n * s.m, products = s.h_k * s.d_k + s.h_v * s.d_v, mixings = s.h_k * s.h + s.h * s.h_v;
    checker.Expect(
        crosstalk::StrCat("n=", s.n, " m=", s.m, " h_k=", s.h_k, " h=", s.h, " h_v=", s.h_v, " d_k=", s.d_k,
                          " d_v=", s.d_v),
        [&] { return number(As<Signature_6_1>(function)(s)); }, number(Multiplications(s)),
        {{"mixings missing", "L = J·P_l and U = W·P_w take h_k·h and h·h_v multiplications at each pair of n and m.",
          [&] { return number(pairs * products); }},
         {"mixings counted once", "P_l and P_w are used at each pair of n and m, not once.",
          [&] { return number(pairs * products + mixings); }},
         {"multiply-adds counted as two", "asked are multiplications; an addition goes with each, and is not counted.",
          [&] { return number(2 * Multiplications(s)); }}});
  }
}

// ---- 6.2: two passes ----

struct Sizes_6_2 {
  int64_t n, m, chunk, d_k, d_v, h_k, h, h_v;
  double size;  // of the elements of Q and K
};

class CountedChunks : public Chunks {
 public:
  CountedChunks(const reference::CoreInputs<double>& core, int64_t size) : core_(core), size_(size) {}
  int64_t count() const override { return (core_.K.size(1) + size_ - 1) / size_; }
  Array K(int64_t chunk) override { return Rows("K[j, d_k, h_k]", core_.K, chunk); }
  Array V(int64_t chunk) override { return Rows("V[j, d_v, h_v]", core_.V, chunk); }

  int64_t most_reads() const {
    int64_t most = 0;
    for (const auto& [which, reads] : reads_) most = std::max(most, reads);
    return most;
  }

 private:
  Array Rows(const std::string& bracket, const reference::Array<double>& of, int64_t chunk) {
    if (chunk < 0 || chunk >= count()) throw std::out_of_range("there is no chunk " + std::to_string(chunk));
    ++reads_[{bracket[0], chunk}];
    const int64_t begin = chunk * size_, end = std::min(begin + size_, of.size(1));
    Array rows(bracket, Array({end - begin, of.size(2), of.size(3)}));
    for (int64_t j = begin; j < end; ++j)
      for (int64_t d = 0; d < of.size(2); ++d)
        for (int64_t h = 0; h < of.size(3); ++h) rows(j - begin, d, h) = of(int64_t{0}, j, d, h);
    return rows;
  }

  const reference::CoreInputs<double>& core_;
  int64_t size_;
  std::map<std::pair<char, int64_t>, int64_t> reads_;
};

// O[n, d_v, h_v] of weights W[n, m, h] that P_w mixes.
Array MixedSum(const reference::CoreInputs<double>& core, const Array& W) {
  const int64_t N = W.size(0), S = W.size(1), H = W.size(2), H_v = core.P_w.size(1);
  Array O("O[n, d_v, h_v]", Array({N, core.V.size(2), H_v}));
  for (int64_t n = 0; n < N; ++n)
    for (int64_t m = 0; m < S; ++m)
      for (int64_t v = 0; v < H_v; ++v) {
        double U = 0;
        for (int64_t h = 0; h < H; ++h) U += W(n, m, h) * core.P_w(h, v);
        for (int64_t d = 0; d < core.V.size(2); ++d) O(n, d, v) += U * core.V(int64_t{0}, m, d, v);
      }
  return O;
}

void Check_6_2(AnyFunction function, Checker& checker) {
  for (const Sizes_6_2& s : {Sizes_6_2{2, 8, 4, 2, 2, 3, 3, 3, 2}, Sizes_6_2{3, 11, 4, 2, 3, 2, 4, 3, 40}}) {
    reference::CoreInputs<double> core;
    core.Q = Random("Q[b, n, d_k, h_k]", {1, s.n, s.d_k, s.h_k}, s.size);
    core.K = Random("K[b, m, d_k, h_k]", {1, s.m, s.d_k, s.h_k}, s.size);
    core.V = Random("V[b, m, d_v, h_v]", {1, s.m, s.d_v, s.h_v});
    core.P_l = Random("P_l[h_k, h]", {s.h_k, s.h});
    core.P_w = Random("P_w[h, h_v]", {s.h, s.h_v});
    core.scale = 1 / std::sqrt(static_cast<double>(s.d_k));
    Array Q("Q[n, d_k, h_k]", Array({s.n, s.d_k, s.h_k}));
    Q.values() = core.Q.values();
    const auto values = reference::CoreForward(core);
    // Relative to the sums of a chunk; no more than `highest` is subtracted from a logit.
    const auto weights = [&](int64_t chunk, double highest) {
      Array W({s.n, s.m, s.h});
      for (int64_t n = 0; n < s.n; ++n)
        for (int64_t m = 0; m < s.m; ++m)
          for (int64_t h = 0; h < s.h; ++h) {
            const int64_t begin = m / chunk * chunk, end = std::min(begin + chunk, s.m);
            double largest = values.L(int64_t{0}, n, begin, h), sum = 0;
            for (int64_t j = begin; j < end; ++j) largest = std::max(largest, values.L(int64_t{0}, n, j, h));
            largest = std::min(largest, highest);
            for (int64_t j = begin; j < end; ++j) sum += std::exp(values.L(int64_t{0}, n, j, h) - largest);
            W(n, m, h) = std::exp(values.L(int64_t{0}, n, m, h) - largest) / sum;
          }
      return W;
    };
    Array O("O[n, d_v, h_v]", Array({s.n, s.d_v, s.h_v}));
    O.values() = values.O.values();
    std::vector<Slip> slips = {
        {"largest left out", "e^L overflows from L = 710 on: subtract the largest of the row, as in 4.4.",
         [&] { return Results{MixedSum(core, weights(s.m, 0))}; }},
        {"normalised by chunks",
         "each chunk is normalised by its own sum: the softmax runs over the whole memory, so add up first, then "
         "weigh.",
         [&] { return Results{MixedSum(core, weights(s.chunk, std::numeric_limits<double>::infinity()))}; }},
        {"normalised after P_w",
         "the sums are divided out after P_w: each softmax head has its own, and a value head mixes several of them. "
         "That is why there are two passes.",
         [&] {
           if (s.h != s.h_v) return Results{O};
           Array W({s.n, s.m, s.h}), sums({s.n, s.h});
           for (int64_t n = 0; n < s.n; ++n)
             for (int64_t h = 0; h < s.h; ++h) {
               double largest = values.L(int64_t{0}, n, int64_t{0}, h);
               for (int64_t m = 0; m < s.m; ++m) largest = std::max(largest, values.L(int64_t{0}, n, m, h));
               for (int64_t m = 0; m < s.m; ++m) {
                 sums(n, h) += W(n, m, h) = std::exp(values.L(int64_t{0}, n, m, h) - largest);
               }
             }
           Array wrong = MixedSum(core, W);
           for (int64_t n = 0; n < s.n; ++n)
             for (int64_t d = 0; d < s.d_v; ++d)
               for (int64_t v = 0; v < s.h_v; ++v) wrong(n, d, v) /= sums(n, v);
           return Results{wrong};
         }}};
    slips.push_back(
        {"sum not rescaled",
         "when the largest grows from a to b in a later chunk, the sum so far shrinks by e^(a - b), as in 4.4.", [&] {
           Array W({s.n, s.m, s.h});
           for (int64_t n = 0; n < s.n; ++n)
             for (int64_t h = 0; h < s.h; ++h) {
               double largest = -kInfinity, sum = 0;
               for (int64_t begin = 0; begin < s.m; begin += s.chunk) {
                 const int64_t end = std::min(begin + s.chunk, s.m);
                 for (int64_t j = begin; j < end; ++j) {
                   largest = std::max(largest, values.L(int64_t{0}, n, j, h));
                 }
                 for (int64_t j = begin; j < end; ++j) sum += std::exp(values.L(int64_t{0}, n, j, h) - largest);
               }
               for (int64_t m = 0; m < s.m; ++m) {
                 W(n, m, h) = std::exp(values.L(int64_t{0}, n, m, h) - largest) / sum;
               }
             }
           return Results{MixedSum(core, W)};
         }});
    std::vector<Change<ForwardCase>> changes = MixingSlips(core);
    for (const auto& more : AxisSlips()) changes.push_back(more);
    for (const Slip& slip : SlipsOf<ForwardCase>({core}, changes, [&](const ForwardCase& c) {
           Array wrong(O.bracket(), O);
           wrong.values() = ForwardOf(c).values();
           return Results{wrong};
         })) {
      slips.push_back(slip);
    }
    constexpr const char* kTwoPasses = "more than two passes";
    checker.Knows(kTwoPasses);
    const Results got = checker.Call([&] {
      CountedChunks memory(core, s.chunk);
      const Array O = As<Signature_6_2>(function)(Q, memory, Array("P_l[h_k, h]", core.P_l),
                                                  Array("P_w[h, h_v]", core.P_w), core.scale);
      return Results{O, Array({1}, static_cast<double>(memory.most_reads()))};
    });
    const auto reads = static_cast<int64_t>(got.at(1).values().at(0));
    checker.Expect(crosstalk::StrCat("n=", s.n, " m=", s.m, " in chunks of ", s.chunk, ", d_k=", s.d_k, " d_v=", s.d_v,
                                     " h_k=", s.h_k, " h=", s.h, " h_v=", s.h_v),
                   Results{got[0]}, {O}, slips);
    checker.Require(reads <= 2, "a chunk is read " + std::to_string(reads) + " times, should be at most twice",
                    kTwoPasses,
                    "two passes suffice: one for the sums of all heads, one for the weights and the values.");
  }
}

}  // namespace

int64_t Multiplications(const LayerSizes& s) {
  return s.n * s.m * (s.h_k * s.d_k + s.h_k * s.h + s.h * s.h_v + s.h_v * s.d_v);
}

std::vector<Exercise> Chapter6() {
  return {{"6.1", 1, "what a layer costs", Check_6_1},
          {"6.2", 4, "two passes over a memory in chunks", Check_6_2},
          {"6.3", 5, "a kernel of your own, forward", Check_6_3, 60, true},
          {"6.4", 5, "a kernel of your own, backward", Check_6_4, 60, true}};
}

}  // namespace course
