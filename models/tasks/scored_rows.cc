#include "crosstalk/models/tasks/scored_rows.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

int64_t ClassOf(const TaskType& type, const TaskRow& row, const std::string& answer) {
  if (type.form == TaskForm::kMultipleChoice) {
    const auto found = std::find_if(row.choices.begin(), row.choices.end(),
                                    [&](const TaskRow::Choice& choice) { return choice.answer == answer; });
    return found == row.choices.end() ? kNoLabel : found - row.choices.begin();
  }
  const auto found = std::find(type.labels.begin(), type.labels.end(), std::string_view(answer));
  return found == type.labels.end() ? kNoLabel : found - type.labels.begin();
}

}  // namespace

std::vector<const TaskPrediction*> PredictionsOf(const TaskType& type, const std::vector<TaskRow>& rows,
                                                 const std::vector<TaskPrediction>& predictions, Missing missing) {
  if (rows.empty()) Fail(ErrorKind::kData, type.name, ": there are no rows to score");
  MatchedPredictions matched = MatchPredictions(rows, predictions);
  if (matched.doubled != nullptr) {
    Fail(ErrorKind::kData, type.name, ": two predictions have the id ", Quoted(matched.doubled->id));
  }
  const TaskRow* first_missing = nullptr;
  int64_t missing_rows = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].labelled) {
      Fail(ErrorKind::kData, rows[i].source, ": has no label, so that its prediction cannot be scored");
    }
    if (matched.of_rows[i] == nullptr && missing_rows++ == 0) first_missing = &rows[i];
  }
  if (missing_rows > 0 && missing == Missing::kIsAnError) {
    Fail(ErrorKind::kData, type.name, ": ", missing_rows, " of ", rows.size(),
         " rows have no prediction; the first is the one with the id ", Quoted(first_missing->id), " (",
         first_missing->source, ")");
  }
  return std::move(matched.of_rows);
}

ScoredClasses ClassesOf(const TaskType& type, const std::vector<TaskRow>& rows,
                        const std::vector<TaskPrediction>& predictions) {
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kIsAnError);
  ScoredClasses classes;
  for (size_t i = 0; i < rows.size(); ++i) {
    classes.targets.push_back(rows[i].label);
    classes.answers.push_back(ClassOf(type, rows[i], of_rows[i]->answer));
  }
  return classes;
}

std::optional<double> NumberOfAnswer(const std::string& text) {
  std::string_view digits = Trimmed(text);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::string AnswersOfNoLabel(const TaskType& type, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions) {
  const bool numbers = type.form == TaskForm::kRegression;
  const MatchedPredictions matched = MatchPredictions(rows, predictions);
  int64_t answers = 0, none = 0;
  const TaskPrediction* first = nullptr;
  for (size_t i = 0; i < rows.size(); ++i) {
    const TaskPrediction* const prediction = matched.of_rows[i];
    // A row with right answers in words (ReCoRD) is scored by these.
    if (prediction == nullptr || type.form == TaskForm::kSpan || !rows[i].answers.empty()) continue;
    ++answers;
    const bool is_one = numbers ? NumberOfAnswer(prediction->answer).has_value()
                                : ClassOf(type, rows[i], prediction->answer) != kNoLabel;
    if (!is_one && none++ == 0) first = prediction;
  }
  if (none == 0) return "";
  std::vector<std::string> labels(type.labels.begin(), type.labels.end());
  const auto choices_of = [](const TaskRow& row) {
    std::vector<std::string> names;
    for (const TaskRow::Choice& choice : row.choices) names.push_back(choice.answer);
    return names;
  };
  if (labels.empty() && std::all_of(rows.begin(), rows.end(),
                                    [&](const TaskRow& row) { return choices_of(row) == choices_of(rows[0]); })) {
    labels = choices_of(rows[0]);
  }
  return StrCat(none, " of ", answers, none == 1 ? " answers is no " : " answers are no ", numbers ? "number" : "label",
                none == 1 ? "" : "s", labels.empty() ? "" : " (" + Join(labels, ", ") + ")", "; the first is ",
                Quoted(first->answer), none == 1 ? "; it counts as " : "; they count as ", numbers ? "-1" : "wrong");
}

}  // namespace crosstalk
