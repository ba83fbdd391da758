// Exercises 6.3 and 6.4: a student's own kernel meets the problems that tests/kernels/attention holds the real one
// against, and is measured beside it.
#include "examples/course/checker/kernel_checks.h"

#include <chrono>
#include <cmath>

#include "crosstalk/kernels/peak.h"
#include "crosstalk/runtime/parallel.h"
#include "examples/course/checker/attention_cases.h"
#include "tests/kernels/attention/attention_problem.h"

namespace course {
namespace {

namespace kernels = crosstalk::kernels;
namespace reference = crosstalk::kernels::reference;
using kernels::AttentionProblem;
using kernels::AttentionResults;
using kernels::AttentionShape;
using kernels::Floats;

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

// A problem as a slip reads it.
struct KernelCase {
  ForwardCase forward;    // its mask is made of the rest
  BackwardCase backward;  // its core is that of forward
  bool causal, key_mask;
  int64_t shift;  // query i sees the positions j ≤ i + shift
  bool key_mask_inverted = false, key_mask_of_first = false;
  bool heads_last = false;
};

KernelCase RightCase(const AttentionProblem& p) {
  const Core core = kernels::ReferenceInputs(p);
  const AttentionShape& s = p.call.shape;
  return {.forward = {core},
          .backward = {core},
          .causal = s.causality == kernels::AttentionCausality::kCausal,
          .key_mask = !p.key_padding_mask.empty(),
          .shift = s.m - s.n};
}

// The inputs with the mask that the case makes.
Core CoreOf(const KernelCase& c, const AttentionProblem& p) {
  const AttentionShape& s = p.call.shape;
  Core core = c.forward.core;
  core.mask = reference::Array<uint8_t>({s.b, s.n, s.m});
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t i = 0; i < s.n; ++i)
      for (int64_t j = 0; j < s.m; ++j) {
        const auto at = static_cast<size_t>((c.key_mask_of_first ? 0 : b * s.m) + j);
        const bool there = !c.key_mask || (p.key_padding_mask[at] != 0) != c.key_mask_inverted;
        core.mask(b, i, j) = there && (!c.causal || j <= i + c.shift);
      }
  if (c.heads_last) {
    core.Q.values() = kernels::ToDouble(p.in.Q), core.K.values() = kernels::ToDouble(p.in.K);
    core.V.values() = kernels::ToDouble(p.in.V);
  }
  return core;
}

bool IsSquare(const KernelCase& c) {
  const Core& core = c.forward.core;
  return core.P_l.size(0) == core.P_l.size(1) && core.P_w.size(0) == core.P_w.size(1);
}

// What both kernels may misread.
std::vector<Change<KernelCase>> Misreadings() {
  using Case = KernelCase;
  const auto transpose = [](Array::Base& P) {
    if (P.size(0) == P.size(1)) P = Transposed(Array("P[h, k]", P));
  };
  return {
      {"P_l transposed", "P_l is read transposed: P_l[h_k, h], element k·h + i.",
       [=](Case& c) { transpose(c.forward.core.P_l); }},
      {"P_w transposed", "P_w is read transposed: P_w[h, h_v], element i·h_v + v.",
       [=](Case& c) { transpose(c.forward.core.P_w); }},
      {"scale missing", "call->scale is not used: J = scale · Q·K.", [](Case& c) { c.forward.core.scale = 1; }},
      {"causal forgotten", "call->causal is not used: query i sees the positions j ≤ i + m - n.",
       [](Case& c) { c.causal = false; }},
      {"causal from the first", "query i sees the positions j ≤ i + m - n, not j ≤ i: the last query sees all of them.",
       [](Case& c) { c.shift = 0; }},
      {"causal without itself", "query i sees its own position as well: j ≤ i + m - n, not j < i + m - n.",
       [](Case& c) { --c.shift; }},
      {"key_mask forgotten", "call->key_mask[b, m] is not used: 0 hides a position from all queries and heads.",
       [](Case& c) { c.key_mask = false; }},
      {"key_mask inverted", "call->key_mask is 1 where a position may be attended to, 0 where it may not.",
       [](Case& c) { c.key_mask_inverted = true; }},
      {"key_mask of the first", "call->key_mask[b, m] has a row for each b: element b·m + j.",
       [](Case& c) { c.key_mask_of_first = true; }}};
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

using KernelResults = std::function<Results(const AttentionProblem&, const KernelCase&)>;

// Compares all problems: the results by `run`, and by `right` for the case that `changes` have changed.
double CheckKernel(Checker& checker, const std::function<Results(const AttentionProblem&)>& run,
                   const KernelResults& right, const std::vector<Change<KernelCase>>& changes) {
  double error = 0;
  for (const AttentionProblem& p : KernelProblems()) {
    const KernelCase as_it_is = RightCase(p);
    const Results expected = right(p, as_it_is);
    std::vector<Slip> slips = SlipsOf<KernelCase>(as_it_is, changes, [&](const KernelCase& c) { return right(p, c); });
    // Two at once only where it does not take long.
    if (p.call.shape.n * p.call.shape.m > 300) std::erase_if(slips, [](const Slip& slip) { return slip.two; });
    slips.insert(slips.begin(),
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

Results GradientsOf(const AttentionProblem& p, const std::vector<const Floats*>& d) {
  const AttentionShape& s = p.call.shape;
  return {FromFloats("dV[b, m, h_v, d_v]", {s.b, s.m, s.h_v, s.d_v}, *d[0]),
          FromFloats("dP_w[h, h_v]", {s.h, s.h_v}, *d[1]), FromFloats("dP_l[h_k, h]", {s.h_k, s.h}, *d[2]),
          FromFloats("dQ[b, n, h_k, d_k]", {s.b, s.n, s.h_k, s.d_k}, *d[3]),
          FromFloats("dK[b, m, h_k, d_k]", {s.b, s.m, s.h_k, s.d_k}, *d[4])};
}

}  // namespace

void Check_6_3(AnyFunction function, Checker& checker) {
  const auto results = [](const AttentionProblem& p, const Floats& O) {
    const AttentionShape& s = p.call.shape;
    return Results{FromFloats("O[b, n, h_v, d_v]", {s.b, s.n, s.h_v, s.d_v}, O)};
  };
  std::vector<Change<KernelCase>> changes = Misreadings();
  changes.push_back({"heads last", "heads stand before their size: element d of head k of Q is at k·d_k + d.",
                     [](KernelCase& c) { c.heads_last = true; }});
  for (const auto& list : {MaskSlips(), AxisSlips()}) {
    for (const Change<ForwardCase>& one : list) {
      if (one.name.rfind("mask forgotten", 0) == 0 || one.name == "mask inverted") continue;  // these are told above
      changes.push_back({one.name, one.hint, [one](KernelCase& c) { one.make(c.forward); }});
    }
  }
  const double error = CheckKernel(
      checker,
      [&](const AttentionProblem& p) {
        Floats O(p.dO.size(), std::nanf(""));
        const KernelCall call = CallOf(p);
        As<Signature_6_3>(function)(&call, O.data());
        return results(p, O);
      },
      [&](const AttentionProblem& p, const KernelCase& c) {
        const AttentionShape& s = p.call.shape;
        ForwardCase forward = c.forward;
        forward.core = CoreOf(c, p);
        const Array O = ForwardOf(forward);
        Array array("O[b, n, h_v, d_v]", Array({s.b, s.n, s.h_v, s.d_v}));
        array.values() = c.heads_last ? O.values() : kernels::SwapHeads(O.values(), s.d_v, s.h_v);
        return Results{array};
      },
      changes);
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

void Check_6_4(AnyFunction function, Checker& checker) {
  std::vector<Change<KernelCase>> changes = Misreadings();
  for (const Change<BackwardCase>& one : BackwardSlips(kernels::ReferenceInputs(KernelProblems().front()))) {
    if (one.name == "scale twice") continue;  // its factor is a problem's own
    changes.push_back({one.name == "scale missing" ? "scale missing in dQ" : one.name, one.hint, [one](KernelCase& c) {
                         if (IsSquare(c)) one.make(c.backward);
                       }});
  }
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
      [&](const AttentionProblem& p, const KernelCase& c) {
        const AttentionShape& s = p.call.shape;
        BackwardCase backward = c.backward;
        backward.core = CoreOf(c, p);
        Array dO("dO[b, n, d_v, h_v]", Array({s.b, s.n, s.d_v, s.h_v}));
        dO.values() = kernels::SwapHeads(p.dO, s.h_v, s.d_v);
        const Results wrong = BackwardOf(backward, dO);
        Results results = GradientsOf(p, std::vector<const Floats*>(5, &p.in.bias));
        results[0].values() = kernels::SwapHeads(wrong[0].values(), s.d_v, s.h_v);
        results[1].values() = wrong[1].values(), results[2].values() = wrong[2].values();
        results[3].values() = kernels::SwapHeads(wrong[3].values(), s.d_k, s.h_k);
        results[4].values() = kernels::SwapHeads(wrong[4].values(), s.d_k, s.h_k);
        return results;
      },
      changes);
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

}  // namespace course
