#include "crosstalk/models/tasks/scores.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/enum_names.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/packed.h"
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

std::vector<Metric> ScoreWords(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<TaskPrediction>& predictions, double best, const char* reason) {
  const std::vector<const TaskPrediction*> of_rows = PredictionsOf(type, rows, predictions, Missing::kScoresZero);
  double exact = 0, f1 = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (of_rows[i] == nullptr) continue;
    if (rows[i].answers.empty()) Fail(ErrorKind::kData, rows[i].source, ": has no answer", reason);
    std::vector<std::string> right;
    for (const TaskAnswer& answer : rows[i].answers) right.push_back(answer.text);
    const AnswerMatch match = BestMatch(of_rows[i]->answer, right, NoWords::kScoreZero);
    exact += match.exact;
    f1 += match.f1;
  }
  const auto count = static_cast<double>(rows.size());
  return {{"exact_match", best * exact / count}, {"f1", best * f1 / count}};
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

void ReadNoAnswerProbabilities(const std::string& path, const std::vector<TaskRow>& rows,
                               std::vector<TaskPrediction>* predictions) {
  const Json json = ReadJsonById(path);
  const Json::Object& values = json.AsObject();
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& [id, value] = values[i];
    if (!value.is_number()) {
      Fail(ErrorKind::kData, path, ": ", Quoted(id), ": must be a number, but is ", Name(value.type()));
    }
    places.emplace(id, i);
  }
  std::unordered_set<std::string_view> ids;
  for (const TaskRow& row : rows) ids.insert(row.id);
  const auto place_of = [&](const TaskPrediction& prediction) {
    const auto place = places.find(prediction.id);
    return place == places.end() ? values.size() : place->second;
  };
  for (TaskPrediction& prediction : *predictions) {
    const size_t place = place_of(prediction);
    if (place < values.size()) {
      prediction.no_answer = values[place].second.AsDouble();
    } else if (ids.contains(prediction.id)) {
      Fail(ErrorKind::kData, path, ": has no number for ", Quoted(prediction.id));
    }
  }
  std::stable_sort(predictions->begin(), predictions->end(),
                   [&](const TaskPrediction& a, const TaskPrediction& b) { return place_of(a) < place_of(b); });
}

std::vector<TaskPrediction> ReadTextPredictions(const TaskType& type, const std::string& path,
                                                const std::vector<TaskRow>& rows) {
  std::vector<TaskPrediction> predictions;
  if (WithoutGz(path).ends_with(".json")) {
    std::unordered_map<std::string_view, const TaskRow*> by_id;
    for (const TaskRow& row : rows) by_id.emplace(row.id, &row);
    const Json texts = ReadJsonById(path);
    for (const auto& [id, text] : texts.AsObject()) {
      const auto row = by_id.find(id);
      if (row == by_id.end()) {
        Fail(ErrorKind::kData, path, ": the id ", Quoted(id), " is not one of the scored rows");
      }
      predictions.push_back({id, type.answer_of_text(type, *row->second, StringOf(text, path, id)), {}});
    }
    return predictions;
  }
  const std::string text = ReadTaskFile(path);
  TaskLines lines(text);
  for (std::string_view line; lines.Next(&line);) {
    if (predictions.size() == rows.size()) {
      Fail(ErrorKind::kData, path, ": has more lines than the ", rows.size(), " rows that are scored");
    }
    const TaskRow& row = rows[predictions.size()];
    predictions.push_back({row.id, type.answer_of_text(type, row, std::string(line)), {}});
  }
  if (predictions.size() < rows.size()) {
    Fail(ErrorKind::kData, path, ": has ", predictions.size(), " lines for ", rows.size(),
         " rows; an answer without words is an empty line");
  }
  return predictions;
}

namespace {

struct Benchmark {
  const char* name;
  std::vector<std::vector<const char*>> tasks;  // those that are one task together stand together
};

const std::vector<Benchmark>& Benchmarks() {
  static const std::vector<Benchmark> benchmarks = {
      {"glue", {{"cola"}, {"sst-2"}, {"mrpc"}, {"sts-b"}, {"qqp"}, {"mnli-m", "mnli-mm"}, {"qnli"}, {"rte"}, {"wnli"}}},
      {"superglue", {{"boolq"}, {"cb"}, {"copa"}, {"multirc"}, {"record"}, {"rte"}, {"wic"}, {"wsc"}}},
  };
  return benchmarks;
}

const Benchmark& FindBenchmark(std::string_view name) { return FindNamed("benchmark", name, Benchmarks()); }

// The mean of those of `tasks` that have a score, and how many these are.
struct Sum {
  double sum = 0;
  int64_t count = 0;
  double Mean() const {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
  }
};

BenchmarkAverage Average(const std::string& name, const Benchmark& benchmark, std::string_view without,
                         const std::map<std::string, double>& scores) {
  Sum over_tasks;
  int64_t of = 0;
  for (const std::vector<const char*>& task : benchmark.tasks) {
    if (task[0] == without) continue;
    ++of;
    Sum over_sets;
    for (const char* set : task) {
      const auto score = scores.find(set);
      if (score == scores.end()) continue;
      over_sets.sum += score->second;
      ++over_sets.count;
    }
    if (over_sets.count == 0) continue;
    over_tasks.sum += over_sets.Mean();
    ++over_tasks.count;
  }
  return {name, over_tasks.Mean(), over_tasks.count, of};
}

}  // namespace

std::vector<std::string> BenchmarkNames() { return NamesIn(Benchmarks()); }

std::vector<std::string> BenchmarkTasks(std::string_view benchmark) {
  std::vector<std::string> names;
  for (const std::vector<const char*>& task : FindBenchmark(benchmark).tasks) {
    names.insert(names.end(), task.begin(), task.end());
  }
  return names;
}

std::vector<BenchmarkAverage> BenchmarkAverages(std::string_view benchmark,
                                                const std::map<std::string, double>& scores) {
  const Benchmark& found = FindBenchmark(benchmark);
  std::vector<BenchmarkAverage> averages = {Average("average", found, "", scores)};
  if (benchmark == "glue") averages.push_back(Average("average_without_wnli", found, "wnli", scores));
  return averages;
}

}  // namespace crosstalk
