// A measured step: one of a training in memory, as bench, an experiment's rate, trace and simulate time it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/loop.h"
#include "crosstalk/models/training/ranks/rank_group.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/runtime/measure.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {

// When what happens in a step does, by the clock of the step without the time for adding gradients.
struct StepTimes {
  struct Part {
    std::vector<double> gradients;  // by parameter
    double end = 0;
  };
  double adding_seconds = 0;  // of the step's gradients to each other
  double batches_made = 0, parts_begin = 0, parts_end = 0, squares_known = 0, updated = 0;
  std::vector<Part> parts;
};

// Sums parts here, as a step on one process does, but takes each gradient as soon as it is complete, as a rank does.
class TimedReducer : public LocalReducer {
 public:
  explicit TimedReducer(int64_t parts) : LocalReducer(parts) {}

  void Start() override {
    watch_ = {};
    times_ = {};
  }
  StepCounts Begin(const StepCounts& here, size_t parameters) override {
    times_.batches_made = Now();
    times_.parts.assign(parts().size(), {.gradients = std::vector<double>(parameters)});
    reached_.assign(parameters, false);
    const StepCounts counts = LocalReducer::Begin(here, parameters);
    times_.parts_begin = Now();
    return counts;
  }
  bool overlaps() const override { return true; }
  void AddGradient(int64_t part, size_t parameter, Tensor gradient) override {
    times_.parts[static_cast<size_t>(part)].gradients[parameter] = Now();
    if (gradient.defined()) reached_[parameter] = true;
    const Stopwatch adding;
    LocalReducer::AddGradient(part, parameter, std::move(gradient));
    times_.adding_seconds += adding.seconds();
  }
  void AddLoss(int64_t part, LossSum sum) override {
    MessageWriter message;
    message.Int(part).Double(sum.loss);
    WriteSums(sum.metrics, message);
    loss_bytes_ = std::ssize(message.bytes());
    LocalReducer::AddLoss(part, std::move(sum));
    times_.parts[static_cast<size_t>(part)].end = Now();
  }
  StepSum Finish() override {
    StepSum sum = LocalReducer::Finish();
    times_.parts_end = Now();
    return sum;
  }
  void ShareSquares(std::vector<double>& /*squares*/) override { times_.squares_known = Now(); }
  void ShareParameters() override { times_.updated = Now(); }

  const StepTimes& times() const { return times_; }
  bool reached(size_t parameter) const { return reached_[parameter]; }
  int64_t loss_bytes() const { return loss_bytes_; }

 private:
  double Now() const { return watch_.seconds() - times_.adding_seconds; }

  Stopwatch watch_;
  StepTimes times_;
  std::vector<bool> reached_;
  int64_t loss_bytes_ = 0;
};

struct MeasuredStep {
  StepResult result;
  StepTimes times;                 // where the reducer is timed
  std::vector<TraceEvent> events;  // where the step is traced
};

struct Measuring {
  int64_t warm_ups = 0;  // steps before those that count
  int64_t repetitions = 1;
  double most_seconds = std::numeric_limits<double>::infinity();  // after them no further step begins
  bool traced = false;
  const TimedReducer* reducer = nullptr;  // the loop's
  StopRequest stop = {};
  std::function<void(int64_t done)> progress = {};  // after each step that counts
};

// At least one step. Interrupted where `stop` says so; errors of Loop::Step.
std::vector<MeasuredStep> MeasureSteps(Loop& loop, const Measuring& measuring);

// What a measurement of so many steps trains. Error(kUsage) where it would begin with another run's weights.
ResolvedConfig MeasuredConfig(TrainingConfig chosen, int64_t steps);

}  // namespace crosstalk
