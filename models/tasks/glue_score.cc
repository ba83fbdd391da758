#include "crosstalk/models/tasks/glue_score.h"

#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/scored_rows.h"

namespace crosstalk {

std::vector<Metric> ScoreAccuracy(const TaskType& type, const std::vector<TaskRow>& rows,
                                  const std::vector<TaskPrediction>& predictions) {
  const ScoredClasses classes = ClassesOf(type, rows, predictions);
  return {{"accuracy", Accuracy(classes.targets, classes.answers)}};
}

std::vector<Metric> ScoreCola(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions) {
  const ScoredClasses classes = ClassesOf(type, rows, predictions);
  return {{"matthews_correlation", Matthews(classes.targets, classes.answers)}};
}

std::vector<Metric> ScoreAccuracyAndF1(const TaskType& type, const std::vector<TaskRow>& rows,
                                       const std::vector<TaskPrediction>& predictions) {
  const ScoredClasses classes = ClassesOf(type, rows, predictions);
  return {{"accuracy", Accuracy(classes.targets, classes.answers)}, {"f1", BinaryF1(classes.targets, classes.answers)}};
}

std::vector<Metric> ScoreStsB(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions) {
  constexpr double kNoNumber = -1;  // as T5 has it
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kIsAnError);
  std::vector<double> targets, answers;
  for (size_t i = 0; i < rows.size(); ++i) {
    targets.push_back(rows[i].number);
    answers.push_back(NumberOfAnswer(of_rows[i]->answer).value_or(kNoNumber));
  }
  return {{"pearson", Pearson(targets, answers)}, {"spearmanr", Spearman(targets, answers)}};
}

}  // namespace crosstalk
