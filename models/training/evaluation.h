// The held-out measure of a model, and how a run keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/record.h"

#pragma GCC visibility push(default)
namespace crosstalk {

struct EvaluationResult {
  std::vector<Metric> metrics;  // the first is the score
  int64_t tokens = 0;           // target tokens that are not padding; 0: answers to tasks were measured
  int64_t examples = 0;
  double seconds = 0;
};

// By a model's loss on batches of text. No dropout, no z-loss, nothing recorded. Error(kNumerical) if a measure is not
// finite; Interrupted where observer.stop, asked before every batch, says so.
EvaluationResult Evaluate(const Model& model, const EvaluationBatches& batches, const Observer& observer = {});

// The same in shares: what the batches begin … end-1 give, and the result of all shares in their order.
struct EvaluationSums {
  std::vector<std::vector<MetricSum>> batches;
  int64_t tokens = 0, examples = 0;
};
EvaluationSums SumsOf(const Model& model, const EvaluationBatches& batches, int64_t begin, int64_t end,
                      const Observer& observer = {});
EvaluationResult ResultOf(const std::vector<EvaluationSums>& shares);

// The references of a measure.
struct Baselines {
  std::optional<double> entropy_bound = {};  // nats a target that no model can undercut, where the text knows it
  // For each measure that has one, that of the best constant answer: what a model must beat to have learnt anything.
  std::vector<Metric> constant_guess = {};
};

// A held-out measure of a run, and a member of a checkpoint's state.json.
struct RunEvaluation {
  int64_t step = 0;
  EvaluationResult result = {};
  Baselines baselines = {};

  static FieldTable<RunEvaluation> Fields();
  static constexpr UnknownKeys kUnknownKeys = UnknownKeys::kPassedOver;
};

// As it is printed: {"step", each metric, "loss_lower_bound", "constant_guess", "tokens", "examples"}, the guess, an
// object, if there is one.
Json EvaluationMembers(const RunEvaluation& evaluation);
// A line of metrics.jsonl: the same with {"event": "eval"} before and "seconds" after.
Json EvaluationEvent(const RunEvaluation& evaluation);

// HeldOut: what a run is measured on: text by the model's loss, tasks by its answers.

class HeldOut {
 public:
  virtual ~HeldOut() = default;

  // Error(kNumerical) if a measure of text is not finite. Both: Interrupted if they are asked to stop.
  virtual EvaluationResult Evaluate(const Model& model, const Observer& observer) const = 0;
  virtual Baselines FindBaselines(const StopRequest& stop) const = 0;
  // The batches that Evaluate measures a loss on, which ranks can share; null: it asks for answers.
  virtual const EvaluationBatches* batches() const { return nullptr; }
};

std::unique_ptr<HeldOut> MakeHeldOutText(std::unique_ptr<EvaluationBatches> batches);

// All of a text, as published language models are measured on one: windows of `length` tokens that begin `stride`
// apart. A window scores the tokens that none before it has: the first all of its own that a token precedes, the others
// their last `stride` ones, or what is left of the text. Each has length - stride tokens before it at least, except at
// the text's start. Which windows are computed together follows from `length` alone, so no option changes a bit.
//
// The measures are ln_ppl, the mean of the scored tokens' -ln p, and their sum over the text's bytes and over its words
// (of the text itself, parted by Unicode's white space): nats_per_byte and nats_per_word; then e to each of them.
struct WindowOptions {
  int64_t length = 0;
  int64_t stride = 0;
};
// Error(kUsage) of the field "length" for a model that is no language model, or a window of more than its context; of
// "stride" for one that is not below the length; for a text without an end. Error(kData) for a text of one token.
std::unique_ptr<HeldOut> MakeHeldOutWindows(const ModelConfig& model, const TextSource& text,
                                            const Tokenizer& tokenizer, const WindowOptions& options);

// Every held-out row of each task. The measures are `score`, the mean over the tasks of MainScore, by which
// checkpoints are ranked, and each task's own as TASK_MEASURE; one that is not defined, such as the correlation with
// answers that are all the same, is NaN, and counts as 0 in the score.
std::unique_ptr<HeldOut> MakeHeldOutTasks(const TrainingConfig& config, std::shared_ptr<const TaskSet> tasks,
                                          std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace crosstalk
#pragma GCC visibility pop
