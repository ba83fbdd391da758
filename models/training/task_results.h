// A finetuned model's answers, as files in the tasks' official formats, and its scores.
//
//   predictions/dev/…   of the held-out rows      scores.json   the measures of those, beside the best constant
//   answer's predictions/test/…  of the test rows
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosstalk/models/inspection/mixing.h"
#include "crosstalk/models/model.h"
#include "crosstalk/models/tasks/task_set.h"
#include "crosstalk/models/text/corpus.h"
#include "crosstalk/models/text/tokenizer.h"
#include "crosstalk/models/training/config.h"
#include "crosstalk/models/training/trained.h"
#include "crosstalk/runtime/dtype.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/op_context.h"

#pragma GCC visibility push(default)
namespace crosstalk {

// Answers to one task's rows, and the measures of those rows that have answers of their own; empty if none has.
struct TaskResult {
  const TaskType* type = nullptr;
  TaskSplit split = TaskSplit::kDev;
  std::vector<TaskPrediction> predictions;
  std::vector<Metric> measures, constant_guess = {};  // NaN: not defined
  std::optional<double> no_answer_threshold;          // of predictions that say how sure they are that there is none
};
// Answers that are less likely than that there is none are emptied: above `no_answer_threshold`, or if that is not
// given above the threshold that scores best on these rows, or if they have no answers of their own above one half.
// `constant_guess` is not filled in.
TaskResult AnswerTask(const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer,
                      const TaskType& type, TaskSplit split, const std::vector<TaskRow>& rows,
                      const Observer& observer = {}, std::optional<double> no_answer_threshold = std::nullopt);

// The measures of the best constant answer to those rows that have answers; empty if none has.
std::vector<Metric> ConstantGuessOf(const TaskType& type, const std::vector<TaskRow>& rows);

// The mean over the tasks that were measured of MainScore; one that is not defined counts as 0. NaN if none was
// measured.
double MeanScore(const std::vector<TaskResult>& results);

// {"score", "tasks": {"cola": {"score", "matthews_correlation", …, "constant_guess": {…}}}}: of results with measures.
// One that is not defined is null. "score" is MeanScore.
Json ScoresJson(const std::vector<TaskResult>& results);

// Writes a task's official files into `folder`/dev or /test; returns their paths.
std::vector<std::string> WriteAnswers(const TaskResult& result, const std::vector<TaskRow>& rows,
                                      const std::string& folder);

// All held-out and test rows of the tasks, answered by the model of the run's best checkpoint: the folder's predictions
// and scores.json, which names that checkpoint's "step" and the "steps" of the run.
void WriteTaskResults(const std::string& run_folder, int64_t steps, const TaskSet& tasks,
                      const Observer& observer = {});
// Whether they are there, of a run of so many steps: one that has gone on since has to answer again.
bool HasTaskResults(const std::string& run_folder, int64_t steps);

// The head projections of a run: as it began and as it stands.

// Those of one model, and which that is: "initial values of seed 1", "step 2000".
struct MixingState {
  std::string label;
  std::vector<LayerMixing> layers;
};

struct RunMixing {
  // The initial values are a function of configuration and seed, and are recomputed. A run that began with another's
  // weights has them from its checkpoint of step 0, or from the origin, where one of these still is there.
  std::optional<MixingState> initial;
  std::string no_initial;  // why there is none, or ""
  MixingState current;     // of the newest good checkpoint
  // Why the dynamic projections were not measured on held-out text, or "".
  std::string not_measured;
  Precision measured_in = Precision::kFloat32;
};

// The mixing of the run in a folder whose newest good checkpoint is `newest`; the dynamic projections are measured on
// its first held-out batch, in the precision of newest.model. `held_out`: the run's held-out text, where it is open
// already. most_cubes: of each state, as of MixingOf.
RunMixing MixingOfRun(const std::string& run_folder, const Trained& newest,
                      std::shared_ptr<const TextSource> held_out = nullptr, int64_t most_cubes = kAllCubes);

}  // namespace crosstalk
#pragma GCC visibility pop
