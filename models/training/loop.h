// Loop: training in memory. A step is a pure function of (parameters, optimizer state, step, seed). What a run keeps in
// its folder is run.h's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/data.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/models/training/ranks/reducer.h"
#include "crosstalk/models/training/ranks/session.h"
#include "crosstalk/nn/optim/optimizer.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct LoopOptions {
  ScheduleConfig schedule;
  double clip_norm = 0;  // 0: none
  LossOptions loss;
  LossDenominator denominator = LossDenominator::kTokens;
  uint64_t seed = 0;  // of dropout
};
LoopOptions MakeLoopOptions(const OptimizationConfig& config);

struct StepResult {
  int64_t step = 0;             // steps done, this one counted
  double loss = 0;              // what was minimised: z-loss included, over the denominator
  std::vector<Metric> metrics;  // of the step's batch, before the update
  double learning_rate = 0;
  double gradient_norm = 0;   // before clipping
  int64_t target_tokens = 0;  // that are not padding
  int64_t tokens = 0;         // the same, inputs counted too
  // Wall time: all that is not reproducible.
  double seconds = 0;  // of the whole step, the wait for its batches included
  // Sums over the parts' passes if they run one after another; means over threads that compute them beside each other.
  double forward_seconds = 0;
  double backward_seconds = 0;
  GradientReducer::Exchange exchange = {};
};

// A line of metrics.jsonl: {"event": "train", "step", "loss", each metric, …, "tokens_per_second"}.
Json StepEvent(const StepResult& step);

// Callbacks of a loop, and of a run in a folder. Any may be empty.
struct TrainingObserver {
  std::function<void(const std::string& message)> message = {};  // of a run: a sentence for the user
  std::function<void(const StepResult& step)> step = {};
  std::function<void(const RunEvaluation& evaluation)> evaluation = {};  // of a run
  // Asked before every step: true ends a loop, and a run with a checkpoint; and while a run prepares its data, which
  // then ends with Interrupted.
  StopRequest stop = {};

  void Report(const std::string& text) const {
    if (message) message(text);
  }
};

class Loop {
 public:
  // Refers to its arguments but the last two, which must outlive it. The parts that `batches` is asked for are the
  // reducer's.
  Loop(const Model& model, BatchSource& batches, Optimizer& optimizer, GradientReducer& reducer,
       const LoopOptions& options, TrainingObserver observer = {});

  // Steps done: the optimizer's count, which checkpoints keep.
  int64_t step() const { return optimizer_.step(); }

  // Steps until `steps` are done or the observer asks to stop. Errors of Step.
  enum class End { kFinished, kStopped };
  End Train(int64_t steps);

  // One step. A loss or gradient that is not finite throws Error(kNumerical), naming the layer and operation that
  // produced the first such value (the step is computed again to find it); parameters and optimizer state are then as
  // they were before.
  StepResult Step();

 private:
  using GradientDone = std::function<void(size_t parameter)>;
  LossSum ComputePart(const Batch& batch, int64_t part, const LossScales& scales, const GradientDone& done,
                      StepResult* result) const;
  void ReducePart(const Batch& batch, int64_t part, const LossScales& scales, StepResult* result);
  void ReduceBesideEachOther(const std::vector<Batch>& batches, const LossScales& scales, StepResult* result);
  void ZeroGradients() const;
  [[noreturn]] void ExplainNonFinite(const std::vector<Batch>& batches, const LossScales& scales,
                                     const char* what) const;

  const Model& model_;
  BatchSource& batches_;
  Optimizer& optimizer_;
  GradientReducer& reducer_;
  LoopOptions options_;
  TrainingObserver observer_;
  std::vector<NamedParameter> parameters_;
  std::vector<Variable> leaves_;  // their values
};

}  // namespace crosstalk
#pragma GCC visibility pop

namespace crosstalk {

// TrainingInMemory: what a configuration trains, without a run's folder: its model at the first values, its optimizer,
// its batches, and the loop over them.
//
//   const TrainingData data = OpenTrainingData(*config);
//   TrainingInMemory training(*config, data);
//   training.loop().Train(100);

class TrainingInMemory {
 public:
  // On rank 0 of `ranks`, with those that serve it, or if that is null by itself. Refers to both. Errors of
  // RankLeader.
  TrainingInMemory(const ResolvedConfig& config, const TrainingData& data, RankGroup* ranks);
  // `config` is resolved. Refers to `data`.
  TrainingInMemory(const TrainingConfig& config, const TrainingData& data)
      : TrainingInMemory(config, data, VocabularyOf(config, data.tokenizer.get()),
                         MakeLoopOptions(config.optimization)) {}
  // With another vocabulary than that of the data's tokenizer, as long as it has all its ids. Refers to the reducer,
  // if there is one, which has the parts of a step. Interrupted where `stop` says so.
  TrainingInMemory(const TrainingConfig& config, const TrainingData& data, const Vocabulary& vocabulary,
                   const LoopOptions& options, GradientReducer* reducer = nullptr, const StopRequest& stop = {});

  const Model& model() const { return *model_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  Loop& loop() { return loop_; }

 private:
  GradientReducer& reducer();

  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  LocalReducer alone_;
  GradientReducer* given_ = nullptr;
  std::unique_ptr<RankLeader> ranks_;  // null: this process alone
  std::unique_ptr<BatchSource> batches_;
  Loop loop_;
};

}  // namespace crosstalk
