// SuperGLUE's scores, and its predictions as its site reads them.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/tasks/superglue.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

// A label as its official file has it: COPA's and MultiRC's are numbers, all others words.
Json LabelJson(const TaskType& type, const std::string& answer) {
  const bool numbers = std::string_view(type.name) == "copa" || std::string_view(type.name) == "multirc";
  if (numbers && (answer == "0" || answer == "1")) return answer == "1" ? 1 : 0;
  return answer;
}

std::string LabelText(const TaskType& type, const JsonReader& object) {
  const Json& value = object.Value("label");
  if (value.is_string()) {
    // "True" and "true" are the same to SuperGLUE's site.
    const std::string& text = value.AsString();
    for (const char* label : type.labels) {
      const std::string_view name = label;
      const bool same = std::equal(name.begin(), name.end(), text.begin(), text.end(),
                                   [](char a, char b) { return (a | 0x20) == (b | 0x20); });
      if (same) return label;
    }
    return text;
  }
  const std::vector<const char*> numbers = {"0", "1"};
  const std::vector<const char*>& labels = type.labels.empty() ? numbers : type.labels;
  const std::optional<int64_t> label = LabelOf(object, "label", labels);
  if (!label) object.FailAt("label", "is -1, which means that there is none");
  return labels[static_cast<size_t>(*label)];
}

// {"idx": 0, "passage": {"questions": [{"idx": 0, "answers": [{"idx": 0, "label": 1}, …]}, …]}}, a line a passage.
std::string MultiRcPredictions(const TaskType& type, const std::vector<TaskRow>& rows,
                               const std::vector<const TaskPrediction*>& predictions) {
  std::string contents;
  for (size_t i = 0; i < rows.size();) {
    const std::string passage = Split(rows[i].id, '/')[0];
    Json::Array questions;
    while (i < rows.size() && Split(rows[i].id, '/')[0] == passage) {
      const std::string group = rows[i].group;
      Json::Array answers;
      for (; i < rows.size() && rows[i].group == group; ++i) {
        answers.push_back(Json::MakeObject(
            {{"idx", std::stoll(Split(rows[i].id, '/')[2])}, {"label", LabelJson(type, predictions[i]->answer)}}));
      }
      questions.push_back(
          Json::MakeObject({{"idx", std::stoll(Split(group, '/')[1])}, {"answers", Json(std::move(answers))}}));
    }
    const Json line = Json::MakeObject(
        {{"idx", std::stoll(passage)}, {"passage", Json::MakeObject({{"questions", Json(std::move(questions))}})}});
    contents += line.Dump() + "\n";
  }
  return contents;
}

void ReadMultiRcPrediction(const TaskType& type, const JsonlLine& line, PredictionList* predictions) {
  const std::string passage = IdOf(line.object, line.place);
  const JsonReader body = line.object.Object("passage");
  const Json::Array& questions = body.Array("questions");
  for (size_t q = 0; q < questions.size(); ++q) {
    const std::string where = StrCat(line.where, ": passage.questions[", q, "]");
    const JsonReader question(questions[q], where);
    const Json::Array& answers = question.Array("answers");
    for (size_t a = 0; a < answers.size(); ++a) {
      const JsonReader answer(answers[a], StrCat(where, ".answers[", a, "]"));
      predictions->Add(StrCat(passage, "/", question.Int("idx"), "/", answer.Int("idx")), LabelText(type, answer),
                       StrCat("line ", line.number));
    }
  }
}

std::vector<TaskFile> WriteSuperGlue(const TaskType& type, const std::vector<TaskRow>& rows,
                                     const std::vector<TaskPrediction>& predictions, TaskSplit split) {
  const std::vector<const TaskPrediction*> ordered = PredictionsInOrder(rows, predictions);
  std::string contents;
  if (std::string_view(type.name) == "multirc") {
    contents = MultiRcPredictions(type, rows, ordered);
  } else {
    for (const TaskPrediction* prediction : ordered) {
      const Json line =
          Json::MakeObject({{"idx", std::stoll(prediction->id)}, {"label", LabelJson(type, prediction->answer)}});
      contents += line.Dump() + "\n";
    }
  }
  std::vector<TaskFile> files;
  // RTE is a task of both benchmarks.
  if (std::string_view(type.name) == "rte") files = kGlueFormat.write(type, rows, predictions, split);
  files.push_back({SuperGluePredictionsFile(type), std::move(contents)});
  return files;
}

std::vector<TaskPrediction> ReadSuperGluePredictions(const TaskType& type, const std::string& path,
                                                     const std::vector<TaskRow>& rows) {
  if (!IsJsonl(path) && std::string_view(type.name) == "rte") return kGlueFormat.read_predictions(type, path, rows);
  PredictionList predictions(path, rows);
  const bool nested = std::string_view(type.name) == "multirc";
  ForEachJsonlLine(ReadTaskFile(path), path, [&](const JsonlLine& line) {
    if (nested) return ReadMultiRcPrediction(type, line, &predictions);
    const std::string id = StrCat(line.object.Int("idx"));
    const bool text = std::string_view(type.name) == "record";
    predictions.Add(id, text ? line.object.String("label") : LabelText(type, line.object),
                    StrCat("line ", line.number));
  });
  return predictions.Take();
}

// Rows of one group, in the order in which the groups begin.
std::vector<std::vector<size_t>> Groups(const std::vector<TaskRow>& rows) {
  std::vector<std::vector<size_t>> groups;
  std::unordered_map<std::string_view, size_t> places;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [place, is_new] = places.emplace(rows[i].group, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(i);
  }
  return groups;
}

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

const TaskFormat kSuperGlueFormat = {ReadSuperGlue, SuperGlueAnswerOfText, WriteSuperGlue, ReadSuperGluePredictions};

std::vector<Metric> ScoreMultiRc(const TaskType& type, const std::vector<TaskRow>& rows,
                                 const std::vector<TaskPrediction>& predictions) {
  ScoredClasses classes = ClassesOf(type, rows, predictions);
  // An answer that is no label is wrong: the other one.
  for (size_t i = 0; i < rows.size(); ++i) {
    if (classes.answers[i] == kNoLabel) classes.answers[i] = 1 - classes.targets[i];
  }
  const std::vector<std::vector<size_t>> questions = Groups(rows);
  int64_t all_right = 0, at_most_one_wrong = 0;
  double precision = 0, recall = 0;
  for (const std::vector<size_t>& options : questions) {
    int64_t wrong = 0, right_yes = 0, target_yes = 0, answer_yes = 0;
    for (const size_t i : options) {
      wrong += classes.answers[i] != classes.targets[i];
      right_yes += classes.answers[i] * classes.targets[i];
      target_yes += classes.targets[i];
      answer_yes += classes.answers[i];
    }
    all_right += wrong == 0;
    at_most_one_wrong += wrong <= 1;
    precision += Share(right_yes, answer_yes);
    recall += Share(right_yes, target_yes);
  }
  const auto count = static_cast<int64_t>(questions.size());
  precision /= static_cast<double>(count);
  recall /= static_cast<double>(count);
  return {{"exact_match", Share(all_right, count)},
          {"f1_m", precision + recall == 0 ? 0 : 2 * recall * precision / (precision + recall)},
          {"f1_a", BinaryF1(classes.targets, classes.answers)},
          {"em1", Share(at_most_one_wrong, count)}};
}

std::vector<Metric> ScoreRecord(const TaskType& type, const std::vector<TaskRow>& rows,
                                const std::vector<TaskPrediction>& predictions) {
  return ScoreWords(type, rows, predictions, 1, " that would be right");
}

std::vector<Metric> ScoreAxG(const TaskType& type, const std::vector<TaskRow>& rows,
                             const std::vector<TaskPrediction>& predictions) {
  const ScoredClasses classes = ClassesOf(type, rows, predictions);
  std::vector<Metric> measures = {{"accuracy", Accuracy(classes.targets, classes.answers)}};
  int64_t pairs = 0, same = 0;
  for (const std::vector<size_t>& pair : Groups(rows)) {
    if (pair.size() != 2 || rows[pair[0]].group.empty()) continue;
    ++pairs;
    same += classes.answers[pair[0]] == classes.answers[pair[1]];
  }
  if (pairs > 0) measures.push_back({"gender_parity", Share(same, pairs)});
  return measures;
}

}  // namespace crosstalk
