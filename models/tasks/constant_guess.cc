#include "crosstalk/models/tasks/constant_guess.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "crosstalk/runtime/json.h"

namespace crosstalk {
namespace {

using Guess = std::function<std::string(const TaskRow&)>;

std::vector<Guess> Guesses(const TaskType& task, const std::vector<TaskRow>& rows) {
  std::vector<Guess> guesses;
  switch (task.form) {
    case TaskForm::kClassification:
      for (const char* label : task.labels) guesses.push_back([label](const TaskRow&) { return std::string(label); });
      break;
    case TaskForm::kRegression: {
      double sum = 0;
      for (const TaskRow& row : rows) sum += row.number;
      const std::string mean = Json(rows.empty() ? 0 : sum / static_cast<double>(rows.size())).Dump();
      guesses.push_back([mean](const TaskRow&) { return mean; });
      break;
    }
    case TaskForm::kMultipleChoice: {
      size_t most = 0;
      for (const TaskRow& row : rows) most = std::max(most, row.choices.size());
      for (size_t place = 0; place < most; ++place) {
        guesses.push_back([place](const TaskRow& row) {
          return row.choices.empty() ? "" : row.choices[std::min(place, row.choices.size() - 1)].answer;
        });
      }
      break;
    }
    case TaskForm::kSpan:
      guesses.push_back([](const TaskRow&) { return std::string(); });
      break;
  }
  return guesses;
}

}  // namespace

ConstantAnswer BestConstantAnswer(const TaskType& task, const std::vector<TaskRow>& rows) {
  ConstantAnswer best;
  double best_score = 0;
  for (const Guess& guess : Guesses(task, rows)) {
    ConstantAnswer answer;
    for (const TaskRow& row : rows) answer.predictions.push_back({row.id, guess(row), {}});
    answer.measures = task.score(task, rows, answer.predictions);
    const double score = MainScore(task, answer.measures);
    if (!best.predictions.empty() && !(score > best_score)) continue;
    best = std::move(answer);
    best_score = score;
  }
  return best;
}

}  // namespace crosstalk
