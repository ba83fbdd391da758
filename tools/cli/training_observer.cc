#include "tools/cli/training_observer.h"

#include <chrono>
#include <cmath>
#include <memory>

#include "tools/cli/format.h"
#include "tools/cli/output.h"

namespace crosstalk {

namespace {

// Time left, from the speed of the steps of this process so far.
class Pace {
 public:
  explicit Pace(int64_t steps) : steps_(steps) {}
  double SecondsLeft(int64_t step) {
    const auto now = std::chrono::steady_clock::now();
    if (first_step_ < 0) {
      first_step_ = step;
      first_time_ = now;
      return -1;
    }
    const double elapsed = std::chrono::duration<double>(now - first_time_).count();
    return elapsed / static_cast<double>(step - first_step_) * static_cast<double>(steps_ - step);
  }

 private:
  int64_t steps_;
  int64_t first_step_ = -1;
  std::chrono::steady_clock::time_point first_time_;
};

}  // namespace

TrainingObserver MakeTrainingObserver(Progress& progress, const StopSignals& signals, int64_t steps) {
  TrainingObserver observer;
  observer.message = [](const std::string& message) { PrintMessage(message); };
  observer.step = [&progress, steps, pace = std::make_shared<Pace>(steps)](const StepResult& step) {
    const double left = pace->SecondsLeft(step.step);
    const std::string rate = CountText(static_cast<int64_t>(static_cast<double>(step.tokens) / step.seconds));
    progress.Update(StrCat("step ", step.step, "/", steps, "  loss ", FixedText(step.loss, 3), "  ",
                           MetricsText(step.metrics, 3), "  ", rate, " tokens/s",
                           left < 0 ? "" : "  " + DurationText(left) + " left"));
  };
  observer.evaluation = [&progress, steps](const RunEvaluation& evaluation) {
    progress.Last(StrCat("step ", evaluation.step, "/", steps, "  ", Bold(EvaluationText(evaluation))));
  };
  observer.stop = [&signals] { return signals.Received() != 0; };
  return observer;
}

std::string MetricText(const Metric& metric, double value, int digits) {
  if (std::isnan(value)) return "undefined";
  return DisplayOf(metric).is_share ? FixedText(100 * value, digits - 2) + " %" : FixedText(value, digits);
}

std::string MetricsText(const std::vector<Metric>& metrics, int digits, const std::vector<Metric>& constant_guess) {
  std::string text;
  for (const Metric& metric : metrics) {
    text += StrCat(text.empty() ? "" : "  ", DisplayOf(metric).label, " ", MetricText(metric, metric.value, digits));
    for (const Metric& guess : constant_guess) {
      if (guess.name != metric.name) continue;
      text += StrCat(" (constant guess ", MetricText(guess, guess.value, digits), ")");
    }
  }
  return text;
}

std::string EvaluationText(const RunEvaluation& evaluation) {
  return StrCat("held-out ", MetricsText(evaluation.result.metrics, 4, evaluation.baselines.constant_guess), " over ",
                evaluation.result.tokens > 0 ? CountText(evaluation.result.tokens) + " tokens"
                                             : CountText(evaluation.result.examples) + " answers",
                BoundText(evaluation));
}

std::string BoundText(const RunEvaluation& evaluation) {
  const auto& metrics = evaluation.result.metrics;
  const bool beside = !metrics.empty() && metrics[0].name == "ln_ppl";
  return beside && evaluation.baselines.entropy_bound
             ? ", entropy bound " + FixedText(*evaluation.baselines.entropy_bound, 3)
             : "";
}

}  // namespace crosstalk
