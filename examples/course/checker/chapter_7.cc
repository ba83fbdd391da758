// Chapter 7: a language model.
#include <cmath>

#include "crosstalk/kernels/reference/optimizer_step.h"
#include "crosstalk/runtime/parallel.h"
#include "examples/course/checker/checker.h"
#include "examples/course/checker/letters.h"

namespace course {
namespace {

namespace reference = crosstalk::kernels::reference;

void Check_7_1(AnyFunction function, Checker& checker) {
  for (const double height : {1.0, 2000.0}) {
    const int64_t rows = 3, classes = 4;
    const Array logits = Random("logits[row, class]", {rows, classes}, height);
    const std::vector<int64_t> targets = {2, 0, 2};
    const auto results = [&](auto loss_of, auto target_of, double divisor_of_loss, double divisor_of_gradient) {
      double loss = 0;
      Array dlogits("dlogits[row, class]", Array({rows, classes}));
      for (int64_t row = 0; row < rows; ++row) {
        double largest = logits(row, 0), sum = 0;
        for (int64_t c = 0; c < classes; ++c) largest = std::max(largest, logits(row, c));
        for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits(row, c) - largest);
        loss += loss_of(logits(row, targets[row]) - largest - std::log(sum)) / divisor_of_loss;
        for (int64_t c = 0; c < classes; ++c) {
          dlogits(row, c) =
              (std::exp(logits(row, c) - largest) / sum - (c == targets[row] ? target_of : 0)) / divisor_of_gradient;
        }
      }
      return Results{Array("loss", Array({1}, loss)), dlogits};
    };
    const auto minus_log = [](double log_p) { return -log_p; };
    checker.Expect(
        crosstalk::StrCat("rows=3 classes=4, logits of the size ", height),
        [&] {
          const LossAndGradient r = As<Signature_7_1>(function)(logits, targets);
          return Results{Array("loss", Array({1}, r.loss)), r.dlogits};
        },
        results(minus_log, 1.0, 3, 3),
        {{"gradient of the sum", "the gradient belongs to the mean: it lacks the division by the number of rows.",
          [&] { return results(minus_log, 1.0, 3, 1); }},
         {"sum for the mean", "the loss is the mean over the rows, and so is its gradient.",
          [&] { return results(minus_log, 1.0, 1, 1); }},
         {"target not subtracted", "∂loss/∂logit = p - 1 at the target, p elsewhere: the 1 is missing.",
          [&] { return results(minus_log, 0.0, 3, 3); }},
         {"probability for its logarithm", "the loss is -ln p of the target, not -p.",
          [&] { return results([](double log_p) { return -std::exp(log_p); }, 1.0, 3, 3); }},
         {"e^x overflows", "e^2000 is infinite in a sum of many: subtract the largest logit of the row first.", [&] {
            Results wrong = results(minus_log, 1.0, 3, 3);
            double loss = 0;
            for (int64_t row = 0; row < rows; ++row) {
              double sum = 0;
              for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits(row, c));
              loss -= std::log(std::exp(logits(row, targets[row])) / sum) / 3;
            }
            wrong[0].values()[0] = loss;
            return wrong;
          }}});
  }
}

void Check_7_2(AnyFunction function, Checker& checker) {
  const std::vector<double> start = {1, -2, 0.5};
  const auto gradient = [](int64_t step) {
    const double s = static_cast<double>(step);
    return std::vector<double>{0.1 * s, -1 / s, 1e-6};
  };
  AdamSettings settings = {.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.1};
  using Step = std::function<void(const std::vector<double>&, const AdamSettings&, AdamState&)>;
  const auto run = [&](const Step& step) {
    AdamState state = {start, {0, 0, 0}, {0, 0, 0}};
    Array p({3, 3});
    for (settings.step = 1; settings.step <= 3; ++settings.step) {
      step(gradient(settings.step), settings, state);
      for (int64_t i = 0; i < 3; ++i) p(settings.step - 1, i) = state.p[static_cast<size_t>(i)];
    }
    return Results{Array("p[step, i]", p)};
  };
  struct Slips {
    bool no_correction = false, l2 = false, epsilon_inside = false, plus = false, no_decay = false;
  };
  const auto adam = [&](const Slips& slips) {
    return [&run, slips] {
      return run([slips](const std::vector<double>& g, const AdamSettings& s, AdamState& state) {
        for (size_t i = 0; i < g.size(); ++i) {
          const double gi = g[i] + (slips.l2 ? s.weight_decay * state.p[i] : 0);
          state.m[i] = s.beta1 * state.m[i] + (1 - s.beta1) * gi;
          state.v[i] = s.beta2 * state.v[i] + (1 - s.beta2) * gi * gi;
          const double step = static_cast<double>(s.step);
          const double m = slips.no_correction ? state.m[i] : state.m[i] / (1 - std::pow(s.beta1, step));
          const double v = slips.no_correction ? state.v[i] : state.v[i] / (1 - std::pow(s.beta2, step));
          const double root = slips.epsilon_inside ? std::sqrt(v + s.epsilon) : std::sqrt(v) + s.epsilon;
          const double update = m / root + (slips.l2 || slips.no_decay ? 0 : s.weight_decay * state.p[i]);
          state.p[i] -= (slips.plus ? -1 : 1) * s.learning_rate * update;
        }
      });
    };
  };
  const Results right = run([](const std::vector<double>& g, const AdamSettings& s, AdamState& state) {
    const crosstalk::kernels::AdamWOptions options = {.beta1 = s.beta1,
                                                      .beta2 = s.beta2,
                                                      .epsilon = s.epsilon,
                                                      .weight_decay = s.weight_decay,
                                                      .learning_rate = s.learning_rate,
                                                      .step = s.step};
    reference::AdamWStep<double>(static_cast<int64_t>(g.size()), options, g.data(), state.m.data(), state.v.data(),
                                 state.p.data());
  });
  checker.Expect(
      "three steps of three parameters", [&] { return run(As<Signature_7_2>(function)); }, right,
      {{"no bias correction", "m and v begin at 0 and are too small at first: divide by 1 - β^step.",
        adam({.no_correction = true})},
       {"decay in the gradient",
        "the decay is added to the gradient, and divided by √v with it: that is Adam with L2. In AdamW it is "
        "beside it.",
        adam({.l2 = true})},
       {"epsilon inside the root", "ε is added to √v, not to v.", adam({.epsilon_inside = true})},
       {"decay missing", "the decay is missing: p loses learning_rate · weight_decay · p as well.",
        adam({.no_decay = true})},
       {"uphill", "the parameters go up the gradient: subtract.", adam({.plus = true})}});
}

struct Slips_7_3 {
  bool kept = false, unclipped = false, sum = false, no_step = false;
};

double Step_7_3(TrainingStep& step, const Slips_7_3& slips) {
  const double rows = static_cast<double>(step.targets.num_elements());
  const Variable loss = Scale(crosstalk::CrossEntropy(step.logits(), step.targets).loss, slips.sum ? 1 : 1 / rows);
  Backward(loss);
  const double scale = slips.unclipped ? 1 : crosstalk::ClipScale(crosstalk::GradientNorm(step.parameters), step.clip);
  if (!slips.no_step) step.optimizer.Step(step.learning_rate, scale);
  for (const auto& parameter : step.parameters) {
    if (!slips.kept) parameter.value.ZeroGrad();
  }
  return loss.value().Item();
}

void Check_7_3(AnyFunction function, Checker& checker) {
  const auto losses = [](const std::function<double(TrainingStep&)>& step) {
    // Few steps: what rounds otherwise drifts away in many.
    Array array({12});
    array.values() = TrainLetters(1, 12, step).losses;
    return Results{Array("loss[step]", array)};
  };
  const auto with = [&](const Slips_7_3& slips) {
    return [&losses, slips] {
      const crosstalk::ThreadsScope one(1);  // a process of many threads cannot be copied for the student's function
      return losses([slips](TrainingStep& step) { return Step_7_3(step, slips); });
    };
  };
  checker.Expect(
      "the first twelve steps", [&] { return losses(As<Signature_7_3>(function)); }, with({})(),
      {{"gradients kept",
        "gradients add up from step to step: parameter.value.ZeroGrad() for each of them, after the step.",
        with({.kept = true})},
       {"not clipped", "the gradients are not clipped: give ClipScale(GradientNorm(parameters), clip) to Step.",
        with({.unclipped = true})},
       {"sum for the mean", "CrossEntropy gives a sum: Scale it by 1 / rows before Backward.", with({.sum = true})},
       {"no step", "nothing is learnt: optimizer.Step(learning_rate, scale) is missing.", with({.no_step = true})}},
      1e-4);
  double mean = 0;
  std::string each;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const Results trained = checker.Call(
        [&] { return Results{Array({1}, TrainLetters(seed, kReferenceSteps, As<Signature_7_3>(function)).held_out)}; });
    const double held_out = trained.at(0).values().at(0);
    mean += held_out / 3;
    char text[20];
    std::snprintf(text, sizeof(text), "%s%.3f", seed == 1 ? "" : ", ", held_out);
    each += text;
  }
  char text[200];
  std::snprintf(text, sizeof(text), "held-out nats a letter, seeds 1 to 3: %s; the reference, ten seeds: %.3f ± %.3f",
                each.c_str(), kReferenceHeldOut, kReferenceDeviation);
  checker.Note(text);
  checker.Measure("held_out", mean);
  checker.Require(mean < kReferenceHeldOut + 4 * kReferenceDeviation,
                  "the trained model is worse than it should be: " + each);
}

void Check_7_4(AnyFunction function, Checker& checker) {
  for (const int64_t N : {4, 7}) {
    const int64_t H = 3;
    // Causal weights: those of a query sum to 1.
    Array W("W[h, n, m]", Random("W[h, n, m]", {H, N, N}));
    for (int64_t h = 0; h < H; ++h)
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t m = 0; m < N; ++m) sum += W(h, n, m) = m <= n ? std::exp(W(h, n, m)) : 0;
        for (int64_t m = 0; m <= n; ++m) W(h, n, m) /= sum;
      }
    const auto scores = [&](auto element, int64_t count) {
      Array score("score[h]", Array({H}));
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t n = 1; n < N; ++n) score(h) += element(h, n) / static_cast<double>(count);
      }
      return Results{score};
    };
    const auto previous = [&](int64_t h, int64_t n) { return W(h, n, n - 1); };
    checker.Expect(
        crosstalk::StrCat("h=", H, " n=", N, " m=", N),
        [&] {
          Array score({H});
          score.values() = As<Signature_7_4>(function)(W);
          if (score.values().size() != static_cast<size_t>(H)) throw NoResult("a score for each head is asked");
          return Results{score};
        },
        scores(previous, N - 1),
        {{"first position counted",
          "the first position has none before it: the mean is over n = 1, …, that is n - 1 of them.",
          [&] { return scores(previous, N); }},
         {"itself", "W[h, n, n] is the weight of a position for itself: the one before it is m = n - 1.",
          [&] { return scores([&](int64_t h, int64_t n) { return W(h, n, n); }, N - 1); }},
         {"queries and memory swapped", "W[h, n - 1, n] is masked: query n looks back at position m = n - 1.",
          [&] { return scores([&](int64_t h, int64_t n) { return W(h, n - 1, n); }, N - 1); }}});
  }
}

}  // namespace

std::vector<Exercise> Chapter7() {
  return {{"7.1", 2, "cross-entropy and its gradient", Check_7_1},
          {"7.2", 2, "a step of AdamW", Check_7_2},
          {"7.3", 3, "a training step", Check_7_3, 120},
          {"7.4", 2, "which head looks back", Check_7_4}};
}

}  // namespace course
