// HeldOut: what a run is measured on: text by the model's loss, tasks by its answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/objectives/batches.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class HeldOut {
 public:
  virtual ~HeldOut() = default;

  // Error(kNumerical) if a measure of text is not finite.
  virtual EvaluationResult Evaluate(const Model& model, const EvaluationObserver& observer) const = 0;
  // Nats a target that no model can undercut; nothing where that is not known, or `stop` says so.
  virtual std::optional<double> LossLowerBound(const std::function<bool()>& stop) const = 0;
  // What a model must beat to have learnt anything: for each measure that has one, that of the best constant answer.
  // Nothing where `stop` says so.
  virtual std::optional<std::vector<Metric>> ConstantGuess(const std::function<bool()>& stop) const = 0;
};

std::unique_ptr<HeldOut> MakeHeldOutText(std::unique_ptr<EvaluationBatches> batches);

// Every held-out row of each task. The measures are `score`, the mean over the tasks of MainScore, by which
// checkpoints are ranked, and each task's own as TASK_MEASURE; one that is not defined, such as the correlation with
// answers that are all the same, is NaN, and counts as 0 in the score.
std::unique_ptr<HeldOut> MakeHeldOutTasks(const TrainingConfig& config, std::shared_ptr<const TaskSet> tasks,
                                          std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace crosstalk
