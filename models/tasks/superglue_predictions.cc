// SuperGLUE's predictions, as its site reads them.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosstalk/models/tasks/glue.h"
#include "crosstalk/models/tasks/jsonl_line.h"
#include "crosstalk/models/tasks/superglue.h"
#include "crosstalk/models/tasks/task_files.h"
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

}  // namespace

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
  if (std::string_view(type.name) == "rte") files = WriteGlue(type, rows, predictions, split);
  files.push_back({SuperGluePredictionsFile(type), std::move(contents)});
  return files;
}

std::vector<TaskPrediction> ReadSuperGluePredictions(const TaskType& type, const std::string& path,
                                                     const std::vector<TaskRow>& rows) {
  if (!IsJsonl(path) && std::string_view(type.name) == "rte") return ReadGluePredictions(type, path, rows);
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

}  // namespace crosstalk
