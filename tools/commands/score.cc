// `crosstalk score`: the official measures of predictions, without a model.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/tasks/task.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"
#include "tools/cli/command.h"
#include "tools/cli/output.h"

namespace crosstalk {
namespace {

struct ScoreSettings {
  std::string task, benchmark, gold, predictions, na_probs;
  std::optional<double> na_prob_thresh;
  bool text = false;
  bool json = false;
};

FieldTable<ScoreSettings> ScoreFields() {
  using S = ScoreSettings;
  return {
      MakeOption("--task", &S::task, "NAME", "The task: " + Join(TaskNames(), ", ") + "."),
      MakeOption("--benchmark", &S::benchmark, "NAME",
                 "All tasks of glue or superglue and their average; --gold and --predictions are folders."),
      MakeOption("--gold", &S::gold, "PATH", "The task's file with labels, or a folder of tasks: its dev set.",
                 {.is_path = true, .required = true}),
      MakeOption("--predictions", &S::predictions, "PATH",
                 "The predictions, or a folder with them under their official name.",
                 {.is_path = true, .required = true}),
      MakeOption("--text", &S::text, "",
                 "Predictions are a text-to-text model's output: a line per row, or a .json with a text for each id."),
      MakeOption("--na-probs", &S::na_probs, "FILE", "SQuAD 2.0: a JSON with the probability of no answer for each id.",
                 {.is_path = true}),
      MakeOption("--na-prob-thresh", &S::na_prob_thresh, "X",
                 "SQuAD 2.0: above this there is no answer; 1 by default."),
      MakeOption("--json", &S::json, "", "Result as one JSON object.")};
}

struct TaskScore {
  const TaskType* type;
  int64_t rows;
  std::vector<Metric> measures;
};

bool IsFolder(const std::string& path) { return KindOf(path) == PathKind::kDirectory; }

// The labelled rows: a file, or what a folder of tasks has of it. RACE's is a folder itself.
std::optional<std::string> FindGold(const TaskType& type, const std::string& path) {
  if (!IsFolder(path)) return path;
  return FindTaskFile(type, path, type.dev.empty() ? TaskSplit::kTest : TaskSplit::kDev);
}

// The names that the official form has, or, of a model's words, the task's own.
std::vector<std::string> PredictionNames(const TaskType& type, bool text) {
  if (text) return {StrCat(type.name, ".txt"), StrCat(type.name, ".json")};
  std::vector<std::string> names;
  for (const TaskFile& file : type.write(type, {}, {}, TaskSplit::kDev)) names.push_back(file.name);
  return names;
}

std::optional<std::string> FindPredictions(const TaskType& type, const std::string& path, bool text) {
  if (!IsFolder(path)) return path;
  for (const std::string& name : PredictionNames(type, text)) {
    const std::string file = StrCat(path, "/", name);
    if (KindOf(file) != PathKind::kNothing) return file;
  }
  return std::nullopt;
}

// `ids` of what is said of each in a line, the first few of them.
void Warn(const std::vector<std::string>& ids, const std::string& before, const std::string& after) {
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(ids.size(), kShown); ++i) {
    PrintMessage("warning: ", before, Excerpt(ids[i]), after);
  }
  if (ids.size() > kShown) PrintMessage("warning: ", ids.size() - kShown, " more like these");
}

// Warnings about rows that the scores skip, count as 0 or count as wrong whatever they say.
void WarnOf(const TaskScore& score, const std::vector<TaskRow>& rows, const std::vector<TaskPrediction>& predictions) {
  std::unordered_set<std::string_view> asked, answered;
  for (const TaskRow& row : rows) asked.insert(row.id);
  for (const TaskPrediction& prediction : predictions) answered.insert(prediction.id);
  std::vector<std::string> missing, unknown;
  for (const TaskRow& row : rows) {
    if (!answered.contains(row.id)) missing.push_back(row.id);
  }
  for (const TaskPrediction& prediction : predictions) {
    if (!asked.contains(prediction.id)) unknown.push_back(prediction.id);
  }
  Warn(missing, "Unanswered question ", " will receive score 0.");
  Warn(unknown, "The prediction for ", " is left out: there is no such question.");
  const std::string no_label = AnswersOfNoLabel(*score.type, rows, predictions);
  if (!no_label.empty()) PrintMessage("warning: ", score.type->name, ": ", no_label);
  for (const Metric& measure : score.measures) {
    if (!std::isnan(measure.value)) continue;
    PrintMessage("warning: ", measure.name, " of ", score.type->name,
                 " is undefined (NaN): the numbers of one side are all the same, or one is not finite");
  }
}

TaskScore ScoreTask(const TaskType& type, const ScoreSettings& settings, const std::string& gold,
                    const std::string& predictions_path) {
  const std::vector<TaskRow> rows = type.read(type, gold, TaskSplit::kDev);
  std::vector<TaskPrediction> predictions = settings.text ? ReadTextPredictions(type, predictions_path, rows)
                                                          : type.read_predictions(type, predictions_path, rows);
  // A file beside the predictions counts only if the user names it, as with the script.
  for (TaskPrediction& prediction : predictions) prediction.no_answer.reset();
  if (!settings.na_probs.empty()) ReadNoAnswerProbabilities(settings.na_probs, rows, &predictions);
  TaskScore score = {&type, std::ssize(rows), {}};
  score.measures = settings.na_prob_thresh ? ScoreSquadV2At(*settings.na_prob_thresh, type, rows, predictions)
                                           : type.score(type, rows, predictions);
  WarnOf(score, rows, predictions);
  return score;
}

// Counts are integers, as the scripts print them.
Json ValueOf(const Metric& measure) {
  if (measure.name.ends_with("total")) return static_cast<int64_t>(measure.value);
  return measure.value;
}

Json MeasuresJson(const TaskScore& score) {
  Json json = Json::MakeObject();
  for (const Metric& measure : score.measures) json.Set(measure.name, ValueOf(measure));
  return json;
}

std::string ValueText(const Metric& measure) {
  if (std::isnan(measure.value)) return "undefined";
  const Json value = ValueOf(measure);
  return value.is_int() ? CountText(value.AsInt()) : FixedText(measure.value, 4);
}

std::string Padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

int ScoreOneTask(const ScoreSettings& settings) {
  const TaskType& type = FindTask(settings.task);
  const bool has_threshold = !settings.na_probs.empty() || settings.na_prob_thresh;
  CROSSTALK_CHECK(!has_threshold || type.may_lack_answers, "--na-probs and --na-prob-thresh are of squad-v2, not of ",
                  type.name);
  CROSSTALK_CHECK(!settings.na_prob_thresh || !settings.na_probs.empty(), "--na-prob-thresh needs --na-probs");
  const std::optional<std::string> predictions = FindPredictions(type, settings.predictions, settings.text);
  if (!predictions) {
    Fail(ErrorKind::kData, settings.predictions, ": has no ", Join(PredictionNames(type, settings.text), " or "));
  }
  const TaskScore score =
      ScoreTask(type, settings, FindGold(type, settings.gold).value_or(settings.gold), *predictions);
  if (settings.json) {
    PrintResult(MeasuresJson(score));
    return 0;
  }
  std::string text = StrCat(type.name, ", ", CountText(score.rows), " rows\n");
  size_t width = 0;
  for (const Metric& measure : score.measures) width = std::max(width, measure.name.size());
  for (const Metric& measure : score.measures) {
    text += StrCat("  ", Padded(measure.name, width + 2), ValueText(measure), "\n");
  }
  PrintResult(text);
  return 0;
}

int ScoreBenchmark(const ScoreSettings& settings) {
  CROSSTALK_CHECK(settings.na_probs.empty() && !settings.na_prob_thresh,
                  "--na-probs and --na-prob-thresh are of --task squad-v2");
  for (const std::string& folder : {settings.gold, settings.predictions}) {
    if (!IsFolder(folder)) Fail(ErrorKind::kData, folder, ": is not a folder; --benchmark reads folders");
  }
  Json tasks = Json::MakeObject(), missing = Json::MakeArray();
  std::map<std::string, double> scores;
  std::string text, missing_text;
  for (const std::string& name : BenchmarkTasks(settings.benchmark)) {
    const TaskType& type = FindTask(name);
    const std::optional<std::string> gold = FindGold(type, settings.gold);
    const std::optional<std::string> predictions = FindPredictions(type, settings.predictions, settings.text);
    if (!gold || !predictions) {
      missing.Append(name);
      missing_text += StrCat("  ", Padded(name, 10), gold ? "" : "no file with its labels",
                             gold || predictions ? "" : ", ", predictions ? "" : "no predictions", "\n");
      continue;
    }
    const TaskScore score = ScoreTask(type, settings, *gold, *predictions);
    scores[name] = MainScore(type, score.measures);
    tasks.Set(name, MeasuresJson(score));
    text += "  " + Padded(name, 10);
    for (const Metric& measure : score.measures) text += StrCat(measure.name, " ", ValueText(measure), "  ");
    text += "\n";
  }
  if (scores.empty()) {
    Fail(ErrorKind::kData, settings.predictions, ": has no predictions for a task of ", settings.benchmark,
         " with labels in ", settings.gold);
  }
  Json json = Json::MakeObject({{"benchmark", settings.benchmark}, {"tasks", tasks}});
  for (const BenchmarkAverage& average : BenchmarkAverages(settings.benchmark, scores)) {
    json.Set(average.name, average.value);
    text += StrCat(average.name, " ", ValueText({average.name, average.value}), ", over ", average.tasks, " of ",
                   average.of, " tasks\n");
  }
  json.Set("missing", missing);
  if (settings.json) {
    PrintResult(json);
  } else {
    PrintResult(StrCat(settings.benchmark, "\n", text, missing_text.empty() ? "" : "missing\n", missing_text));
  }
  return 0;
}

int Score(const ScoreSettings& settings) {
  CROSSTALK_CHECK(settings.task.empty() != settings.benchmark.empty(), "give either --task or --benchmark");
  return settings.task.empty() ? ScoreBenchmark(settings) : ScoreOneTask(settings);
}

}  // namespace

Command ScoreCommand() {
  return {"score", "official measures of predictions on a task",
          "Compares a file of predictions with the labelled rows of a task and prints the measures of its official "
          "script, under that script's names. Predictions are in the task's official form: "
          "SQuAD's JSON of a text for each id, GLUE's TSV, SuperGLUE's JSONL. docs/tasks.md has each task's measures "
          "and the rules for missing predictions.",
          OptionsOf(ScoreFields, Score, Computes::kNo)};
}

}  // namespace crosstalk
