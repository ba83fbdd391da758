// The held-out measure of a model, and how a run keeps it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

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

// A held-out measure of a run. As JSON, each metric is a member under its name.
struct RunEvaluation {
  int64_t step = 0;
  EvaluationResult result = {};
  Baselines baselines = {};
};

// {"step", each metric, "loss_lower_bound", "constant_guess", "tokens", "examples"}, the guess, an object, where there
// is one.
Json ToJson(const RunEvaluation& evaluation);
// A line of metrics.jsonl: the same with {"event": "eval"} before and "seconds" after.
Json EvaluationEvent(const RunEvaluation& evaluation);
// A member of a checkpoint's state.json, and back. Error(kData) for what is not one of a run at `step`.
Json EvaluationState(const RunEvaluation& evaluation);
RunEvaluation EvaluationFromState(const JsonReader& reader, int64_t step);

// Adds each metric under its name; one that is not defined is null.
void SetMetrics(Json& json, const std::vector<Metric>& metrics);

}  // namespace crosstalk
