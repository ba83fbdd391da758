#include "crosstalk/models/training/task_results.h"

#include <algorithm>
#include <cmath>

#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/training/objectives/encoder_answers.h"
#include "crosstalk/models/training/objectives/objective.h"
#include "crosstalk/models/training/trained_model.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/op_context.h"

namespace crosstalk {
namespace {

Json OrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json MeasuresJson(const TaskType& type, const std::vector<Metric>& measures) {
  Json json = Json::MakeObject({{"score", OrNull(MainScore(type, measures))}});
  for (const Metric& one : measures) json.Set(one.name, OrNull(one.value));
  return json;
}

// Those elements of `all`, which are of the rows, whose rows have answers.
template <typename T>
std::vector<T> OfLabelled(const std::vector<TaskRow>& rows, const std::vector<T>& all) {
  std::vector<T> labelled;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].labelled) labelled.push_back(all[i]);
  }
  return labelled;
}

// The rows that have answers: most often all, or none.
class LabelledRows {
 public:
  explicit LabelledRows(const std::vector<TaskRow>& rows)
      : rows_(rows),
        all_(std::all_of(rows.begin(), rows.end(), [](const TaskRow& row) { return row.labelled; })),
        some_(all_ ? std::vector<TaskRow>() : OfLabelled(rows, rows)) {}

  const std::vector<TaskRow>& rows() const { return all_ ? rows_ : some_; }
  bool empty() const { return rows().empty(); }

 private:
  const std::vector<TaskRow>& rows_;
  bool all_;
  std::vector<TaskRow> some_;
};

}  // namespace

TaskResult AnswerTask(const TrainingConfig& config, const Model& model, const Tokenizer& tokenizer,
                      const TaskType& type, TaskSplit split, const std::vector<TaskRow>& rows, const Observer& observer,
                      std::optional<double> no_answer_threshold) {
  const ContextScope no_grad = NoGrad();
  TaskResult result;
  result.type = &type;
  result.split = split;
  result.predictions = ObjectiveOf(config).answer(config.objective, model, tokenizer, type, rows, observer);
  const LabelledRows labelled(rows);
  const bool says = std::all_of(result.predictions.begin(), result.predictions.end(),
                                [](const TaskPrediction& one) { return one.no_answer.has_value(); });
  if (type.may_lack_answers && says) {
    if (!no_answer_threshold && !labelled.empty()) {
      no_answer_threshold = BestNoAnswerThreshold(type, labelled.rows(), OfLabelled(rows, result.predictions));
    }
    result.no_answer_threshold = no_answer_threshold.value_or(kEvenNoAnswer);
    EmptyAnswersAbove(*result.no_answer_threshold, &result.predictions);
  }
  if (!labelled.empty()) {
    result.measures = type.score(type, labelled.rows(), OfLabelled(rows, result.predictions));
  }
  return result;
}

std::vector<Metric> ConstantGuessOf(const TaskType& type, const std::vector<TaskRow>& rows) {
  const LabelledRows labelled(rows);
  if (labelled.empty()) return {};
  return BestConstantAnswer(type, labelled.rows()).measures;
}

double MeanScore(const std::vector<TaskResult>& results) {
  double sum = 0, count = 0;
  for (const TaskResult& result : results) {
    if (result.measures.empty()) continue;
    const double score = MainScore(*result.type, result.measures);
    sum += std::isfinite(score) ? score : 0;
    ++count;
  }
  return sum / count;
}

Json ScoresJson(const std::vector<TaskResult>& results) {
  Json tasks = Json::MakeObject();
  for (const TaskResult& result : results) {
    if (result.measures.empty()) continue;
    Json task = MeasuresJson(*result.type, result.measures);
    if (result.no_answer_threshold) task.Set("no_answer_threshold", *result.no_answer_threshold);
    tasks.Set(result.type->name, task.Set("constant_guess", MeasuresJson(*result.type, result.constant_guess)));
  }
  return Json::MakeObject({{"score", OrNull(MeanScore(results))}, {"tasks", tasks}});
}

std::vector<std::string> WriteAnswers(const TaskResult& result, const std::vector<TaskRow>& rows,
                                      const std::string& folder) {
  const std::string inner = StrCat(folder, "/", Name(result.split));
  CreateDirectories(inner);
  std::vector<std::string> paths;
  for (const TaskFile& file : result.type->write(*result.type, rows, result.predictions, result.split)) {
    paths.push_back(StrCat(inner, "/", file.name));
    WriteFileAtomically(paths.back(), file.contents);
  }
  return paths;
}

void WriteTaskResults(const std::string& run_folder, const TaskSet& tasks, const Observer& observer) {
  const TrainedModel best = LoadTrainedModel(run_folder, WhichCheckpoint::kBest);
  std::vector<TaskResult> results;
  for (const TaskData& task : tasks.tasks) {
    std::optional<double> threshold;  // of the held-out rows, for the test rows too
    for (const auto& [split, rows] : {std::pair(TaskSplit::kDev, task.dev), std::pair(TaskSplit::kTest, task.test)}) {
      if (rows == nullptr) continue;
      TaskResult result =
          AnswerTask(best.config, *best.model, *best.tokenizer, *task.type, split, *rows, observer, threshold);
      threshold = result.no_answer_threshold;
      WriteAnswers(result, *rows, run_folder + "/predictions");
      if (split == TaskSplit::kTest) continue;
      result.constant_guess = ConstantGuessOf(*task.type, *rows);
      results.push_back(std::move(result));
    }
  }
  Json scores =
      Json::MakeObject({{"step", best.step}, {"steps", ReadRunConfig(RunFolder(run_folder)).optimization.steps}});
  const Json measured = ScoresJson(results);
  scores.Set("score", measured.At("score")).Set("tasks", measured.At("tasks"));
  WriteFileAtomically(RunFolder(run_folder).ScoresFile(), scores.DumpPretty());
}

bool HasTaskResults(const std::string& run_folder, int64_t steps) {
  const std::string path = RunFolder(run_folder).ScoresFile();
  if (KindOf(path) == PathKind::kNothing) return false;
  const Json scores = ReadJsonFile(path);
  const Json* of_steps = scores.Find("steps");
  return of_steps != nullptr && *of_steps == Json(steps);
}

}  // namespace crosstalk
