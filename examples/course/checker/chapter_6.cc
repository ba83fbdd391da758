// Chapter 6: the fused kernel. A student's own kernel meets the problems that tests/kernels/attention holds the real
// one against, and is measured beside it.
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "crosstalk/kernels/peak.h"
#include "examples/course/checker/checker.h"
#include "tests/kernels/attention/attention_problem.h"

namespace course {
namespace {

namespace kernels = crosstalk::kernels;
namespace reference = crosstalk::kernels::reference;
using kernels::AttentionProblem;
using kernels::AttentionResults;
using kernels::AttentionShape;
using kernels::Floats;

int64_t Multiplications(const LayerSizes& s) {
  return s.n * s.m * (s.h_k * s.d_k + s.h_k * s.h + s.h * s.h_v + s.h_v * s.d_v);
}

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
    constexpr const char* kTwoPasses = "more than two passes";
    checker.Knows(kTwoPasses);
    const Results got = checker.Call([&] {
      CountedChunks memory(core, s.chunk);
      const Array O = As<Signature_6_2>(function)(Q, memory, Array("P_l[h_k, h]", core.P_l),
                                                  Array("P_w[h, h_v]", core.P_w), core.scale);
      return Results{O, Array({1}, static_cast<double>(memory.most_reads()))};
    });
    const auto reads = static_cast<int64_t>(got.at(1).values().at(0));
    checker.Expect(
        crosstalk::StrCat("n=", s.n, " m=", s.m, " in chunks of ", s.chunk, ", d_k=", s.d_k, " d_v=", s.d_v,
                          " h_k=", s.h_k, " h=", s.h, " h_v=", s.h_v),
        Results{got[0]}, {O},
        {{"largest left out", "e^L overflows from L = 710 on: subtract the largest of the row, as in 4.4.",
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
          }}});
    checker.Require(reads <= 2, "a chunk is read " + std::to_string(reads) + " times, should be at most twice",
                    kTwoPasses,
                    "two passes suffice: one for the sums of all heads, one for the weights and the values.");
  }
}

// ---- 6.3, 6.4: kernels ----

KernelCall CallOf(const AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  return {.b = s.b,
          .n = s.n,
          .m = s.m,
          .h_k = s.h_k,
          .h = s.h,
          .h_v = s.h_v,
          .d_k = s.d_k,
          .d_v = s.d_v,
          .scale = static_cast<float>(p.call.scale),
          .causal = s.causality == kernels::AttentionCausality::kCausal,
          .key_mask = p.key_padding_mask.empty() ? nullptr : p.key_padding_mask.data(),
          .Q = p.in.Q.data(),
          .K = p.in.K.data(),
          .V = p.in.V.data(),
          .P_l = p.in.P_l.data(),
          .P_w = p.in.P_w.data()};
}

Array FromFloats(const std::string& bracket, const std::vector<int64_t>& sizes, const Floats& values) {
  Array array(bracket, Array(sizes));
  std::copy(values.begin(), values.end(), array.values().begin());
  return array;
}

std::vector<AttentionProblem> KernelProblems() {
  using kernels::Shape;
  using kernels::Talking;
  std::vector<AttentionProblem> problems;
  problems.emplace_back(Talking(Shape(2, 5, 7, 3, 3, 3, 4, 4)));
  problems.emplace_back(Talking(Shape(2, 19, 37, 3, 5, 7, 11, 13)));
  AttentionShape causal = Talking(Shape(1, 33, 33, 4, 4, 4, 8, 8));
  causal.causality = kernels::AttentionCausality::kCausal;
  problems.emplace_back(causal);
  causal = Talking(Shape(2, 9, 33, 2, 3, 4, 5, 6));  // fewer queries than positions, and both masks
  causal.causality = kernels::AttentionCausality::kCausal;
  problems.emplace_back(causal, kernels::ProblemMasks{.key_padding = true});
  problems.emplace_back(Talking(Shape(2, 9, 65, 2, 3, 4, 5, 6)), kernels::ProblemMasks{.key_padding = true});
  problems.emplace_back(Talking(Shape(1, 1, 33, 6, 6, 6, 16, 16)));
  return problems;
}

std::string Describe(const AttentionProblem& p) {
  return kernels::Describe(p.call.shape) + (p.key_padding_mask.empty() ? "" : " key_mask");
}

// The slips of both kernels, by what they make of the problem.
struct Misread {
  std::string name, hint;
  std::function<void(AttentionProblem&)> change;
};

std::vector<Misread> Misreadings() {
  const auto transpose = [](Floats& P, int64_t rows, int64_t cols) {
    Floats result(P.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        result[static_cast<size_t>(j * rows + i)] = P[static_cast<size_t>(i * cols + j)];
    if (rows == cols) P = result;
  };
  return {{"P_l transposed", "P_l is read transposed: P_l[h_k, h], element k·h + i.",
           [=](AttentionProblem& p) { transpose(p.in.P_l, p.call.shape.h_k, p.call.shape.h); }},
          {"P_w transposed", "P_w is read transposed: P_w[h, h_v], element i·h_v + v.",
           [=](AttentionProblem& p) { transpose(p.in.P_w, p.call.shape.h, p.call.shape.h_v); }},
          {"scale missing", "call->scale is not used: J = scale · Q·K.", [](AttentionProblem& p) { p.call.scale = 1; }},
          {"causal forgotten", "call->causal is not used: query i sees the positions j ≤ i + m - n.",
           [](AttentionProblem& p) { p.call.shape.causality = kernels::AttentionCausality::kNone; }},
          {"key_mask forgotten", "call->key_mask[b, m] is not used: 0 hides a position from all queries and heads.",
           [](AttentionProblem& p) { p.key_padding_mask.clear(); }}};
}

// |got - right| / max |right|, the largest of all.
double LargestError(const Array& got, const Array& right) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < right.values().size(); ++i) {
    largest = std::max(largest, std::abs(right.values()[i]));
    error = std::max(error, std::abs(got.values()[i] - right.values()[i]));
  }
  return largest > 0 ? error / largest : 0;
}

// As the tests of the real one have it (attention_test.cc), a tolerance of float sums.
constexpr double kFloatTolerance = 2e-5;

// Compares all problems; the results by `run` and by `reference`, of a problem.
double CheckKernel(Checker& checker, const std::function<Results(const AttentionProblem&)>& run,
                   const std::function<Results(const AttentionProblem&)>& right) {
  double error = 0;
  for (const AttentionProblem& p : KernelProblems()) {
    const Results expected = right(p);
    std::vector<Slip> slips;
    for (const Misread& misread : Misreadings()) {
      slips.push_back({misread.name, misread.hint, [&p, &right, misread] {
                         AttentionProblem changed = p;
                         misread.change(changed);
                         return right(changed);
                       }});
    }
    slips.push_back(
        {"not written", "some results are never written, or are added to without being set to 0 first.", [&] {
           Results nothing = expected;
           for (Array& array : nothing)
             for (double& value : array.values()) value = std::nan("");
           return nothing;
         }});
    const Results got = checker.Call([&] { return run(p); });
    checker.Expect(Describe(p), got, expected, slips, kFloatTolerance);
    for (size_t i = 0; i < expected.size(); ++i) error = std::max(error, LargestError(got[i], expected[i]));
  }
  return error;
}

// The problem that is measured: a whole number of tiles, long enough to tell.
AttentionProblem MeasuredProblem() {
  return AttentionProblem(kernels::Talking(kernels::Shape(1, 256, 256, 8, 8, 8, 32, 32)));
}

// Seconds of the fastest of several calls.
double BestSeconds(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double best = 1e300;
  for (int i = 0; i < 50 && (i < 3 || Clock::now() - begin < std::chrono::milliseconds(200)); ++i) {
    const auto start = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// `times`: the multiply-adds of the pass over those of the forward pass.
void MeasureKernel(Checker& checker, double error, double times, const std::function<void()>& own,
                   const std::function<void()>& reference_kernel) {
  const AttentionShape s = MeasuredProblem().call.shape;
  const double gflop =
      2e-9 * times * static_cast<double>(s.b * Multiplications({s.n, s.m, s.h_k, s.h, s.h_v, s.d_k, s.d_v}));
  const double own_seconds = checker.Call([&] { return Results{Array({1}, BestSeconds(own))}; }).at(0).values().at(0);
  double peak = kernels::MeasurePeakGflops(crosstalk::NumThreads());
  const double reference_seconds = BestSeconds(reference_kernel);
  // Once more: a peak measured while something else held a processor would flatter.
  peak = std::max(peak, kernels::MeasurePeakGflops(crosstalk::NumThreads()));
  const double own_share = gflop / own_seconds / peak, reference_share = gflop / reference_seconds / peak;
  char text[200];
  std::snprintf(text, sizeof(text), "correct to %.0e, %.2g %% of the peak; the reference %.2g %%", error,
                100 * own_share, 100 * reference_share);
  checker.Note(text);
  std::snprintf(text, sizeof(text), "%.3g ms of %s: a peak of %.4g GFLOP/s on %d threads", 1e3 * own_seconds,
                Describe(MeasuredProblem()).c_str(), peak, crosstalk::NumThreads());
  checker.Note(text);
  checker.Measure("error", error);
  checker.Measure("seconds", own_seconds);
  checker.Measure("share_of_peak", own_share);
  checker.Measure("reference_share_of_peak", reference_share);
  checker.Measure("peak_gflops", peak);
}

void Check_6_3(AnyFunction function, Checker& checker) {
  const auto results = [](const AttentionProblem& p, const Floats& O) {
    const AttentionShape& s = p.call.shape;
    return Results{FromFloats("O[b, n, h_v, d_v]", {s.b, s.n, s.h_v, s.d_v}, O)};
  };
  const double error = CheckKernel(
      checker,
      [&](const AttentionProblem& p) {
        Floats O(p.dO.size(), std::nanf(""));
        const KernelCall call = CallOf(p);
        As<Signature_6_3>(function)(&call, O.data());
        return results(p, O);
      },
      [&](const AttentionProblem& p) {
        const AttentionShape& s = p.call.shape;
        const auto O = reference::CoreForward(kernels::ReferenceInputs(p)).O;
        const std::vector<double> values = kernels::SwapHeads(O.values(), s.d_v, s.h_v);
        Array array("O[b, n, h_v, d_v]", Array({s.b, s.n, s.h_v, s.d_v}));
        array.values() = values;
        return Results{array};
      });
  const AttentionProblem p = MeasuredProblem();
  const KernelCall call = CallOf(p);
  const AttentionShape& s = p.call.shape;
  const int threads = crosstalk::NumThreads();
  Floats O(p.dO.size()), row_max(s.b * s.h * s.n), inv_row_sum(s.b * s.h * s.n);
  kernels::Workspace memory(kernels::AttentionForwardWorkspaceBytes(s, threads));
  MeasureKernel(
      checker, error, 1, [&] { As<Signature_6_3>(function)(&call, O.data()); },
      [&] {
        kernels::AttentionForward(p.call, {O.data(), s.h_v * s.d_v}, {row_max.data(), inv_row_sum.data(), nullptr},
                                  memory.data(), threads);
      });
}

Results GradientsOf(const AttentionProblem& p, const std::vector<const Floats*>& d) {
  const AttentionShape& s = p.call.shape;
  return {FromFloats("dV[b, m, h_v, d_v]", {s.b, s.m, s.h_v, s.d_v}, *d[0]),
          FromFloats("dP_w[h, h_v]", {s.h, s.h_v}, *d[1]), FromFloats("dP_l[h_k, h]", {s.h_k, s.h}, *d[2]),
          FromFloats("dQ[b, n, h_k, d_k]", {s.b, s.n, s.h_k, s.d_k}, *d[3]),
          FromFloats("dK[b, m, h_k, d_k]", {s.b, s.m, s.h_k, s.d_k}, *d[4])};
}

void Check_6_4(AnyFunction function, Checker& checker) {
  const double error = CheckKernel(
      checker,
      [&](const AttentionProblem& p) {
        AttentionResults<float> r(p);
        for (Floats* values : {&r.d.Q, &r.d.K, &r.d.V, &r.d.P_l, &r.d.P_w})
          std::fill(values->begin(), values->end(), std::nanf(""));
        const KernelCall call = CallOf(p);
        const KernelGradients gradients = {r.d.Q.data(), r.d.K.data(), r.d.V.data(), r.d.P_l.data(), r.d.P_w.data()};
        As<Signature_6_4>(function)(&call, p.dO.data(), &gradients);
        return GradientsOf(p, {&r.d.V, &r.d.P_w, &r.d.P_l, &r.d.Q, &r.d.K});
      },
      [&](const AttentionProblem& p) {
        const AttentionResults<double> r = kernels::ReferenceAttention(p);
        Results results = GradientsOf(p, std::vector<const Floats*>(5, &p.in.bias));
        results[0].values() = r.d.V, results[1].values() = r.d.P_w, results[2].values() = r.d.P_l;
        results[3].values() = r.d.Q, results[4].values() = r.d.K;
        return results;
      });
  const AttentionProblem p = MeasuredProblem();
  const KernelCall call = CallOf(p);
  const AttentionShape& s = p.call.shape;
  const int threads = crosstalk::NumThreads();
  AttentionResults<float> r(p);
  const KernelGradients gradients = {r.d.Q.data(), r.d.K.data(), r.d.V.data(), r.d.P_l.data(), r.d.P_w.data()};
  Floats row_max(s.b * s.h * s.n), inv_row_sum(s.b * s.h * s.n);
  const kernels::SoftmaxStats stats = {row_max.data(), inv_row_sum.data(), nullptr};
  kernels::Workspace forward(kernels::AttentionForwardWorkspaceBytes(s, 1));
  kernels::Workspace backward(kernels::AttentionBackwardWorkspaceBytes(s, threads));
  // On one thread: a process of several cannot be copied for the student's function.
  kernels::AttentionForward(p.call, {r.O.data(), s.h_v * s.d_v}, stats, forward.data(), 1);
  kernels::AttentionGradients out;
  out.Q = {r.d.Q.data(), s.h_k * s.d_k}, out.K = {r.d.K.data(), s.h_k * s.d_k}, out.V = {r.d.V.data(), s.h_v * s.d_v};
  out.P_l = {r.d.P_l.data()}, out.P_w = {r.d.P_w.data()};
  // As `crosstalk bench` counts: backward is two products for each one of forward, whatever is computed again.
  MeasureKernel(
      checker, error, 2, [&] { As<Signature_6_4>(function)(&call, p.dO.data(), &gradients); },
      [&] {
        kernels::AttentionBackward(p.call, {r.O.data(), s.h_v * s.d_v}, stats, {p.dO.data(), s.h_v * s.d_v}, out,
                                   backward.data(), threads);
      });
}

}  // namespace

std::vector<Exercise> Chapter6() {
  return {{"6.1", 1, "what a layer costs", Check_6_1},
          {"6.2", 4, "two passes over a memory in chunks", Check_6_2},
          {"6.3", 5, "a kernel of your own, forward", Check_6_3, 60, true},
          {"6.4", 5, "a kernel of your own, backward", Check_6_4, 60, true}};
}

}  // namespace course
