#include <string>
#include <string_view>
#include <utility>

#include "crosstalk/models/tasks/benchmarks.h"
#include "crosstalk/models/tasks/measures.h"
#include "crosstalk/models/tasks/scores.h"
#include "crosstalk/models/tasks/task_files.h"
#include "crosstalk/models/tasks/text_to_text.h"
#include "crosstalk/runtime/atomic_file.h"
#include "crosstalk/runtime/check.h"
#include "crosstalk/runtime/json.h"
#include "crosstalk/runtime/packed.h"
#include "crosstalk/runtime/text.h"

namespace crosstalk {
namespace {

constexpr size_t kOptions = 4;
const std::vector<const char*> kLetters = {"A", "B", "C", "D"};
const std::vector<const char*> kWords = {"choice1", "choice2", "choice3", "choice4"};
constexpr const char* kSchools[] = {"high", "middle"};

// An encoder reads the article, and then the question with the option instead of its blank, or after it.
std::string WithOption(const std::string& question, const std::string& option) {
  return question.find('_') != std::string::npos ? Replaced(question, "_", option) : StrCat(question, " ", option);
}

// T5 publishes no form of RACE: this one is like COPA's, with the article last, which may have to be cut.
TaskRow ReadQuestion(const JsonReader& file, const std::string& article, size_t place, const std::string& source,
                     TaskSplit split, const TaskRowList& rows) {
  const Json::Array& options = file.Array("options");
  const std::string& question = file.Array("questions")[place].AsString();
  if (!options[place].is_array() || options[place].AsArray().size() != kOptions) {
    file.FailAt("options", "element ", place, " is no array of ", kOptions);
  }
  TaskRow row;
  row.source = source;
  row.first = article;
  std::vector<std::pair<std::string_view, std::string_view>> fields = {{"question", question}};
  for (size_t i = 0; i < kOptions; ++i) {
    const Json& option = options[place].AsArray()[i];
    if (!option.is_string()) file.FailAt("options", "element ", place, ": option ", i, " must be a string");
    rows.RequireRoom(source,
                     static_cast<double>(CountOf(question, "_")) * static_cast<double>(option.AsString().size()));
    row.choices.push_back({WithOption(question, option.AsString()), kLetters[i]});
    fields.emplace_back(kWords[i], option.AsString());
  }
  fields.emplace_back("article", article);
  row.input = TaskInput("race", fields);
  row.targets = {kNoLabelText};
  if (file.Has("answers") || split != TaskSplit::kTest) {
    const Json& answer = file.Array("answers")[place];
    const int letter = answer.is_string() ? FindWord(kLetters, answer.AsString()) : -1;
    if (letter < 0) file.FailAt("answers", "element ", place, " is none of A, B, C, D");
    row.labelled = true;
    row.label = letter;
    row.targets = {kWords[static_cast<size_t>(letter)]};
  }
  return row;
}

void ReadArticle(const std::string& path, const std::string& school, TaskSplit split, TaskRowList* rows) {
  const std::string text = ReadTaskFile(path);
  rows->BeginFile(text.size());
  const Json object = ParseJson(text, path);
  if (!object.is_object()) Fail(ErrorKind::kData, path, ": must be an object, but is ", Name(object.type()));
  const JsonReader file(object, path);
  const std::string& article = file.String("article");
  const Json::Array& questions = file.Array("questions");
  for (const char* list : {"options", "answers"}) {
    if (list == std::string_view("answers") && !file.Has(list) && split == TaskSplit::kTest) continue;
    if (file.Array(list).size() != questions.size()) {
      file.FailAt(list, file.Array(list).size(), " elements for ", questions.size(), " questions");
    }
  }
  for (size_t i = 0; i < questions.size(); ++i) {
    if (!questions[i].is_string()) file.FailAt("questions", "element ", i, " must be a string");
    const std::string source = StrCat(school, school.empty() ? "" : "/", BaseName(path), ", question ", i);
    TaskRow row = ReadQuestion(file, article, i, source, split, *rows);
    row.group = school;
    row.id = StrCat(school, BaseName(WithoutGz(path)), "-", i);
    rows->Add(std::move(row));
  }
}

void ReadSchool(const std::string& folder, const std::string& school, TaskSplit split, TaskRowList* rows) {
  for (const std::string& name : ListDirectory(folder)) {
    if (name.starts_with('.')) continue;
    if (!WithoutGz(name).ends_with(".txt")) {
      Fail(ErrorKind::kData, folder, "/", name, ": is not one of RACE's .txt files, or its folders high and middle");
    }
    ReadArticle(folder + "/" + name, school, split, rows);
  }
}

std::vector<TaskRow> ReadRace(const TaskType&, const std::string& path, TaskSplit split) {
  TaskRowList rows(path, split);
  bool found = false;
  for (const char* school : kSchools) {
    const std::string folder = StrCat(path, "/", school);
    if (KindOf(folder) != PathKind::kDirectory) continue;
    ReadSchool(folder, school, split, &rows);
    found = true;
  }
  if (!found) {
    const std::string name = BaseName(path);
    ReadSchool(path, name == kSchools[0] || name == kSchools[1] ? name : "", split, &rows);
  }
  return rows.Take();
}

std::string RaceAnswerOfText(const TaskType&, const TaskRow&, const std::string& text) {
  const int choice = FindWord(kWords, text);
  return choice < 0 ? text : kLetters[static_cast<size_t>(choice)];
}

std::vector<TaskFile> WriteRace(const TaskType&, const std::vector<TaskRow>& rows,
                                const std::vector<TaskPrediction>& predictions, TaskSplit) {
  Json::Object letters;
  for (const TaskPrediction* prediction : PredictionsInOrder(rows, predictions)) {
    letters.emplace_back(prediction->id, prediction->answer);
  }
  return {{"RACE.json", Json(std::move(letters)).DumpPretty()}};
}

std::vector<TaskPrediction> ReadRacePredictions(const TaskType&, const std::string& path,
                                                const std::vector<TaskRow>& rows) {
  const Json letters = ReadJsonById(path);
  PredictionList predictions(path, rows);
  for (const auto& [id, letter] : letters.AsObject()) predictions.Add(id, StringOf(letter, path, id), "the object");
  return predictions.Take();
}

}  // namespace

const TaskFormat kRaceFormat = {ReadRace, RaceAnswerOfText, WriteRace, ReadRacePredictions};

std::vector<Metric> ScoreRace(const TaskType& type, const std::vector<TaskRow>& rows,
                              const std::vector<TaskPrediction>& predictions) {
  const ScoredClasses all = ClassesOf(type, rows, predictions);
  std::vector<Metric> measures = {{"accuracy", Accuracy(all.targets, all.answers)}};
  for (const char* school : {"middle", "high"}) {
    ScoredClasses of_school;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].group != school) continue;
      of_school.targets.push_back(all.targets[i]);
      of_school.answers.push_back(all.answers[i]);
    }
    if (of_school.targets.empty()) continue;
    measures.push_back({std::string("accuracy_") + school, Accuracy(of_school.targets, of_school.answers)});
  }
  return measures;
}

}  // namespace crosstalk
