// HeldOut: what a run is measured on: text by the model's loss, tasks by its answers.
#pragma once

#include <memory>
#include <vector>

#include "crosstalk/models/metrics.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/evaluation.h"
#include "crosstalk/models/training/objectives/batches.h"
#include "crosstalk/runtime/visibility.h"

namespace CROSSTALK_PUBLIC crosstalk {

class HeldOut {
 public:
  virtual ~HeldOut() = default;

  // Error(kNumerical) if a measure of text is not finite. Both: Interrupted where they are asked to stop.
  virtual EvaluationResult Evaluate(const Model& model, const Observer& observer) const = 0;
  virtual Baselines FindBaselines(const StopRequest& stop) const = 0;
  // The batches that Evaluate measures a loss on, which ranks can share; null: it asks for answers.
  virtual const EvaluationBatches* batches() const { return nullptr; }
};

std::unique_ptr<HeldOut> MakeHeldOutText(std::unique_ptr<EvaluationBatches> batches);

// Every held-out row of each task. The measures are `score`, the mean over the tasks of MainScore, by which
// checkpoints are ranked, and each task's own as TASK_MEASURE; one that is not defined, such as the correlation with
// answers that are all the same, is NaN, and counts as 0 in the score.
std::unique_ptr<HeldOut> MakeHeldOutTasks(const TrainingConfig& config, std::shared_ptr<const TaskSet> tasks,
                                          std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace crosstalk
