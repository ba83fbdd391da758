#include "crosstalk/models/tasks/squad_score.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "crosstalk/models/tasks/answer_text.h"
#include "crosstalk/models/tasks/scored_rows.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// The scores of a question of SQuAD 2.0.
struct Scored {
  bool has_answer = false;
  bool predicted = false;  // that there is an answer: its text is not empty
  AnswerMatch match;       // whatever the prediction says of there being none
  const TaskPrediction* prediction = nullptr;
};

// Answers that leave no words count as none at all; without any the right answer is the empty one.
std::vector<std::string> RightAnswers(const TaskRow& row) {
  std::vector<std::string> right;
  for (const TaskAnswer& answer : row.answers) {
    if (!AnswerWords(answer.text).empty()) right.push_back(answer.text);
  }
  if (right.empty()) right.emplace_back();
  return right;
}

std::vector<Scored> ScoreEach(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions) {
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kIsAnError);
  std::vector<Scored> scored;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TaskPrediction& prediction = *of_rows[i];
    if (prediction.no_answer.has_value() != of_rows[0]->no_answer.has_value()) {
      Fail(ErrorKind::kData, type.name, ": some predictions say how probable it is that there is no answer, that of ",
           Quoted(rows[prediction.no_answer ? 0 : i].id), " does not");
    }
    if (prediction.no_answer && std::isnan(*prediction.no_answer)) {
      Fail(ErrorKind::kData, type.name, ": the probability that ", Quoted(rows[i].id),
           " has no answer is not a number");
    }
    scored.push_back({!rows[i].answers.empty(), !prediction.answer.empty(),
                      BestMatch(prediction.answer, RightAnswers(rows[i]), NoWords::kMatchEachOther), &prediction});
  }
  return scored;
}

AnswerMatch WithThreshold(const Scored& one, double threshold) {
  const std::optional<double>& no_answer = one.prediction->no_answer;
  if (!no_answer || !(*no_answer > threshold)) return one.match;
  const double right = one.has_answer ? 0 : 1;
  return {right, right};
}

// Appends exact, f1 and total of those that `counts`, in the order of the rows, in which the script sums them up.
template <typename Counts>
void AddSums(const std::string& prefix, const std::vector<Scored>& scored, double threshold, const Counts& counts,
             std::vector<Metric>* measures) {
  double exact = 0, f1 = 0, total = 0;
  for (const Scored& one : scored) {
    if (!counts(one)) continue;
    const AnswerMatch match = WithThreshold(one, threshold);
    exact += match.exact;
    f1 += match.f1;
    ++total;
  }
  if (total == 0) return;
  measures->push_back({prefix + "exact", 100.0 * exact / total});
  measures->push_back({prefix + "f1", 100.0 * f1 / total});
  measures->push_back({prefix + "total", total});
}

// As if there were no answer anywhere at first, then with the answers of those that are least sure of that.
void AddBest(const std::string& name, double AnswerMatch::*measure, const std::vector<Scored>& sorted,
             std::vector<Metric>* measures) {
  const auto unanswerable =
      std::count_if(sorted.begin(), sorted.end(), [](const Scored& one) { return !one.has_answer; });
  double score = static_cast<double>(unanswerable), best = score, threshold = 0;
  for (const Scored& one : sorted) {
    score += one.has_answer ? one.match.*measure : one.predicted ? -1 : 0;
    if (score > best) best = score, threshold = *one.prediction->no_answer;
  }
  measures->push_back({"best_" + name, 100.0 * best / static_cast<double>(sorted.size())});
  measures->push_back({"best_" + name + "_thresh", threshold});
}

}  // namespace

std::vector<Metric> ScoreSquad(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<TaskPrediction>& predictions) {
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kScoresZero);
  double exact = 0, f1 = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (of_rows[i] == nullptr) continue;
    if (rows[i].answers.empty())
      Fail(ErrorKind::kData, rows[i].source, ": has no answer; SQuAD 2.0 has such questions");
    std::vector<std::string> right;
    for (const TaskAnswer& answer : rows[i].answers) right.push_back(answer.text);
    const AnswerMatch match = BestMatch(of_rows[i]->answer, right, NoWords::kScoreZero);
    exact += match.exact;
    f1 += match.f1;
  }
  const auto count = static_cast<double>(rows.size());
  return {{"exact_match", 100.0 * exact / count}, {"f1", 100.0 * f1 / count}};
}

std::vector<Metric> ScoreSquadV2At(double threshold, const TaskType& type, const std::vector<TaskRow>& rows,
                                   const std::vector<TaskPrediction>& predictions) {
  std::vector<Scored> scored = ScoreEach(type, rows, predictions);
  std::vector<Metric> measures;
  AddSums(
      "", scored, threshold, [](const Scored&) { return true; }, &measures);
  AddSums(
      "HasAns_", scored, threshold, [](const Scored& one) { return one.has_answer; }, &measures);
  AddSums(
      "NoAns_", scored, threshold, [](const Scored& one) { return !one.has_answer; }, &measures);
  if (!scored[0].prediction->no_answer) return measures;
  // `prediction` points into `predictions`: at equal values their order decides.
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
    const double first = *a.prediction->no_answer, second = *b.prediction->no_answer;
    return first < second || (first == second && a.prediction < b.prediction);
  });
  AddBest("exact", &AnswerMatch::exact, scored, &measures);
  AddBest("f1", &AnswerMatch::f1, scored, &measures);
  return measures;
}

std::vector<Metric> ScoreSquadV2(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions) {
  return ScoreSquadV2At(kSquadThreshold, type, rows, predictions);
}

}  // namespace crosstalk
